"""A wall clock for a server that stands still until it is moved (tests/clock)."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

from bench.server import ROOT, TARGET, CannotMeasure

HOUR_US = 3_600_000_000
# 2026-01-01 00:00:00 UTC
START_US = 1_767_225_600_000_000


class Clock:
    """The clock of one server; its file lies in the given directory."""

    def __init__(self, directory: Path) -> None:
        self._library = _build()
        self._path = directory / "clock"
        self._now_us = START_US
        self._path.write_bytes(struct.pack("=q", self._now_us))

    def environment(self) -> dict[str, str]:
        """What makes a server use it."""
        return {"LD_PRELOAD": str(self._library), "RL_CLOCK_FILE": str(self._path)}

    def advance(self, milliseconds: int) -> None:
        self._set(self._now_us + milliseconds * 1000)

    def next_hour(self) -> None:
        """To the next full hour, where every window in use here begins."""
        self._set((self._now_us // HOUR_US + 1) * HOUR_US)

    def _set(self, now_us: int) -> None:
        self._now_us = now_us
        # In place: the server has this very file mapped.
        with self._path.open("r+b") as file:
            file.write(struct.pack("=q", now_us))


def _build() -> Path:
    """The library that scripts/test builds too, from the same source."""
    source, library = ROOT / "tests/clock/clock.c", TARGET / "clock/librlclock.so"
    if library.exists() and library.stat().st_mtime >= source.stat().st_mtime:
        return library
    if shutil.which("cc") is None:
        raise CannotMeasure("no C compiler here: Debian packages gcc and libc6-dev")
    library.parent.mkdir(parents=True, exist_ok=True)
    # -ldl: an empty library since glibc 2.34, needed before.
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=True)
    return library
