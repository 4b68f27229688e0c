"""(f) How the cost of a take grows: with its limits, with a log's entries, with the keys."""

from __future__ import annotations

import statistics
from typing import Any

from bench import cpu, workloads
from bench.callgrind import CountingServer
from bench.cases import Case, Step, several
from bench.context import Context, say
from bench.generator import loaded
from bench.table import Table

LIMITS = range(1, 9)
ENTRIES = (10, 100, 1_000, 10_000, 100_000)
KEYS = (1, 1_000, 100_000, 1_000_000, 5_000_000)

LOG_TAKE = "RL.TAKE {key} SLIDINGLOG 100000 <entries>ms"


def measure(context: Context) -> dict[str, Any]:
    # A quick run leaves out what takes long to fill.
    entries = [count for count in ENTRIES if not context.quick or count <= 1_000]
    keys = [count for count in KEYS if not context.quick or count <= 100_000]
    with CountingServer(context.server, context.modules, aof=False) as server:
        by_limits, by_entries = _by_limits(server), _by_entries(server, entries)
    return {
        "commands": {
            "three limits": several(3),
            "log": LOG_TAKE,
            **workloads.commands_of(workloads.for_any_number_of_keys()),
        },
        "instructions by limits": by_limits,
        "instructions by log entries": by_entries,
        "nanoseconds by keys": _by_keys(context, keys),
    }


def _by_limits(server: CountingServer) -> dict[str, float]:
    say("instructions by number of limits")
    counts = {}
    for count in LIMITS:
        command = several(count)
        case = Case(f"{count} limits", command, [Step(command)], reply=1)
        counts[str(count)] = server.count(case).whole
        say(f"  {counts[str(count)]:10,.0f}  {case.name}")
    return counts


def _by_entries(server: CountingServer, lengths: list[int]) -> dict[str, float]:
    """A log that is always as long: with every take one entry goes."""
    say("instructions by entries of a SLIDINGLOG")
    counts = {}
    for length in lengths:
        command = LOG_TAKE.replace("<entries>", str(length))
        case = Case(
            f"{length} entries",
            command,
            [
                Step(command.format(key="log"), times=length, advance_ms=1, once=True),
                Step("COPY log {key}"),
            ],
            reply=1,
            keys=10,
            rounds=200,
            step_ms=1,
        )
        counts[str(length)] = server.count(case).whole
        say(f"  {counts[str(length)]:10,.0f}  {case.name}")
    return counts


def _by_keys(context: Context, sizes: list[int]) -> dict[str, dict[str, float]]:
    """CPU time, because what grows is not the work but the way to the memory."""
    rounds, requests = (3, 40_000) if context.quick else (7, 200_000)
    chosen = workloads.for_any_number_of_keys()
    times: dict[str, dict[str, float]] = {workload.name: {} for workload in chosen}
    say("CPU time by number of keys")
    with loaded(context, chosen, sizes[0]) as servers:
        for size in sizes:
            for server in servers:
                server.grow(size)
            samples = [
                [cpu.nanoseconds(server, requests) for server in servers] for _ in range(rounds)
            ]
            for index, server in enumerate(servers):
                median = statistics.median(sample[index] for sample in samples)
                times[server.name][str(size)] = round(median, 1)
                say(f"  {size:9,} keys: {median:6,.0f} ns  {server.name}")
    return times


def report(data: dict[str, Any]) -> str:
    limits = Table("limits on the key", "instructions")
    for count, counted in data["instructions by limits"].items():
        limits.row(count, f"{counted:,.0f}")
    entries = Table("entries in the log", "instructions")
    for count, counted in data["instructions by log entries"].items():
        entries.row(f"{int(count):,}", f"{counted:,.0f}")
    by_keys = data["nanoseconds by keys"]
    keys = Table("keys", *(f"{name}, ns" for name in by_keys))
    for count in next(iter(by_keys.values())):
        keys.row(f"{int(count):,}", *(f"{times[count]:,.0f}" for times in by_keys.values()))
    return (
        "Instructions of an admitted RL.TAKE, counted as above, by the token buckets that the "
        f"key carries, each given in full:\n\n{limits}\n"
        "by the entries of a SLIDINGLOG of which one goes as another comes (10 commands in a "
        f"write instead of 50, so each bears more of the event loop):\n\n{entries}\n"
        "and CPU time of a command, measured as above, pipelined, by the number of keys in the "
        f"server, any of them next:\n\n{keys}"
    )
