"""The commands that are measured, as clients write them. `{key}` stands for the key."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.wire import Connection, encode

LUA_SOURCE = (Path(__file__).parent / "token_bucket.lua").read_text()

VALUE = "0123456789abcdef"

GET = "GET {key}"
INCR = "INCR {key}"
SET_PX = f"SET {{key}} {VALUE} PX 60000"

# A hundred a minute in bursts of up to 20.
TOKEN_BUCKET = "TOKENBUCKET 100 60 BURST 20"
TAKE = f"RL.TAKE {{key}} {TOKEN_BUCKET}"
BARE_TAKE = "RL.TAKE {key} 100 60"
PEEK = f"RL.PEEK {{key}} {TOKEN_BUCKET}"
THROTTLE = "RL.THROTTLE {key} 19 100 60"
# The script's arguments: burst, tokens a second, cost.
LUA = "EVALSHA {lua} 1 {key} 20 1.6666666666666667 1"
LUA_TAKING_ALL = "EVALSHA {lua} 1 {key} 20 1.6666666666666667 20"


def key(index: int) -> str:
    """A key of 17 bytes."""
    return f"rl:user:{index:09d}"


def fill(template: str, name: str, lua: str = "") -> bytes:
    """A template as an encoded command on a key; `lua` is the script's SHA-1."""
    words = template.split()
    return encode(*(name if w == "{key}" else lua if w == "{lua}" else w for w in words))


def load_lua(connection: Connection) -> str:
    """Loads the script and returns its SHA-1."""
    sha = connection.call("SCRIPT", "LOAD", LUA_SOURCE)
    assert isinstance(sha, bytes)
    return sha.decode()


@dataclass(frozen=True)
class Peer:
    """Another module to measure in the same run."""

    name: str
    path: Path
    command: str

    @staticmethod
    def parse(text: str) -> Peer:
        """NAME=PATH,COMMAND as --peer takes it."""
        name, equals, rest = text.partition("=")
        path, comma, command = rest.partition(",")
        if not (name and equals and path and comma) or "{key}" not in command.split():
            raise ValueError("must be NAME=PATH,COMMAND, the command with {key} as its key")
        return Peer(name, Path(path).resolve(), command)
