"""(a) Instructions per command inside the server, nobody following and with the AOF on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import cases
from bench.callgrind import CountingServer
from bench.cases import Case
from bench.context import Context, say
from bench.table import Table

ALONE = "nobody following"
AOF = "AOF everysec"

Counts = dict[str, float]


def count(
    context: Context, chosen: Sequence[Case], following: str, profiles: Path | None = None
) -> Counts:
    """Counts the chosen cases in one run of one server."""
    counts: Counts = {}
    say(f"{context.server.name} under callgrind, {following}")
    with CountingServer(context.server, context.modules, following == AOF) as server:
        for case in chosen:
            profile = profiles / _file_name(case.name, following) if profiles else None
            counts[case.name] = round(server.count(case, profile), 1)
            say(f"  {counts[case.name]:10,.0f}  {case.name}")
    return counts


def measure(context: Context) -> dict[str, Any]:
    chosen = cases.all_cases(context.peers)
    return {
        "commands": {case.name: case.command for case in chosen},
        "instructions": {way: count(context, chosen, way) for way in (ALONE, AOF)},
    }


def report(data: dict[str, Any]) -> str:
    table = Table("command", ALONE, "x SET PX", AOF, "x SET PX")
    alone, aof = data["instructions"][ALONE], data["instructions"][AOF]
    for name in alone:
        cells: list[str] = []
        for counts in (alone, aof):
            cells += (f"{counts[name]:,.0f}", f"{counts[name] / counts['SET PX']:.2f}")
        table.row(name, *cells)
    return (
        "Instructions that the server's process runs per command, from reading it to writing its "
        "reply, outside the kernel. Counted by callgrind, not sampled, so they hardly depend on "
        "the machine and repeat to within 0.5 %: 50 commands in a write, 500 keys of 17 bytes with "
        "a TTL, each in turn; the log has 100 entries, of which one goes as another comes. "
        "[bench/callgrind.py](../../bench/callgrind.py) says how. *AOF everysec* is with "
        f"`appendonly yes` and `appendfsync everysec`.\n\n{table}"
    )


def _file_name(case: str, following: str) -> str:
    words = case.replace(",", "").replace(" ", "-").lower()
    return f"callgrind.{words}{'.aof' if following == AOF else ''}"
