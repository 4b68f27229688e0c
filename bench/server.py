"""A server of its own for a measurement: pinned to a core, and gone afterwards."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.wire import Connection

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))

# The server has the last core to itself, and whatever drives it the first.
CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE = CORES[-1]
CLIENT_CORE = CORES[0]


class CannotMeasure(Exception):
    """Something that a measurement needs is not here; the text says what."""


@dataclass(frozen=True)
class Program:
    """A server's program and what it needs around it."""

    name: str  # "Redis 7.0.15"
    path: Path
    library_path: Path | None = None

    @staticmethod
    def find(path: str) -> Program:
        """The server at PATH, a file or a name, asked for its version."""
        found = shutil.which(path)
        if found is None:
            raise CannotMeasure(f"no server at {path}")
        said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
        match = re.search(r"^(Redis|Valkey) server v=([0-9.]+)", said.stdout)
        if match is None:
            raise CannotMeasure(f"{found} does not answer --version as a server does")
        return Program(f"{match[1]} {match[2]}", Path(found))

    @staticmethod
    def fetched(name: str) -> Program:
        """One that scripts/servers fetches: redis-7.0, valkey-9.1, ..."""
        got = subprocess.run(
            [ROOT / "scripts/servers", name], stdout=subprocess.PIPE, text=True, check=False
        )
        if got.returncode != 0:
            raise CannotMeasure(f"scripts/servers could not fetch {name}")
        return Program.find(got.stdout.split()[2])

    def bare(self) -> Program:
        """The program itself, where `path` is a script that starts it with its libraries."""
        home = self.path.resolve().parent.parent
        real = home / "libexec" / self.path.name
        if not real.exists():
            return self
        if (home / "lib/ld-linux-x86-64.so.2").exists():
            raise CannotMeasure(f"{self.name} runs with a libc of its own: not under valgrind")
        return Program(self.name, real, home / "lib")

    def is_version(self, prefix: str) -> bool:
        return self.name.split()[1].startswith(prefix)


class Server:
    """A running server. Use it in a `with`: it ends with it, and so do its files."""

    def __init__(
        self,
        program: Program,
        modules: Sequence[Path] = (),
        settings: Sequence[str] = (),
        wrapper: Sequence[str | Path] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        self.program = program
        self.directory = Path(tempfile.mkdtemp(prefix="redis-rl-bench."))
        self.port = free_port()
        self._command: list[str | Path] = ["taskset", "-c", str(SERVER_CORE), *wrapper]
        self._command += [program.path, "--port", str(self.port), "--bind", "127.0.0.1"]
        self._command += ["--dir", self.directory, "--save", "", "--daemonize", "no", *settings]
        for module in modules:
            self._command += ["--loadmodule", module]
        self._environment = dict(os.environ, **(environment or {}))
        if program.library_path is not None:
            self._environment["LD_LIBRARY_PATH"] = str(program.library_path)
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def connection(self) -> Connection:
        assert self._connection is not None
        return self._connection

    def __enter__(self) -> Self:
        log = self.directory / "log"
        with log.open("wb") as out:
            # A session of its own: a Ctrl-C here is ours to handle.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )
        try:
            self._connection = self._connect(log)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _connect(self, log: Path) -> Connection:
        deadline = time.monotonic() + 60
        while True:
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                lines = log.read_text(errors="replace").splitlines()[-12:]
                raise CannotMeasure("\n  ".join([f"{self.program.name} did not start:", *lines]))
            try:
                connection = Connection(self.port)
            except OSError:
                time.sleep(0.05)
                continue
            connection.call("PING")
            return connection

    def _stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port
