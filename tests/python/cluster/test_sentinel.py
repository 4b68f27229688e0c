"""Sentinels see the primary die, promote its replica and tell the clients."""

import subprocess
import threading
import time

import pytest
import redis
from redis.sentinel import Sentinel

from harness import Limiter, free_port, wait_until
from load import FOREVER, SHAPES, WIDE, held
from topology import HURRIED_MS, ONCE, UNHURRIED_MS, Node, in_step, pairs, start_all

NAME = "limits"


class Guard(Node):
    """A Sentinel: the server's own binary in another role."""

    def watch(self, primary, quorum):
        self.port = free_port()
        self.config = self.directory / "sentinel.conf"
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {self.directory}",
            f"sentinel monitor {NAME} 127.0.0.1 {primary.port} {quorum}",
            f"sentinel down-after-milliseconds {NAME} {UNHURRIED_MS}",
            f"sentinel failover-timeout {NAME} 3000",
        ]
        self.config.write_text("\n".join(lines) + "\n")

    def _launch(self):
        command = [self.binary, str(self.config), "--sentinel"]
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        wait_until(lambda: self.exited or self._ready())
        return not self.exited


class Watched:
    """A primary, a replica and three Sentinels."""

    def __init__(self, binary, module):
        args = ["--repl-ping-replica-period", 1, "--repl-timeout", 60, "--repl-diskless-sync-delay", 0]
        self.servers = [Node(binary, module, args=args) for _ in range(2)]
        self.guards = [Guard(binary, None) for _ in range(3)]

    def start(self):
        start_all(self.servers)
        primary, replica = self.servers
        replica.replica_of(primary)
        for guard in self.guards:
            guard.watch(primary, quorum=2)
        start_all(self.guards)
        self.settled()
        return self

    def settled(self):
        """Every Sentinel knows the primary, the replica and both other Sentinels, all of them up."""
        wait_until(lambda: all(self._sees_all(guard) for guard in self.guards), 30)

    @staticmethod
    def _sees_all(guard):
        view = guard.lines("INFO", "sentinel")["master0"].split(",")
        view = dict(field.split("=") for field in view)
        replicas = guard.call("SENTINEL", "REPLICAS", NAME)
        return (view["status"], view["slaves"], view["sentinels"]) == ("ok", "1", "3") and all(
            pairs(replica)[b"flags"] == b"slave" for replica in replicas
        )

    def primary(self):
        """The server that all Sentinels name, or None while they differ."""
        addresses = {self._named_by(guard) for guard in self.guards}
        return next((s for s in self.servers if addresses == {s.port}), None)

    @staticmethod
    def _named_by(guard):
        return int(guard.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1])

    def other(self, server):
        return next(other for other in self.servers if other is not server)

    def client(self, **options):
        """A client that asks the Sentinels where the primary is, whenever it connects."""
        sentinel = Sentinel([("127.0.0.1", g.port) for g in self.guards], socket_timeout=5)
        return sentinel.master_for(NAME, socket_timeout=5, protocol=2, **options)

    def hurry(self, yes=True):
        for guard in self.guards:
            patience = HURRIED_MS if yes else UNHURRIED_MS
            guard.call("SENTINEL", "SET", NAME, "down-after-milliseconds", patience)

    def kill_primary(self):
        """Kill it, wait until the Sentinels name the other; who is who, and how long it took."""
        dead = self.primary()
        successor = self.other(dead)
        self.hurry()
        began = time.monotonic()
        dead.kill()
        wait_until(lambda: self.primary() is successor, 45)
        self.hurry(False)
        return dead, successor, time.monotonic() - began

    def revive(self, dead):
        """Bring it back as the replica that the Sentinels would make of it some seconds later."""
        dead.start()
        dead.replica_of(self.other(dead))
        self.settled()

    def stop(self):
        for server in self.guards + self.servers:
            server.remove()


@pytest.fixture
def watched(paths):
    binary, module, _ = paths
    watched = Watched(binary, module)
    try:
        yield watched.start()
    finally:
        watched.stop()


def test_killed_in_a_quiet_moment(watched):
    """The client goes on with the limits as they were."""
    with watched.client() as client:
        for key, limit in SHAPES.items():
            for cost in (20, 7, 2):
                client.execute_command("RL.TAKE", key, *limit.split(), "COST", cost)
        primary = watched.primary()
        in_step(primary, watched.other(primary))
        bytes_of = {key: primary.call("DUMP", key) for key in SHAPES}

        dead, successor, _ = watched.kill_primary()

        assert {key: successor.call("DUMP", key) for key in SHAPES} == bytes_of
        rl = Limiter(client)
        for key, limit in SHAPES.items():
            assert held(client, key, limit) == 29
            assert rl.take(key, limit, "COST 1").allowed == 1
            assert held(client, key, limit) == 30
        assert rl.take("small", SHAPES["small"], "COST 21").allowed == 0
    watched.revive(dead)
    in_step(successor, dead)
    for key in SHAPES:
        assert successor.call("DUMP", key) == dead.call("DUMP", key)


def kill_under_load(watched, key):
    """Takes with and without a word from the replica, until well after the failover."""
    limit = f"{WIDE} {FOREVER}"
    stop = threading.Event()
    told = {"issued": 0, "confirmed": 0, "admitted": 0, "after": 0}
    failed_over = threading.Event()

    def work():
        # One connection, since WAIT speaks of the one it comes by; no call is made twice.
        with watched.client(retry=ONCE, max_connections=1) as client:
            while not stop.is_set():
                told["issued"] += 1
                try:
                    client.execute_command("RL.TAKE", key, WIDE, FOREVER)
                    told["admitted"] += 1
                    told["after"] += failed_over.is_set()
                    if not failed_over.is_set() and client.wait(1, 1_000) >= 1:
                        # All before it arrived too, since replication keeps the order.
                        told["confirmed"] = told["admitted"]
                except (redis.ConnectionError, redis.TimeoutError, redis.exceptions.ReadOnlyError):
                    pass

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    wait_until(lambda: told["confirmed"] > 200)
    dead, _, seconds = watched.kill_primary()
    failed_over.set()
    wait_until(lambda: told["after"] > 20, 30)
    stop.set()
    worker.join(20)
    with watched.client() as client:
        taken = held(client, key, limit)
    assert told["confirmed"] + told["after"] <= taken <= told["issued"]
    watched.revive(dead)
    return told["admitted"] - taken, seconds


def test_killed_under_load(watched):
    kill_under_load(watched, "busy")


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_killed_again_and_again(watched):
    rounds = [kill_under_load(watched, f"round:{number}") for number in range(20)]
    lost = [max(0, lost) for lost, _ in rounds]
    seconds = [seconds for _, seconds in rounds]
    print(
        f"{len(rounds)} primaries killed under load, promoted by Sentinel: {sum(lost)} units lost "
        f"in {sum(map(bool, lost))} of the kills; a new primary after {sum(seconds) / len(rounds):.1f} s "
        f"on average, {max(seconds):.1f} s at most"
    )
