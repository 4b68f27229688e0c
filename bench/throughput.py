"""(d) Commands a second when the server is kept busy with pipelines."""

from __future__ import annotations

import statistics
from typing import Any

from bench import workloads
from bench.context import Context, say
from bench.generator import loaded
from bench.table import Table

KEYS = 200_000
CONNECTIONS = 50
DEPTH = 16


def measure(context: Context) -> dict[str, Any]:
    rounds, requests = (3, 100_000) if context.quick else (9, 300_000)
    say(f"pipelined throughput, {rounds} rounds")
    words = ("--connections", str(CONNECTIONS), "--depth", str(DEPTH))
    chosen = workloads.usual(context.peers)
    with loaded(context, chosen, KEYS) as servers:
        rates: dict[str, list[float]] = {server.name: [] for server in servers}
        for number in range(rounds):
            say(f"  round {number + 1}")
            for server in servers:
                result = server.pipelined(requests, *words)
                rates[server.name].append(round(result["requests"] / result["seconds"]))
    return {
        "commands": workloads.commands_of(chosen),
        "keys": KEYS,
        "rounds": rounds,
        "commands a second": rates,
    }


def medians(data: dict[str, Any]) -> dict[str, float]:
    return {name: statistics.median(each) for name, each in data["commands a second"].items()}


def report(data: dict[str, Any]) -> str:
    table = Table("command", "commands a second", "x SET PX")
    rates = medians(data)
    for name, rate in rates.items():
        table.row(name, f"{rate:,.0f}", f"{rate / rates[workloads.SET_PX.name]:.2f}")
    return (
        f"{CONNECTIONS} connections with {DEPTH} commands on their way on each, {data['keys']:,} "
        f"keys in random order, server and client on a core each, median of {data['rounds']} "
        "interleaved rounds.\n\n" + str(table)
    )
