"""Runs the load generator, bench/load, on the client's core."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench import commands
from bench.context import Context
from bench.server import CLIENT_CORE, CannotMeasure, Server
from bench.workloads import Workload

# So many connections, and requests at a time on each, when the server is to be kept busy.
BUSY = ("--connections", "8", "--depth", "50")


class LoadedServer:
    """A server with its keys prepared, and the generator aimed at it."""

    def __init__(self, context: Context, server: Server, workload: Workload, keys: int) -> None:
        self.server = server
        self.name = workload.name
        self._generator: Path = context.load
        self._workload = workload
        self._lua = commands.load_lua(server.connection)
        self._keys = 0
        self.grow(keys)

    def grow(self, keys: int) -> None:
        """Sends the workload's preparation to every key there is to be."""
        self._keys = keys
        self._run("pipelined", self._workload.fill, keys, "--in-order", *BUSY, requests=keys)

    def pipelined(self, requests: int, *words: str) -> dict[str, Any]:
        """As fast as the server answers; `words` are options of the generator."""
        command = self._workload.command
        result = self._run("pipelined", command, self._keys, *(words or BUSY), requests=requests)
        self._check(result)
        return result

    def paced(self, rate: int, seconds: int, connections: int) -> dict[str, Any]:
        """At fixed intervals."""
        command = self._workload.command
        result = self._run(
            "paced", command, self._keys, rate=rate, seconds=seconds, connections=connections
        )
        self._check(result)
        return result

    def _run(
        self, mode: str, command: str, keys: int, *words: str, **numbers: int
    ) -> dict[str, Any]:
        sent = [self._lua if word == "{lua}" else word for word in command.split()]
        options = [f"--port={self.server.port}", f"--keys={keys}"]
        options += [f"--{name}={number}" for name, number in numbers.items()]
        split = [part for option in options for part in option.split("=")]
        line: list[str | Path] = ["taskset", "-c", str(CLIENT_CORE), self._generator]
        line += [mode, *split, *words, "--", *sent]
        ran = subprocess.run(line, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            raise CannotMeasure(f"{self._workload.name}: {ran.stderr.strip()}")
        result = json.loads(ran.stdout)
        assert isinstance(result, dict)
        return result

    def _check(self, result: dict[str, Any]) -> None:
        """A workload that didn't do what its name says would be a wrong figure."""
        if self._workload.verdict is None:
            return
        share = result["admitted"] / result["requests"]
        if abs(share - self._workload.verdict) > 0.001:
            raise CannotMeasure(f"{self._workload.name}: {share:.1%} of the requests were admitted")


@contextmanager
def loaded(
    context: Context, workloads: Sequence[Workload], keys: int
) -> Iterator[list[LoadedServer]]:
    """A server of its own for each workload, so that their keys don't mix."""
    with ExitStack() as stack:
        servers = []
        for workload in workloads:
            module = workload.peer.path if workload.peer else context.module
            server = stack.enter_context(Server(context.server, [module]))
            servers.append(LoadedServer(context, server, workload, keys))
        yield servers
