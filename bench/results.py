"""Keeps what was measured, part by part, and writes it as JSON, tables and pictures.

A part that is measured anew takes the place of what was there of it; the others
stay, each with the machine and the day of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import cpu, growth, instructions, latency, machine, memory, throughput

RAW = "results.json"

# In the order of the page: the part's title and what makes its text.
Report = Callable[[dict[str, Any]], str]
SECTIONS: dict[str, tuple[str, Report]] = {
    "instructions": ("Instructions per command", instructions.report),
    "cpu": ("CPU time per command", cpu.report),
    "latency": ("Latency under load", latency.report),
    "throughput": ("Pipelined throughput", throughput.report),
    "memory": ("Memory", memory.report),
    "growth": ("How the cost grows", growth.report),
}

HEAD = """# Benchmarks

What the commands cost, beside what the server itself spends on a plain command and beside the
same limit written as a Lua script ([token_bucket.lua](../../bench/token_bucket.lua)). This page,
the pictures and [the raw numbers](results.json) are written by

    scripts/bench

which needs no more than this repository and the package registries. `scripts/bench --help` tells
the rest. *SET PX* is `SET key <16 bytes> PX 60000`; a take in full is
`RL.TAKE key TOKENBUCKET 100 60 BURST 20`, a bare one `RL.TAKE key 100 60`.
"""


def keep(directory: Path, part: str, data: dict[str, Any]) -> None:
    """Puts a part into the raw numbers, draws it, and writes the page anew."""
    # Here, because what draws is not there for a run that only counts.
    from bench import plots

    raw = directory / RAW
    directory.mkdir(parents=True, exist_ok=True)
    results = json.loads(raw.read_text()) if raw.exists() else {}
    results[part] = data
    ordered = {name: results[name] for name in SECTIONS if name in results}
    raw.write_text(json.dumps(ordered, indent=1) + "\n")
    (directory / "README.md").write_text(page(ordered))
    plots.draw(part, data, directory)


def page(results: dict[str, Any]) -> str:
    """The page of all parts that there are."""
    parts = [HEAD]
    for name, data in results.items():
        title, report = SECTIONS[name]
        parts.append(
            f"\n## {title}\n\n![{title}]({name}.svg)\n\n{report(data)}\n"
            f"Measured on {machine.sentence(data['measured on'])}.\n"
        )
    return "".join(parts)
