"""The options of scripts/bench; its help is the script's head comment."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from bench.commands import Peer
from bench.server import ROOT, TARGET

PARTS = {
    "a": "instructions",
    "b": "cpu",
    "c": "latency",
    "d": "throughput",
    "e": "memory",
    "f": "growth",
}


@dataclass(frozen=True)
class Options:
    # Empty: what is usual.
    only: list[str]
    gate: bool
    quick: bool
    cases: list[str]
    profile: Path | None
    module: Path | None
    server: str | None
    peers: list[Peer]
    out: Path


def parse(words: list[str]) -> Options:
    parser = argparse.ArgumentParser(
        prog="bench", usage="scripts/bench --help", add_help=False, allow_abbrev=False
    )
    parser.add_argument("--only", type=_parts, default=[])
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--case", action="append", default=[], dest="cases")
    parser.add_argument("--profile", type=Path)
    parser.add_argument("--module", type=Path)
    parser.add_argument("--server")
    parser.add_argument("--peer", action="append", default=[], type=_peer, dest="peers")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(words)
    if given.out is None:
        given.out = TARGET / "bench" if given.quick else ROOT / "docs/bench"
    if given.profile is not None and not given.cases:
        parser.error("--profile goes with --case")
    if given.gate and not set(given.only) <= {"instructions", "memory"}:
        parser.error("--gate knows instructions and memory")
    return Options(**vars(given))


def _parts(text: str) -> list[str]:
    names = [PARTS.get(word, word) for word in text.split(",")]
    for name in names:
        if name not in PARTS.values():
            known = ", ".join(f"{letter} or {part}" for letter, part in PARTS.items())
            raise argparse.ArgumentTypeError(f"unknown part '{name}': {known}")
    return names


def _peer(text: str) -> Peer:
    try:
        return Peer.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
