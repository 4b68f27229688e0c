"""The cases whose instructions are counted.

Each is a command sent to every one of a set of keys, round after round, after a
preparation that isn't counted. The server's wall clock stands still but for the
steps that a case asks for, so that a case is the same in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench import commands
from bench.commands import Peer

MINUTE_MS = 60_000


@dataclass(frozen=True)
class Step:
    """A part of the preparation: a command to every key, and then the clock moves."""

    command: str
    times: int = 1
    advance_ms: int = 0
    # Sent one time and not to every key.
    once: bool = False


@dataclass(frozen=True)
class Case:
    name: str
    command: str
    setup: Sequence[Step]
    # What the first (or only) integer of every reply must be; None: not looked at.
    reply: int | None = None
    keys: int = 500
    rounds: int = 16
    # How far the clock moves before each round.
    step_ms: int = 0


def plain() -> list[Case]:
    """The server's own commands, on keys with a TTL."""
    exists = [Step(commands.SET_PX)]
    return [
        Case("GET", commands.GET, exists),
        Case("INCR", commands.INCR, [Step("SET {key} 100 PX 60000")]),
        Case("SET PX", commands.SET_PX, exists),
    ]


def take(name: str, limit: str, capacity: int) -> list[Case]:
    """A take on an existing key, admitted and refused."""
    command = f"RL.TAKE {{key}} {limit}"
    return [
        Case(f"{name}, admitted", command, [Step(command)], reply=1),
        Case(f"{name}, refused", command, [Step(f"{command} COST {capacity}")], reply=0),
    ]


def sliding_log() -> list[Case]:
    """A log of 100 entries: in each round the oldest expires and a new one comes."""
    second_ms = 1000
    admitted = "RL.TAKE {key} SLIDINGLOG 150 100"
    full = "RL.TAKE {key} SLIDINGLOG 100 100"
    return [
        Case(
            "SLIDINGLOG of 100 entries, admitted",
            admitted,
            [Step(admitted, times=100, advance_ms=second_ms)],
            reply=1,
            keys=64,
            rounds=125,
            step_ms=second_ms,
        ),
        Case(
            "SLIDINGLOG of 100 entries, refused",
            full,
            # At one instant they would be one entry.
            [Step(full, times=100, advance_ms=1)],
            reply=0,
            keys=64,
            rounds=125,
        ),
    ]


def sliding_window() -> list[Case]:
    """With both of its windows in use."""
    limit = "SLIDINGWINDOW 100 60"
    command = f"RL.TAKE {{key}} {limit}"
    before = Step(f"{command} COST 50", advance_ms=MINUTE_MS)
    return [
        Case(f"{limit}, admitted", command, [before, Step(command)], reply=1),
        Case(
            f"{limit}, refused",
            command,
            [before, Step(f"{command} ATMOST 100")],
            reply=0,
        ),
    ]


def other_limits() -> list[Case]:
    return [
        *take("GCRA", "GCRA 100 60 BURST 20", 20),
        *take("LEAKYBUCKET", "LEAKYBUCKET 100 60 BURST 20", 20),
        *take("FIXEDWINDOW 100 60", "FIXEDWINDOW 100 60", 100),
        *sliding_window(),
        *sliding_log(),
    ]


def lua() -> list[Case]:
    command, all_at_once = commands.LUA, commands.LUA_TAKING_ALL
    return [
        Case("Lua script, admitted", command, [Step(command)], reply=1, keys=150),
        Case("Lua script, refused", command, [Step(all_at_once)], reply=0, keys=150),
    ]


def several(count: int) -> str:
    """A take of so many limits in full, the token bucket the first."""
    more = [f"TOKENBUCKET {n}00 3600 BURST {n}00" for n in range(2, count + 1)]
    return " ".join([commands.TAKE, *more])


def two_limits() -> list[Case]:
    full, bare = several(2), f"{commands.BARE_TAKE} 1000 3600"
    return [
        Case("two limits, admitted", full, [Step(full)], reply=1),
        Case("two limits, refused", full, [Step(f"{full} COST 20")], reply=0),
        Case("two limits bare, admitted", bare, [Step(bare)], reply=1),
    ]


def peers(others: Sequence[Peer]) -> list[Case]:
    """Replies differ from module to module, so they are not looked at."""
    cases = []
    for peer in others:
        once, often = [Step(peer.command)], [Step(peer.command, times=40)]
        cases += [
            Case(f"{peer.name}, first 17 takes of a key", peer.command, once),
            Case(f"{peer.name}, after 40 takes of a key", peer.command, often),
        ]
    return cases


def all_cases(others: Sequence[Peer] = ()) -> list[Case]:
    peeked = [Step(f"{commands.TAKE} COST 10")]
    throttle = commands.THROTTLE
    return [
        *plain(),
        *take("RL.TAKE", commands.TOKEN_BUCKET, 20),
        *take("RL.TAKE bare", "100 60", 100),
        Case("RL.PEEK", commands.PEEK, peeked, reply=1),
        *other_limits(),
        *two_limits(),
        Case("RL.THROTTLE, admitted", throttle, [Step(throttle)], reply=0),
        Case("RL.THROTTLE, refused", throttle, [Step(f"{throttle} 20")], reply=1),
        *lua(),
        *peers(others),
    ]
