"""What the load generator sends: a command on many keys, each prepared by another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench import commands
from bench.commands import Peer

HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Workload:
    name: str
    command: str
    # Sent once on every key beforehand.
    fill: str
    # What the first integer of a reply is if the command did as its name says.
    verdict: int | None = None
    peer: Peer | None = None


# For an hour: no key expires while it is measured.
_SET = f"SET {{key}} {commands.VALUE} PX {HOUR_MS}"
SET_PX = Workload("SET PX", _SET, _SET)

# A hundred an hour in bursts of up to 1000, and a hundred of them taken: no key
# is full or gone while it is measured, however long a run takes.
_LIMIT = "{key} TOKENBUCKET 100 3600 BURST 1000"
_LUA = "EVALSHA {lua} 1 {key} 1000 0.02777777777777778"

TAKE = Workload("RL.TAKE, admitted", f"RL.TAKE {_LIMIT}", f"RL.TAKE {_LIMIT} COST 100", verdict=1)
LUA = Workload("Lua script, admitted", f"{_LUA} 1", f"{_LUA} 100", verdict=1)

# All taken, and 20 a day drain again.
_FULL = "{key} TOKENBUCKET 20 86400 BURST 20"
_FULL_LUA = "EVALSHA {lua} 1 {key} 20 0.000231"

REFUSED = Workload("RL.TAKE, refused", f"RL.TAKE {_FULL}", f"RL.TAKE {_FULL} COST 20", verdict=0)


def of_peers(peers: Sequence[Peer]) -> list[Workload]:
    return [Workload(peer.name, peer.command, peer.command, peer=peer) for peer in peers]


def usual(peers: Sequence[Peer]) -> list[Workload]:
    """The commands that are compared by the time they take."""
    return [
        Workload("GET", commands.GET, _SET),
        Workload("INCR", commands.INCR, f"SET {{key}} 100 PX {HOUR_MS}"),
        SET_PX,
        TAKE,
        REFUSED,
        Workload("RL.PEEK", f"RL.PEEK {_LIMIT}", f"RL.TAKE {_LIMIT} COST 100", verdict=1),
        LUA,
        Workload("Lua script, refused", f"{_FULL_LUA} 1", f"{_FULL_LUA} 20", verdict=0),
        *of_peers(peers),
    ]


def for_any_number_of_keys() -> list[Workload]:
    """The same with limits that a single key can bear."""
    take = "RL.TAKE {key} TOKENBUCKET 10000000 86400 BURST 10000000"
    lua = "EVALSHA {lua} 1 {key} 10000000 115.74"
    return [
        SET_PX,
        replace(TAKE, command=take, fill=f"{take} COST 500000"),
        replace(LUA, command=f"{lua} 1", fill=f"{lua} 500000"),
    ]


def commands_of(workloads: Sequence[Workload]) -> dict[str, str]:
    """By name, for beside the figures."""
    return {workload.name: workload.command for workload in workloads}
