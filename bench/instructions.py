"""(a) Instructions per command inside the server, nobody following and with the AOF on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import cases
from bench.callgrind import Count, CountingServer
from bench.cases import Case
from bench.context import Context, say
from bench.table import Table

ALONE = "nobody following"
AOF = "AOF everysec"

Counts = dict[str, Count]


def count(
    context: Context, chosen: Sequence[Case], following: str, profiles: Path | None = None
) -> Counts:
    """Counts the chosen cases in one run of one server."""
    counts: Counts = {}
    say(f"{context.server.name} under callgrind, {following}")
    with CountingServer(context.server, context.modules, following == AOF) as server:
        for case in chosen:
            profile = profiles / _file_name(case.name, following) if profiles else None
            counts[case.name] = server.count(case, profile)
            say(f"  {counts[case.name].whole:10,.0f}  {case.name}")
    return counts


def measure(context: Context) -> dict[str, Any]:
    chosen = cases.all_cases(context.peers)
    counts = {way: count(context, chosen, way) for way in (ALONE, AOF)}
    return {
        "commands": {case.name: case.command for case in chosen},
        "instructions": {
            way: {name: one.whole for name, one in of.items()} for way, of in counts.items()
        },
        "of them in modules": {
            way: {name: one.module for name, one in of.items()} for way, of in counts.items()
        },
    }


def report(data: dict[str, Any]) -> str:
    table = Table("command", ALONE, "in the module", "x SET PX", AOF, "in the module", "x SET PX")
    for name in data["commands"]:
        cells: list[str] = []
        for way in (ALONE, AOF):
            counts, own = data["instructions"][way], data["of them in modules"][way][name]
            ratio = counts[name] / counts["SET PX"]
            cells += (f"{counts[name]:,.0f}", f"{own:,.0f}" if own else "", f"{ratio:.2f}")
        table.row(name, *cells)
    return (
        "Instructions that the server's process runs per command, from reading it to writing its "
        "reply, outside the kernel. Counted by callgrind, not sampled, so they hardly depend on "
        "the machine and repeat to within 0.5 %: 50 commands in a write, 500 keys of 17 bytes with "
        "a TTL, each in turn; the log has 100 entries, of which one goes as another comes. *In the "
        "module* is what of it the module's own code runs; the rest is the server's, reading the "
        "words, finding the key and writing the reply. "
        "[bench/callgrind.py](../../bench/callgrind.py) says how. *AOF everysec* is with "
        f"`appendonly yes` and `appendfsync everysec`.\n\n{table}"
    )


def _file_name(case: str, following: str) -> str:
    words = case.replace(",", "").replace(" ", "-").lower()
    return f"callgrind.{words}{'.aof' if following == AOF else ''}"
