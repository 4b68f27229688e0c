"""A connection that sends commands encoded beforehand, many at a time."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from typing import Union

Reply = Union[int, bytes, None, "list[Reply]"]


class ServerError(Exception):
    """An error reply."""


def encode(*words: str | bytes | int) -> bytes:
    """A command as it goes over the wire."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        raw = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(raw), raw))
    return b"".join(parts)


class Connection:
    """One client connection. Errors in replies are raised."""

    def __init__(self, port: int, timeout: float = 120) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._replies = self._socket.makefile("rb")

    def close(self) -> None:
        self._replies.close()
        self._socket.close()

    def call(self, *words: str | bytes | int) -> Reply:
        """Sends one command and returns its reply."""
        return self.send([encode(*words)])[0]

    def send(self, commands: Sequence[bytes]) -> list[Reply]:
        """Sends encoded commands in one write and returns their replies."""
        self._socket.sendall(b"".join(commands))
        return [self._read() for _ in commands]

    def send_all(self, commands: Iterable[bytes], batch: int = 50) -> list[Reply]:
        """Sends any number of encoded commands, so many at a time."""
        replies: list[Reply] = []
        pending: list[bytes] = []
        for command in commands:
            pending.append(command)
            if len(pending) == batch:
                replies += self.send(pending)
                pending = []
        if pending:
            replies += self.send(pending)
        return replies

    def info(self, section: str) -> dict[str, str]:
        """The fields of a section of INFO."""
        text = self.call("INFO", section)
        assert isinstance(text, bytes)
        lines = text.decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def _read(self) -> Reply:
        line = self._replies.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b":":
            return int(rest)
        if kind == b"+":
            return rest
        if kind == b"$":
            length = int(rest)
            return None if length < 0 else self._replies.read(length + 2)[:-2]
        if kind == b"*":
            return [self._read() for _ in range(int(rest))]
        raise ServerError(rest.decode(errors="replace"))
