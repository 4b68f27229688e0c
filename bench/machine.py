"""What a measurement was made on."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import date
from pathlib import Path

from bench.context import Context
from bench.server import ROOT


def describe(context: Context, servers: str) -> dict[str, str]:
    """The servers, the modules, the machine and the day, for beside the figures."""
    modules = [context.module_name]
    modules += [f"{peer.name} as `{peer.command}`" for peer in context.peers]
    return {
        "servers": servers,
        "modules": ", ".join(modules),
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "kernel": f"{platform.system()} {_kernel()}",
        "date": date.today().isoformat(),
    }


def sentence(on: dict[str, str]) -> str:
    """The same as a piece of text."""
    return (
        f"{on['servers']} with {on['modules']}, on {on['processor']} with {on['cores']} cores, "
        f"{on['kernel']}, {on['date']}"
    )


def built_module() -> str:
    """Version and commit of the module that this tree builds."""
    version = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    name = f"redis-rl {version[1] if version else '?'}"
    commit = _git("rev-parse", "--short=10", "HEAD")
    if not commit:
        return name
    changed = " and changes" if _git("status", "--porcelain", "--", "src", "core/src") else ""
    return f"{name} (commit {commit}{changed})"


def _git(*words: str) -> str:
    try:
        said = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return said.stdout.strip()


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    match = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    family = re.search(r"^cpu family\s*: (\d+)$", text, re.MULTILINE)
    model = re.search(r"^model\s*: (\d+)$", text, re.MULTILINE)
    if match is None:
        return platform.machine()
    # Virtual machines often name only the maker; family and model say which.
    detail = f" (family {family[1]}, model {model[1]})" if family and model else ""
    return f"{match[1]}{detail}"


def _kernel() -> str:
    match = re.match(r"[0-9.]+", platform.release())
    return match[0].rstrip(".") if match else platform.release()
