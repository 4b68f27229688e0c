"""From the options to what they ask for."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any

from bench import (
    budget,
    cases,
    cpu,
    growth,
    instructions,
    latency,
    machine,
    memory,
    results,
    throughput,
)
from bench.context import Context, default_server, say
from bench.options import Options
from bench.server import ROOT, TARGET, CannotMeasure, Program
from bench.wire import ServerError

PARTS: dict[str, Callable[[Context], dict[str, Any]]] = {
    "instructions": instructions.measure,
    "cpu": cpu.measure,
    "latency": latency.measure,
    "throughput": throughput.measure,
    "memory": memory.measure,
    "growth": growth.measure,
}
# The parts that need the load generator.
GENERATED = {"cpu", "latency", "throughput", "growth"}


def run(options: Options) -> int:
    """Does it; returns the exit status."""
    if options.cases:
        return _some_cases(_context(options), options)
    if options.gate:
        return _gate(_context(options), options.only)
    return _measure(_context(options), options)


def _context(options: Options) -> Context:
    if options.module is None:
        _build("redis-rl")
        module, name = TARGET / "release/libredis_rl.so", machine.built_module()
    else:
        module, name = options.module.resolve(), "a module given with --module"
        if not module.is_file():
            raise CannotMeasure(f"no module at {options.module}")
    server = Program.find(options.server) if options.server else default_server()
    return Context(module, name, server, TARGET / "release/rl-load", options.peers, options.quick)


def _measure(context: Context, options: Options) -> int:
    """Every part asked for, kept as soon as it is there; one that fails stops no other."""
    parts = options.only or list(PARTS)
    if set(parts) & GENERATED:
        _build("rl-load")
    failed = 0
    for part in parts:
        start = time.monotonic()
        try:
            data = PARTS[part](context)
        except (CannotMeasure, ServerError, OSError) as error:
            say(f"{part}: {error}")
            failed = 1
            continue
        servers = " and ".join(data.pop("servers", [context.server.name]))
        data["measured on"] = machine.describe(context, servers)
        results.keep(options.out, part, data)
        say(f"{part}: {time.monotonic() - start:.0f} s")
    return failed


def _gate(context: Context, only: list[str]) -> int:
    checks = {"instructions": budget.check_instructions, "memory": budget.check_memory}
    # All of them, even after one that failed.
    within = [checks[part](context) for part in only or checks]
    return 0 if all(within) else 1


def _build(package: str) -> None:
    say(f"building {package}")
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-p", package]
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise CannotMeasure(f"cargo could not build {package}")


def _some_cases(context: Context, options: Options) -> int:
    """Counts the cases asked for beside SET PX, and writes nothing but profiles."""
    known = cases.all_cases(options.peers)
    asked = [text.lower() for text in options.cases]
    chosen = [case for case in known if any(text in case.name.lower() for text in asked)]
    if not chosen:
        raise CannotMeasure("no such case; cases:\n  " + "\n  ".join(case.name for case in known))
    reference = next(case for case in known if case.name == "SET PX")
    if options.profile is not None:
        options.profile.mkdir(parents=True, exist_ok=True)
    for following in (instructions.ALONE, instructions.AOF):
        both = [reference, *(case for case in chosen if case is not reference)]
        counts = instructions.count(context, both, following, options.profile)
        print(following)
        for name, counted in counts.items():
            ratio = counted.whole / counts["SET PX"].whole
            own = f"{counted.module:8,.0f} in the module"
            print(f"  {counted.whole:10,.0f}  {own}  {ratio:6.3f} x SET PX  {name}")
    return 0
