"""(c) Latency under a steady load that does not wait for the server."""

from __future__ import annotations

import statistics
from typing import Any

from bench import workloads
from bench.context import Context, say
from bench.generator import LoadedServer, loaded
from bench.server import CannotMeasure
from bench.table import Table

KEYS = 200_000
RATE = 50_000
STEP = 5_000
CONNECTIONS = 200

# A rate is carried if hardly anybody waits long: a server that falls behind
# passes this in no time, and a machine's own hiccups do not.
CARRIED_P99_US = 10_000
TRIAL_SECONDS = 4


def measure(context: Context) -> dict[str, Any]:
    rounds, seconds = (1, 3) if context.quick else (5, 20)
    chosen = [workloads.SET_PX, workloads.TAKE, workloads.REFUSED, workloads.LUA]
    chosen += workloads.of_peers(context.peers)
    with loaded(context, chosen, KEYS) as servers:
        rate = _carried(servers[0])
        runs: dict[str, list[dict[str, Any]]] = {server.name: [] for server in servers}
        for number in range(rounds):
            for server in servers:
                say(f"  round {number + 1}: {server.name}, {rate:,} a second for {seconds} s")
                runs[server.name].append(server.paced(rate, seconds, CONNECTIONS))
    return {
        "commands": workloads.commands_of(chosen),
        "keys": KEYS,
        "connections": CONNECTIONS,
        "wanted rate": RATE,
        "rate": rate,
        "rounds": rounds,
        "seconds": seconds,
        "runs": runs,
    }


def _carried(server: LoadedServer) -> int:
    """The highest rate, up to RATE, that this machine carries with plain SET."""
    for rate in range(RATE, 0, -STEP):
        # A second try, because a machine may hiccup once.
        for _ in range(2):
            p99 = server.paced(rate, TRIAL_SECONDS, CONNECTIONS)["latency_us"]["99"]
            say(f"latency: {server.name} at {rate:,} a second: p99 {p99:,.0f} us")
            if p99 <= CARRIED_P99_US:
                return rate
    raise CannotMeasure(f"this machine does not carry even {STEP:,} SETs a second now")


def medians(data: dict[str, Any]) -> dict[str, dict[str, float]]:
    """For each command its percentiles, each the median over the rounds."""
    return {
        name: {
            percent: statistics.median(run["latency_us"][percent] for run in runs)
            for percent in runs[0]["latency_us"]
        }
        for name, runs in data["runs"].items()
    }


def between(data: dict[str, Any], name: str, percent: str) -> str:
    """The least and the most that a percentile of a command was in any round."""
    rounds = [run["latency_us"][percent] for run in data["runs"][name]]
    return f"{min(rounds):,.0f} to {max(rounds):,.0f}"


def report(data: dict[str, Any]) -> str:
    percents = ("50", "99", "99.9")
    heads = [f"p{percent}, µs" for percent in percents]
    table = Table("command", *heads, "answered a second", "client late, µs")
    for name, latency in medians(data).items():
        runs = data["runs"][name]
        cells = [
            f"{latency[percent]:,.0f} ({between(data, name, percent)})" for percent in percents
        ]
        answered = statistics.median(run["requests"] / run["seconds"] for run in runs)
        late = max(run["client_behind_us"] for run in runs)
        table.row(name, *cells, f"{answered:,.0f}", f"{late:,.0f}")
    why = (
        ""
        if data["rate"] == data["wanted rate"]
        else f" (the most that this machine carries with plain SET, of {data['wanted rate']:,})"
    )
    return (
        f"{data['keys']:,} keys in random order, {data['rate']:,} requests a second{why} offered "
        f"at fixed intervals over {data['connections']} connections, one request at a time on "
        "each. Latency runs from the instant at which a request was due, whether or not it could "
        f"be sent then. {data['rounds']} interleaved rounds of {data['seconds']} s: medians, and in "
        "brackets the least and the most of a round. The last column is how late the client "
        "itself was at its worst, which is part of the latencies too.\n\n" + str(table)
    )
