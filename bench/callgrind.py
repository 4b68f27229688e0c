"""Counts the instructions of a server, command by command.

The server runs under valgrind's callgrind, which counts every instruction of
the process outside the kernel: the event loop, reading and parsing, the
command, the reply. Callgrind writes and clears its counters whenever the server
enters echoCommand (--dump-before), so one ECHO before the commands and one
after mark off exactly what they cost; what the two ECHOs themselves cost is
measured once and taken off. Nothing is sampled.

Two things keep a figure the same from run to run: the server's wall clock
stands still (tests/clock), and its own chores, which come by the second and not
by the command, are not counted (--toggle-collect=serverCron).
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from bench import commands
from bench.cases import Case
from bench.clock import Clock
from bench.server import CannotMeasure, Program, Server

# So many commands go to the server in one write, and are answered in one.
PIPELINE = 50

AOF = ("--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0")

# A module may do more while it can't be sure that nobody follows. It is given
# some turns to see it, by either clock, before anything is counted.
TURNS = 4
TURN_SECONDS = 1


@dataclass(frozen=True)
class Count:
    """Instructions per command, and how many of them are the module's own: the rest is
    what the server spends, on the commands and on what the module calls in it."""

    whole: float
    module: float


class CountingServer:
    """A server under callgrind, with a wall clock that moves when told to."""

    def __init__(self, program: Program, modules: Sequence[Path], aof: bool) -> None:
        if shutil.which("valgrind") is None:
            raise CannotMeasure("no valgrind here: Debian package valgrind")
        self._program = program.bare()
        self._modules = modules
        # The allocator's own thread waits by the wall clock, so it would spin.
        self._settings = ["--jemalloc-bg-thread", "no", *(AOF if aof else ())]

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="redis-rl-count."))
            self._dumps = Path(directory)
            self._clock = Clock(self._dumps)
            wrapper = [
                *("valgrind", "--quiet", "--tool=callgrind", "--dump-before=echoCommand"),
                *("--toggle-collect=serverCron", "--collect-atstart=yes"),
                # So that a dump can be read by itself.
                *("--compress-strings=no", "--compress-pos=no"),
                f"--callgrind-out-file={self._dumps}/counts",
            ]
            environment = self._clock.environment()
            server = Server(self._program, self._modules, self._settings, wrapper, environment)
            self._connection = stack.enter_context(server).connection
            self._lua = commands.load_lua(self._connection)
            for _ in range(TURNS):
                self._clock.next_hour()
                time.sleep(TURN_SECONDS)
            self._marks = 0
            self._mark()
            self._marking = self._mark()
            # All is well: what was begun ends with the `with` of whoever asked.
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def count(self, case: Case, profile: Path | None = None) -> Count:
        """Counts a case; the profile by function is put where asked."""
        self._connection.call("FLUSHALL", "SYNC")
        self._clock.next_hour()
        keys = [commands.key(index) for index in range(case.keys)]
        for step in case.setup:
            prepared = keys[:1] if step.once else keys
            encoded = [commands.fill(step.command, key, self._lua) for key in prepared]
            for _ in range(step.times):
                self._connection.send_all(encoded, PIPELINE)
                self._clock.advance(step.advance_ms)

        encoded = [commands.fill(case.command, key, self._lua) for key in keys]
        replies = []
        self._mark()
        for _ in range(case.rounds):
            self._clock.advance(case.step_ms)
            replies += self._connection.send_all(encoded, PIPELINE)
        counted = self._mark(profile)
        _check(case, replies)
        whole = counted.whole - self._marking.whole
        return Count(round(whole / len(replies), 1), round(counted.module / len(replies), 1))

    def _mark(self, profile: Path | None = None) -> Count:
        """Instructions since the last mark, in all."""
        self._connection.call("ECHO", "mark")
        self._marks += 1
        dump = self._dumps / f"counts.{self._marks}"
        if not dump.exists():
            raise CannotMeasure(f"{self._program.name} has no symbol echoCommand to count from")
        with dump.open() as lines:
            counted = _add_up(lines, {str(module) for module in self._modules})
        if profile is not None:
            shutil.copy(dump, profile)
        dump.unlink()
        return counted


def _add_up(lines: Iterable[str], modules: set[str]) -> Count:
    """The cost lines of a dump ("line instructions"), under the object that each belongs to.
    The one after a "calls=" is what was called, which stands again in its own place."""
    whole = in_modules = 0
    in_module = called = False
    for line in lines:
        if line.startswith("ob="):
            in_module = line[3:].strip() in modules
        elif line.startswith("calls="):
            called = True
        elif line[0].isdigit():
            if not called:
                cost = int(line.split()[1])
                whole += cost
                in_modules += cost if in_module else 0
            called = False
    return Count(whole, in_modules)


def _check(case: Case, replies: Sequence[object]) -> None:
    """A case that didn't do what its name says would be a wrong figure."""
    if case.reply is None:
        return
    for reply in replies:
        first = reply[0] if isinstance(reply, list) else reply
        if first != case.reply:
            raise CannotMeasure(f"{case.name}: {case.command!r} answered {reply!r}")
