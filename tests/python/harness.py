"""Real servers with the module loaded, a clock that tests set, and short names for the commands.

A `Server` is one process in a folder of its own, on a free port, stopped by its process id.
A `Clock` is the wall clock of every server of the run: a mapped file that the preloaded shim
reads. A `Limiter` says `take("k", "10 60")` and gives back the five numbers by name.
"""

import mmap
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections import namedtuple
from decimal import Decimal
from pathlib import Path

import redis

ROOT = Path(__file__).resolve().parents[2]

# Every test starts at this instant. It is the start of a day, an hour, a minute and of every
# window that divides them, so a table may count its seconds from the turn of a window.
START_US = 1_893_456_000 * 1_000_000  # 2030-01-01T00:00:00Z

KINDS = ["TOKENBUCKET", "GCRA", "LEAKYBUCKET", "FIXEDWINDOW", "SLIDINGWINDOW", "SLIDINGLOG"]
BUCKETS = KINDS[:3]

Reply = namedtuple("Reply", "allowed remaining wait_ms reset_ms limit")
Detail = namedtuple("Detail", "remaining wait_ms reset_ms limit")
Throttled = namedtuple("Throttled", "limited limit remaining retry_after_s reset_after_s")


def wait_until(condition, seconds=15):
    """Poll until `condition()` is true: for what a server does on its own, never for time to pass."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"still not true after {seconds} s")
        time.sleep(0.002)
    return result


def free_port():
    """A free port whose cluster bus port (10000 higher) exists and is free too."""
    while True:
        with socket.socket() as probe, socket.socket() as bus:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            if port + 10_000 > 65_535:
                continue
            try:
                bus.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
            return port


class Clock:
    """The servers' wall clock, in microseconds since the epoch; 0 lets the real one through."""

    def __init__(self, path):
        self.path = path
        path.write_bytes(struct.pack("=q", START_US))
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8)

    @property
    def now_us(self):
        return struct.unpack("=q", self._map[:8])[0]

    def set_us(self, microseconds):
        self._map[:8] = struct.pack("=q", microseconds)

    def set(self, seconds):
        """Set to `seconds` after START; text such as "10.2" stays exact."""
        self.set_us(START_US + int(Decimal(str(seconds)) * 1_000_000))

    def advance(self, seconds=0, ms=0, us=0):
        step = int(Decimal(str(seconds)) * 1_000_000) + ms * 1_000 + us
        self.set_us(self.now_us + step)

    def real(self):
        self.set_us(0)


class Server:
    """One server process. `module=None` starts it bare."""

    # Options that only newer servers know, learnt once from the first server of the run.
    _optional = ["--enable-debug-command", "yes", "--enable-module-command", "yes"]

    def __init__(self, binary, module, clock=None, shim=None, args=()):
        self.binary, self.module, self.clock, self.shim = str(binary), module, clock, shim
        self.args = [str(a) for a in args]
        self.directory = Path(tempfile.mkdtemp(prefix="rl-test-"))
        self.process = None
        self.up = False  # should be running; a test that kills it says so through kill()
        self._clients = []

    # Life

    def start(self):
        for _ in range(5):
            self.port = free_port()
            if self._launch():
                self.up = True
                return self
            log = self.log()
            if "enable-debug-command" in log and Server._optional:
                Server._optional = []
            elif "in use" not in log and "bind" not in log:
                break
        raise RuntimeError(f"{self.binary} did not start:\n{self.log()}")

    def _launch(self):
        command = [self.binary, "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--dir", str(self.directory), "--save", "", "--loglevel", "notice"]
        # A replica is served at once, and nothing but commands moves the replication offset.
        command += ["--repl-diskless-sync", "no", "--repl-ping-replica-period", "3600"]
        # The test clock jumps by days: no link may be called dead for that.
        command += ["--repl-timeout", "1000000000"]
        command += Server._optional + self.args
        if self.module:
            command += ["--loadmodule", str(self.module)]
        environment = dict(os.environ)
        if self.clock and self.shim:
            environment |= {"LD_PRELOAD": str(self.shim), "RL_CLOCK_FILE": str(self.clock.path)}
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        try:
            wait_until(lambda: self.exited or self._ready())
        except TimeoutError:
            self.kill()
        return not self.exited

    def _ready(self):
        try:
            with Raw(self.port) as raw:
                return raw("PING") == b"PONG"
        except OSError:
            return False

    @property
    def exited(self):
        return self.process is None or self.process.poll() is not None

    def kill(self):
        """As a crash would: nothing more is written."""
        self.up = False
        self._disconnect()
        if self.process:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def stop(self):
        self.up = False
        self._disconnect()
        if not self.exited:
            self.process.terminate()
            try:
                self.process.wait(3)
            except subprocess.TimeoutExpired:
                self.kill()

    def remove(self):
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _disconnect(self):
        for client in self._clients:
            client.close()
        self._clients.clear()

    def log(self):
        path = self.directory / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    # Talk

    def client(self, **options):
        options = {"protocol": 2, "socket_timeout": 20, **options}
        client = redis.Redis(port=self.port, **options)
        self._clients.append(client)
        return client

    def raw(self):
        raw = Raw(self.port)
        self._clients.append(raw)
        return raw

    def limiter(self, **options):
        return Limiter(self.client(**options))

    # Ask

    def knows(self, command):
        """Does this server have the command? Newer features are found by the commands they came with."""
        with Raw(self.port) as raw:
            return raw("COMMAND", "INFO", command) not in ([None], [], None)

    def knows_subcommand(self, command, subcommand):
        with Raw(self.port) as raw:
            return any(subcommand in str(line).upper() for line in raw(command, "HELP"))

    def info(self, section, field):
        with Raw(self.port) as raw:
            for line in raw("INFO", section).decode().splitlines():
                name, _, value = line.partition(":")
                if name == field:
                    return value
        raise KeyError(field)

    @property
    def dirty(self):
        return int(self.info("persistence", "rdb_changes_since_last_save"))

    @property
    def offset(self):
        return int(self.info("replication", "master_repl_offset"))

    def replica_of(self, primary):
        with self.raw() as raw:
            raw("REPLICAOF", "127.0.0.1", str(primary.port))
        wait_until(lambda: self.info("replication", "master_link_status") == "up")

    def caught_up_with(self, primary):
        """Wait until this replica has everything. WAIT would do, but it writes to the link itself."""
        goal = primary.offset
        wait_until(lambda: int(self.info("replication", "slave_repl_offset")) >= goal)


class Error(str):
    """An error reply, whole: redis-py takes the code off."""


class Raw:
    """A connection that gives replies as they are on the wire, errors as values."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.reader = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.reader.close()
        self.socket.close()

    def __call__(self, *args):
        self.socket.sendall(encode(args))
        return self.read()

    def read(self):
        line = self.reader.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b"-":
            return Error(rest.decode(errors="replace"))
        if kind == b":":
            return int(rest)
        if kind in b"$=":
            return None if rest == b"-1" else self.reader.read(int(rest) + 2)[:-2]
        if kind in b"*~>":
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        if kind == b"%":
            return {_hashable(self.read()): self.read() for _ in range(int(rest))}
        return {b"_": None, b"#t": True, b"#f": False}.get(kind + rest[:1].strip(), rest)

    def flood(self, calls):
        """Send `calls`, encoded, over and over: yields the replies' bytes of each round. The next round is
        on its way while one is read, so the server never waits for its client."""
        request, ahead = calls + encode(["PING"]), b""
        self.socket.sendall(request)
        try:
            while True:
                self.socket.sendall(request)
                reply, ahead = self._until_pong(ahead)
                yield reply
        finally:
            self._until_pong(ahead)

    def _until_pong(self, ahead):
        while (end := ahead.find(b"+PONG\r\n")) < 0:
            ahead += self.socket.recv(1 << 20)
        return ahead[:end], ahead[end + 7 :]


def _hashable(value):
    return tuple(value) if isinstance(value, list) else value


def encode(args):
    parts = [b"*%d\r\n" % len(args)]
    for arg in args:
        arg = arg if isinstance(arg, bytes) else str(arg).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(arg), arg))
    return b"".join(parts)


def words(args):
    """`("10 60 COST", 3)` → `["10", "60", "COST", "3"]`; bytes stay one word."""
    result = []
    for arg in args:
        result += [arg] if isinstance(arg, bytes) else str(arg).split()
    return result


class Limiter:
    """The commands, with replies by name."""

    def __init__(self, client):
        self.client = client

    def call(self, *args):
        return self.client.execute_command(*args)

    def take(self, key, *args):
        return Reply(*self.call("RL.TAKE", key, *words(args)))

    def peek(self, key, *args):
        return Reply(*self.call("RL.PEEK", key, *words(args)))

    def give(self, key, *args):
        return Reply(*self.call("RL.GIVE", key, *words(args)))

    def mtake(self, keys, *args):
        return Reply(*self.call("RL.MTAKE", len(keys), *keys, *words(args)))

    def throttle(self, key, *args, command="RL.THROTTLE"):
        return Throttled(*self.call(command, key, *words(args)))

    def detailed(self, verb, *args):
        """The five, and one Detail a limit: `detailed("RL.TAKE", "k", "10 1 100 60 COST 2")`."""
        *five, detail = self.call(verb, *words(args), "DETAIL")
        return Reply(*five), [Detail(*d) for d in detail]

    def do(self, key, limits, call):
        """One line of a table: "take COST 3", "peek", "give COST 2", …"""
        verb, *options = call.split()
        return {"take": self.take, "peek": self.peek, "give": self.give}[verb](
            key, limits, *options
        )


Row = namedtuple("Row", "at call expected")


def rows(table):
    """The rows of a table of lines such as `0.5  take COST 3  =  1 7 0 3000 10`."""
    for line in table.strip().splitlines():
        line = line.partition("#")[0].strip()
        if line:
            left, _, right = line.partition("=")
            at, call = left.split(None, 1)
            yield Row(at, call.strip(), Reply(*map(int, right.split())))


def play(rl, clock, limits, table, key="k"):
    """Play a table on a key: set the clock, make the call, compare the five numbers."""
    for row in rows(table):
        clock.set(row.at)
        got = rl.do(key, limits, row.call)
        assert got == row.expected, f"{limits}: {row.call} at {row.at} s"


def expires_at_ms(server, client, key):
    """The key's absolute expiry. Before PEXPIRETIME it is the frozen clock plus PTTL."""
    ttl = client.pttl(key)
    if ttl < 0:
        return None
    if server.knows("PEXPIRETIME"):
        return client.execute_command("PEXPIRETIME", key)
    return server.clock.now_us // 1_000 + ttl


def everything(client):
    """Every key with its bytes and its expiry, to compare two servers or two moments."""
    return {
        key: (client.dump(key), client.pttl(key)) for key in sorted(client.scan_iter(count=1000))
    }
