"""(e) Bytes per key, and per entry of a sliding log."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import commands
from bench.clock import Clock
from bench.context import Context, say
from bench.server import CannotMeasure, Program, Server
from bench.table import Table
from bench.wire import Connection, encode

KEYS = 200_000
SERVERS = ("redis-7.0", "redis-8.2", "valkey-9.1")

SET_PX = "SET PX, 16 bytes"
TAKE = "RL.TAKE TOKENBUCKET"
LUA = "Lua script (a hash)"

# Limits that drain slowly, so that no key is gone before it is counted.
CONTENTS = {
    SET_PX: f"SET {{key}} {commands.VALUE} PX 3600000",
    TAKE: "RL.TAKE {key} TOKENBUCKET 100 3600 BURST 20 COST 10",
    "RL.TAKE FIXEDWINDOW": "RL.TAKE {key} FIXEDWINDOW 100 86400",
    "RL.TAKE SLIDINGWINDOW": "RL.TAKE {key} SLIDINGWINDOW 100 86400",
    "RL.TAKE of two limits": "RL.TAKE {key} 100 3600 1000 86400 COST 10",
    LUA: "EVALSHA {lua} 1 {key} 20 0.02777777777777778 10",
}

LOG_ENTRIES = (100, 1_000, 10_000)

Bytes = dict[str, float]


def measure(context: Context) -> dict[str, Any]:
    names = [peer.name for peer in context.peers]
    per_key: dict[str, Bytes] = {}
    per_entry: dict[str, Bytes] = {}
    for name in SERVERS:
        program = Program.fetched(name)
        per_key[program.name] = bytes_per_key(context, program, [*CONTENTS, *names])
        per_entry[program.name] = bytes_per_entry(context, program)
    return {
        "servers": list(per_key),
        "commands": {**CONTENTS, **{peer.name: peer.command for peer in context.peers}},
        "keys": KEYS,
        "bytes per key": per_key,
        "bytes per log entry": per_entry,
    }


def bytes_per_key(context: Context, program: Program, names: Sequence[str]) -> Bytes:
    """For each of the contents named, on a new server each; a peer's name stands for its own."""
    peers = {peer.name: peer for peer in context.peers}
    measured: Bytes = {}
    for name in names:
        command = CONTENTS[name] if name in CONTENTS else peers[name].command
        module = peers[name].path if name in peers else context.module
        with Server(program, [module]) as server:
            connection = server.connection
            lua = commands.load_lua(connection)
            before = _used_memory(connection)
            keys = (commands.key(index) for index in range(KEYS))
            connection.send_all((commands.fill(command, key, lua) for key in keys), batch=1000)
            after = _used_memory(connection)
            if connection.call("DBSIZE") != KEYS:
                raise CannotMeasure(f"{name}: some of the keys are gone already")
        measured[name] = round((after - before) / KEYS, 1)
        say(f"{program.name}: {measured[name]} bytes a key, {name}")
    return measured


def bytes_per_entry(context: Context, program: Program) -> Bytes:
    """A log that is always as long, and of which one entry goes as another comes: the most that
    the key takes in a time in which every entry is replaced twice, by entry that still counts."""
    measured: Bytes = {}
    for entries in LOG_ENTRIES:
        with tempfile.TemporaryDirectory(prefix="redis-rl-clock.") as directory:
            clock = Clock(Path(directory))
            with Server(program, [context.module], environment=clock.environment()) as server:
                take = encode("RL.TAKE", "log", "SLIDINGLOG", 100_000, f"{entries}ms")
                size = encode("MEMORY", "USAGE", "log")
                most = 0
                for turn in range(3 * entries):
                    clock.advance(1)
                    _, used = server.connection.send([take, size])
                    assert isinstance(used, int)
                    if turn >= entries:
                        most = max(most, used)
        measured[str(entries)] = round(most / entries, 2)
        say(f"{program.name}: {measured[str(entries)]} bytes an entry, log of {entries}")
    return measured


def report(data: dict[str, Any]) -> str:
    per_key, per_entry = data["bytes per key"], data["bytes per log entry"]
    keys = Table("content", *per_key)
    for content in per_key[next(iter(per_key))]:
        keys.row(content, *(f"{of[content]:.1f}" for of in per_key.values()))
    entries = Table("entries that count", *per_entry)
    for count in per_entry[next(iter(per_entry))]:
        entries.row(f"{int(count):,}", *(f"{of[count]:.1f}" for of in per_entry.values()))
    return (
        f"Bytes per key: what used_memory grew by with {data['keys']:,} keys of 17 bytes, "
        f"each with a TTL.\n\n{keys}\nBytes per entry of a SLIDINGLOG whose every take comes a "
        "millisecond after the last and drops one: the most that MEMORY USAGE said while all "
        f"entries were replaced twice, so room that is kept to spare is in it.\n\n{entries}"
    )


def _used_memory(connection: Connection) -> int:
    """When the server has done what it does after the last command, such as rehashing."""
    readings: list[int] = []
    while len(readings) < 4 or max(readings[-4:]) - min(readings[-4:]) > KEYS // 100:
        time.sleep(0.15)
        readings.append(int(connection.info("memory")["used_memory"]))
    return readings[-1]
