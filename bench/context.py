"""What every part of the bench is told."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from bench.commands import Peer
from bench.server import CannotMeasure, Program

# The budget speaks of this version.
VERSION = "7.0"


@dataclass(frozen=True)
class Context:
    module: Path
    # Version and commit of the module, for beside the figures.
    module_name: str
    server: Program
    # The load generator; a part that needs none may be run without.
    load: Path
    peers: list[Peer] = field(default_factory=list)
    quick: bool = False

    @property
    def modules(self) -> list[Path]:
        """Peers first: a name that two modules want is theirs."""
        return [*(peer.path for peer in self.peers), self.module]


def default_server() -> Program:
    """Redis 7.0: the one on PATH, or else the one that scripts/servers fetches."""
    try:
        on_path = Program.find("redis-server")
        if on_path.is_version(VERSION):
            return on_path
    except CannotMeasure:
        pass
    return Program.fetched(f"redis-{VERSION}")


def say(text: str) -> None:
    """Progress, on stderr."""
    print(f"bench: {text}", file=sys.stderr, flush=True)
