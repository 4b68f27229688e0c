"""Servers that agree among themselves: a cluster of primaries with replicas, and Sentinels.

They gossip and vote by the clock, so theirs is the machine's. Limits have a period of 3650 days
instead, in which nothing drains while a test runs, and every unit can be accounted for.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.crc import key_slot
from redis.retry import Retry

from harness import Error, Raw, Server, free_port, wait_until

SLOTS = 16_384
# For clients whose every take has to be accounted for: none is made twice behind our back.
ONCE = Retry(NoBackoff(), 0)
# Longer than any pause of a busy machine: no failover happens that a test doesn't ask for.
UNHURRIED_MS = 15_000
# How long a node may be silent where a test does ask for one.
HURRIED_MS = 1_000


class Node(Server):
    """A server that comes back on the port it had."""

    port = None

    def start(self):
        if self.port is None:
            return super().start()
        wait_until(self._launch)
        self.up = True
        return self

    def _ready(self):
        """Answering, and not another process that was given the same port."""
        try:
            with Raw(self.port) as raw:
                if raw("PING") != b"PONG":  # it may be loading
                    return False
                return b"process_id:%d\r" % self.process.pid in raw("INFO", "server")
        except OSError:
            return False

    def call(self, *args):
        with Raw(self.port) as raw:
            reply = raw(*args)
        if isinstance(reply, Error):
            raise redis.ResponseError(f"{args[:3]}: {reply}")
        return reply

    def lines(self, *args):
        """A reply of `name:value` lines."""
        lines = self.call(*args).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def errors(self, code):
        """How often this server has answered with an error of this code."""
        return int(self.lines("INFO", "errorstats").get(f"errorstat_{code}", "count=0").split("=")[1])

    def is_primary(self):
        return self.call("ROLE")[0] == b"master"


def start_all(nodes):
    nodes[0].start()  # finds out for the others what options this server knows
    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(lambda node: node.start(), nodes[1:]))


class Cluster:
    """Primaries that share the slots, each with one replica."""

    def __init__(self, binary, module, primaries=3):
        args = ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"]
        args += ["--cluster-node-timeout", HURRIED_MS, "--appendonly", "no"]
        # However long it was out of touch, a replica stands for election.
        args += ["--cluster-replica-validity-factor", 0, "--cluster-allow-replica-migration", "no"]
        args += ["--repl-ping-replica-period", 1, "--repl-timeout", 60, "--repl-diskless-sync-delay", 0]
        self.nodes = [Node(binary, module, args=args) for _ in range(2 * primaries)]
        self.width = primaries
        self.spoilt = False  # a test failed on it, and may have left anything behind

    def start(self):
        start_all(self.nodes)
        primaries, replicas = self.nodes[: self.width], self.nodes[self.width :]
        for epoch, node in enumerate(self.nodes, 1):
            node.id = node.call("CLUSTER", "MYID").decode()
            node.call("CLUSTER", "SET-CONFIG-EPOCH", epoch)
        bounds = [SLOTS * i // self.width for i in range(self.width + 1)]
        for node, first, end in zip(primaries, bounds, bounds[1:]):
            node.call("CLUSTER", "ADDSLOTS", *range(first, end))
        for node in self.nodes:
            for other in self.nodes:
                if other is not node:
                    node.call("CLUSTER", "MEET", "127.0.0.1", other.port)
        wait_until(lambda: all(self._knows_all(node) for node in self.nodes))
        for replica, primary in zip(replicas, primaries):
            # It may be told of its primary a moment before it knows it as one.
            wait_until(lambda: self._accepted(replica, "CLUSTER", "REPLICATE", primary.id))
        self.settled()
        self.hurry(False)
        return self

    def _knows_all(self, node):
        states = node.call("CLUSTER", "NODES").decode().splitlines()
        return len(states) == len(self.nodes) and "handshake" not in "".join(states)

    @staticmethod
    def _accepted(node, *args):
        try:
            return node.call(*args)
        except redis.ResponseError:
            return False

    def settled(self, seconds=30):
        """Wait until every slot is served, every replica follows and the primaries agree. What
        the replicas know of other shards they learn by and by."""
        wait_until(self._is_settled, seconds)

    def _is_settled(self):
        running = [node for node in self.nodes if node.up]
        primaries = []
        for node in running:
            if node.lines("CLUSTER", "INFO")["cluster_state"] != "ok":
                return False
            role = node.lines("INFO", "replication")
            if role["role"] == "master":
                if self._slots_of(node):
                    primaries.append(node)
                if int(role["connected_slaves"]) < (len(running) == len(self.nodes)):
                    return False
            elif role["master_link_status"] != "up":
                return False
        views = {tuple(self._owners(node)) for node in primaries}
        return len(primaries) == self.width and len(views) == 1

    @staticmethod
    def _slots_of(node):
        for line in node.call("CLUSTER", "NODES").decode().splitlines():
            if "myself" in line:
                return len(line.split()[8:])

    @staticmethod
    def _owners(node):
        """Who serves what, as this node sees it."""
        for line in sorted(node.call("CLUSTER", "NODES").decode().splitlines()):
            fields = line.split()
            yield fields[0], "master" in fields[2], fields[3], "fail" in fields[2], *fields[8:]

    @staticmethod
    def _epochs(node):
        """The epoch of every primary, as this node sees it."""
        for line in sorted(node.call("CLUSTER", "NODES").decode().splitlines()):
            fields = line.split()
            if "master" in fields[2]:
                yield fields[0], fields[6]

    def heal(self):
        """Bring back whoever is down, and wait until all is well."""
        for node in self.nodes:
            if node.exited:
                node.start()
        self.settled()
        self.hurry(False)

    def stop(self):
        for node in reversed(self.nodes):
            node.remove()

    # Who is who

    def primaries(self):
        return [node for node in self.nodes if node.up and node.is_primary() and self._slots_of(node)]

    def by_id(self, id):
        return next(node for node in self.nodes if node.id == id)

    def replica_of(self, primary):
        def found():
            for node in self.nodes:
                if node.up and node is not primary:
                    role = node.call("ROLE")
                    if role[0] == b"slave" and role[2] == primary.port and role[3] == b"connected":
                        return node

        return wait_until(found)

    def owner(self, key):
        """The primary that serves a key's slot, as the other primaries see it."""
        slot = slot_of(key)
        for first, last, primary, *_ in self.primaries()[0].call("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return self.by_id(primary[2].decode())
        raise LookupError(f"nobody serves slot {slot}")

    def hurry(self, yes=True):
        """Let silence count as a failure soon, or go back to patience."""
        for node in self.nodes:
            if node.up:
                node.call("CONFIG", "SET", "cluster-node-timeout", HURRIED_MS if yes else UNHURRIED_MS)

    def errors(self, code):
        return sum(node.errors(code) for node in self.nodes if node.up)

    # Clients

    def client(self, **options):
        """A cluster client that follows redirections and tries nothing twice that may have been
        done: a take whose reply was lost comes back as the error it is."""
        start = [ClusterNode("127.0.0.1", node.port) for node in self.nodes if node.up]
        options = {"retry": ONCE, "socket_timeout": 20, "protocol": 2, **options}
        return RedisCluster(startup_nodes=start, **options)

    # Moving slots

    def begin_move(self, slot, source, target):
        """The first half of a classic migration: from here on both nodes have a part in the slot.

        A target that had not heard of the source's last epoch would claim the slot with a lower
        one, and a word of the source's from before the move could then undo it for good."""
        wait_until(lambda: len({tuple(self._epochs(node)) for node in self.primaries()}) == 1)
        target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)

    def move_keys(self, slot, source, target, batch=5):
        while keys := source.call("CLUSTER", "GETKEYSINSLOT", slot, batch):
            source.call("MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", *keys)

    def end_move(self, slot, source, target):
        for node in [target, source] + [n for n in self.primaries() if n not in (target, source)]:
            node.call("CLUSTER", "SETSLOT", slot, "NODE", target.id)

    def move(self, slot, source, target):
        """The classic migration, as redis-cli and every resharding tool does it."""
        self.begin_move(slot, source, target)
        self.move_keys(slot, source, target)
        self.end_move(slot, source, target)

    def atomic_moves(self):
        """The server's own way to move slots at once, if it has one."""
        if self.nodes[0].knows_subcommand("CLUSTER", "MIGRATESLOTS"):
            return self._migrate_slots
        if self.nodes[0].knows_subcommand("CLUSTER", "MIGRATION"):
            return self._migration_import
        return None

    def _migrate_slots(self, first, last, source, target):
        """Valkey 9."""
        source.call("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", first, last, "NODE", target.id)

        def state():
            newest = pairs(source.call("CLUSTER", "GETSLOTMIGRATIONS")[0])
            state = newest[b"state"].decode()
            if state in ("failed", "cancelled"):
                raise AssertionError(f"the migration of slots {first}-{last} {state}: {newest}")
            return state == "success"

        wait_until(state, 30)

    def _migration_import(self, first, last, source, target):
        """Redis 8.4."""
        task = target.call("CLUSTER", "MIGRATION", "IMPORT", first, last)

        def done():
            status = pairs(target.call("CLUSTER", "MIGRATION", "STATUS", "ID", task)[0])
            state = status[b"state"].decode()
            if state in ("failed", "canceled"):
                raise AssertionError(f"the migration of slots {first}-{last} {state}: {status}")
            return state == "completed"

        wait_until(done, 30)


def pairs(flat):
    if isinstance(flat, dict):
        return flat
    return dict(zip(flat[::2], flat[1::2]))


def slot_of(key):
    return key_slot(key.encode() if isinstance(key, str) else key)


def in_step(primary, replica):
    """Wait until the replica has all that the primary has sent. Nothing may be writing."""
    goal = primary.offset
    wait_until(lambda: int(replica.info("replication", "slave_repl_offset")) >= goal)
