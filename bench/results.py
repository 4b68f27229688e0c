"""Keeps what was measured, part by part, and writes it as JSON, tables and pictures.

A part that is measured anew takes the place of what was there of it; the others
stay, each with the machine and the day of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import budget, cpu, growth, instructions, latency, machine, memory, throughput, workloads
from bench.table import Table

RAW = "results.json"
# Of the raw numbers. What was written in another form is not read, but measured anew.
FORMAT = 2

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
the rest. *SET PX* sets 16 bytes that expire; a take in full names its limit and its burst
(`TOKENBUCKET count period BURST burst`), a bare one does not (`count period`). Each part lists its
commands.
"""


def keep(directory: Path, part: str, data: dict[str, Any]) -> None:
    """Puts a part into the raw numbers, draws it, and writes the page anew."""
    # Here, because what draws is not there for a run that only counts.
    from bench import plots

    raw = directory / RAW
    directory.mkdir(parents=True, exist_ok=True)
    results = json.loads(raw.read_text()) if raw.exists() else {}
    if results.get("format") != FORMAT:
        results = {}
    results[part] = data
    ordered = {name: results[name] for name in SECTIONS if name in results}
    raw.write_text(json.dumps({"format": FORMAT, **ordered}, indent=1) + "\n")
    (directory / "README.md").write_text(page(ordered))
    plots.draw(part, data, directory)


def page(results: dict[str, Any]) -> str:
    """The page of all parts that there are."""
    parts = [HEAD]
    if SUMMED_UP <= results.keys():
        parts.append(f"\n{summary(results)}")
    for name, data in results.items():
        title, report = SECTIONS[name]
        parts.append(
            f"\n## {title}\n\n![{title}]({name}.svg)\n\n{report(data)}\n"
            f"Measured on {machine.sentence(data['measured on'])}.\n\n{_commands(data)}"
        )
    if {"instructions", "memory"} <= results.keys():
        parts.append(f"\n## The goals\n\n{budget.report(results)}")
    return "".join(parts)


def _commands(data: dict[str, Any]) -> str:
    table = Table("", "command")
    for name, command in data["commands"].items():
        table.row(name, f"`{command}`")
    return f"<details><summary>Commands</summary>\n\n{table}\n</details>\n"


SUMMED_UP = {"instructions", "cpu", "latency", "throughput", "memory"}


def summary(results: dict[str, Any]) -> str:
    """One table of what each part says of the same few commands."""
    chosen = (workloads.SET_PX, workloads.TAKE, workloads.REFUSED, workloads.LUA)
    commands = [workload.name for workload in chosen]
    counts = results["instructions"]["instructions"][instructions.ALONE]
    times = cpu.medians(results["cpu"]["nanoseconds"]["one by one"])
    load = results["latency"]
    waits = latency.medians(load)
    rates = throughput.medians(results["throughput"])
    at = f"latency at {load['rate']:,} a second"
    rows = {
        "instructions in the server": [f"{counts[name]:,.0f}" for name in commands],
        "CPU time, one at a time, µs": [f"{times[name][0] / 1000:.1f}" for name in commands],
        f"{at}, p50, µs": [f"{waits[name]['50']:,.0f}" for name in commands],
        f"{at}, p99, µs, by round": [latency.between(load, name, "99") for name in commands],
        "commands a second, pipelined": [f"{rates[name]:,.0f}" for name in commands],
    }
    for server, per_key in results["memory"]["bytes per key"].items():
        # Of a refused take the key is the same.
        of = [per_key[name] for name in (memory.SET_PX, memory.TAKE, memory.TAKE, memory.LUA)]
        rows[f"bytes a key, {server}"] = [f"{value:.0f}" for value in of]
    table = Table("", *commands)
    for what, cells in rows.items():
        table.row(what, *cells)
    return str(table)
