"""(b) CPU time of the server per command, in interleaved rounds."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from bench import workloads
from bench.context import Context, say
from bench.generator import BUSY, LoadedServer, loaded
from bench.table import Table

KEYS = 200_000

# One command at a time on each of 50 connections, as most clients send them.
ONE_BY_ONE = ("--connections", "50", "--depth", "1")


def measure(context: Context) -> dict[str, Any]:
    rounds, requests = (3, 40_000) if context.quick else (15, 200_000)
    ways: dict[str, tuple[int, tuple[str, ...]]] = {
        "pipelined": (requests, BUSY),
        "one by one": (requests // 4, ONE_BY_ONE),
    }
    say(f"CPU time per command, {rounds} rounds")
    chosen = workloads.usual(context.peers)
    with loaded(context, chosen, KEYS) as servers:
        times: dict[str, dict[str, list[float]]] = {
            way: {server.name: [] for server in servers} for way in ways
        }
        for number in range(rounds):
            say(f"  round {number + 1}")
            for way, (count, words) in ways.items():
                for server in servers:
                    times[way][server.name].append(round(nanoseconds(server, count, *words), 1))
    return {
        "commands": workloads.commands_of(chosen),
        "keys": KEYS,
        "rounds": rounds,
        "nanoseconds": times,
    }


def medians(times: dict[str, list[float]]) -> dict[str, tuple[float, float]]:
    """For each command its nanoseconds and its ratio to SET PX in the same round."""
    reference = times[workloads.SET_PX.name]
    return {
        name: (
            statistics.median(each),
            statistics.median(one / other for one, other in zip(each, reference)),
        )
        for name, each in times.items()
    }


def report(data: dict[str, Any]) -> str:
    table = Table("command", "pipelined, ns", "x SET PX", "one by one, ns", "x SET PX")
    pipelined = medians(data["nanoseconds"]["pipelined"])
    one_by_one = medians(data["nanoseconds"]["one by one"])
    for name, (time, ratio) in pipelined.items():
        slow_time, slow_ratio = one_by_one[name]
        table.row(name, f"{time:,.0f}", f"{ratio:.2f}", f"{slow_time:,.0f}", f"{slow_ratio:.2f}")
    return (
        f"CPU time of the server's threads by the kernel's own accounting, {data['keys']:,} keys "
        f"in random order, each command on a server of its own, {data['rounds']} interleaved "
        "rounds; medians of the times, and of their ratios to SET PX in the same round. "
        "Pipelined: 8 connections with 50 commands on their way; one by one: 50 connections with "
        "one, where most of the time is the kernel's network.\n\n" + str(table)
    )


def nanoseconds(server: LoadedServer, requests: int, *words: str) -> float:
    """CPU time per command; `words` are options of the generator."""
    before = _on_cpu(server.server.pid)
    server.pipelined(requests, *words)
    return (_on_cpu(server.server.pid) - before) / requests


def _on_cpu(pid: int) -> int:
    """Nanoseconds that all threads of a process have run."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks)
