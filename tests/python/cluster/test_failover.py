"""A primary dies and its replica takes over: what was taken stays taken.

Replication is asynchronous. What the replica has is never lost; what the primary admitted in its
last instants and had not sent yet may be. So one test kills in a quiet moment and expects every
unit; another kills under full load and expects every unit that WAIT has confirmed, and every unit
of the other primaries.
"""

import threading
import time

import pytest
import redis

from harness import wait_until
from load import FOREVER, WIDE, Load, assert_exact, held, keys_of
from topology import ONCE, in_step


def kill(cluster, primary):
    """As a crash would, and wait until its replica serves in its place."""
    replica = cluster.replica_of(primary)
    cluster.hurry()
    began = time.monotonic()
    primary.kill()
    wait_until(replica.is_primary, 30)
    cluster.settled()
    return replica, time.monotonic() - began


def revive(cluster, node):
    """The killed node comes back as a replica of the one that took over."""
    node.start()
    cluster.settled()
    cluster.hurry(False)


def assert_replicas_equal(cluster, keys):
    """Every primary and its replica hold the same bytes with the same expiry."""
    for primary in cluster.primaries():
        replica = cluster.replica_of(primary)
        in_step(primary, replica)
        here = [key for key in keys if cluster.owner(key) is primary]
        expiry = "PEXPIRETIME" if primary.knows("PEXPIRETIME") else None
        with primary.raw() as one, replica.raw() as two:
            two("READONLY")
            for key in here:
                assert one("DUMP", key) == two("DUMP", key), key
                if expiry:
                    assert one(expiry, key) == two(expiry, key), key


def test_planned_failover_under_load(cluster, client, tags, rng):
    """CLUSTER FAILOVER, as before an upgrade: clients are held until the replica has everything."""
    limits = keys_of([tags(primary)[0] for primary in cluster.primaries()])
    with Load(cluster.client, limits, rng) as load:
        for primary in rng.sample(cluster.primaries(), 2):
            replica = cluster.replica_of(primary)
            # Within twice the node timeout nobody votes about the same shard again.
            cluster.hurry()
            replica.call("CLUSTER", "FAILOVER")
            wait_until(replica.is_primary)
            cluster.hurry(False)
            cluster.settled()
            load.progress()
    assert load.broken == 0
    assert_exact(client, load)
    assert_replicas_equal(cluster, limits)
    load.close()


def test_killed_in_a_quiet_moment(cluster, tags, rng):
    victim, *others = cluster.primaries()
    limits = keys_of(tags(victim, 2) + [tags(other)[0] for other in others])
    load = Load(cluster.client, limits, rng, pairs=False)
    with load:
        load.progress(100)
    in_step(victim, cluster.replica_of(victim))

    successor, _ = kill(cluster, victim)

    with cluster.client() as client:
        assert_exact(client, load)
    # The clients that were connected to the dead one find the other by themselves, and go on.
    with load:
        load.progress()
    with cluster.client() as client:
        for key in limits:
            account = load.total(key)
            if cluster.owner(key) is not successor:
                assert account.unsure_taken == account.unsure_given == 0, key
            assert -account.unsure_given <= held(client, key, limits[key]) - account.used
            assert held(client, key, limits[key]) - account.used <= account.unsure_taken
    revive(cluster, victim)
    assert_replicas_equal(cluster, limits)
    load.close()


class Careful(threading.Thread):
    """Takes on one key of one primary, and asks after each take whether the replica has it."""

    def __init__(self, primary, key):
        super().__init__(daemon=True)
        self.primary, self.key = primary, key
        self.issued = self.confirmed = 0

    def run(self):
        # WAIT speaks of the connection it comes by.
        with redis.Redis(port=self.primary.port, single_connection_client=True, retry=ONCE) as client:
            try:
                while True:
                    self.issued += 1
                    client.execute_command("RL.TAKE", self.key, WIDE, FOREVER)
                    if client.wait(1, 1_000) >= 1:
                        self.confirmed = self.issued
            except redis.ConnectionError:
                pass


def kill_under_load(cluster, load, tags, rng):
    """Kill a primary while everybody takes. Returns what was lost of what clients were told, and
    the seconds until the cluster was whole again."""
    victim = rng.choice(cluster.primaries())
    [tag] = tags(victim)
    careful = Careful(victim, f"{{{tag}}}careful")
    careful.start()
    load.progress(30)
    wait_until(lambda: careful.confirmed >= 20)

    successor, seconds = kill(cluster, victim)

    load.progress(30)
    load.stop()
    careful.join(20)
    lost = 0
    with cluster.client() as client:
        taken = held(client, careful.key, f"{WIDE} {FOREVER}")
        assert careful.confirmed <= taken <= careful.issued
        for key, limit in load.limits.items():
            account, stored = load.total(key), held(client, key, limit)
            if cluster.owner(key) is successor:
                assert stored <= account.used + account.unsure_taken, key
                lost += max(0, account.used - account.unsure_given - stored)
            else:
                assert stored == account.used, key
                assert account.unsure_taken == account.unsure_given == 0, key
    revive(cluster, victim)
    assert_replicas_equal(cluster, load.limits)
    return lost, seconds


def test_killed_under_load(cluster, tags, rng):
    limits = keys_of([tags(primary)[0] for primary in cluster.primaries()])
    load = Load(cluster.client, limits, rng, pairs=False)
    load.start()
    try:
        lost, seconds = kill_under_load(cluster, load, tags, rng)
    finally:
        load.stop(check=False)
        load.close()
    print(f"{lost} of {load.calls} calls' units were lost, whole again after {seconds:.1f} s")
    # What a primary had not sent is a matter of milliseconds, not of the load's whole time.
    assert lost <= load.calls // 10


def test_what_belongs_together_arrives_together(cluster, tags):
    """A transaction, a script and a take of two keys, cut off by the death of their primary: all
    that each of them wrote is there, or nothing of it."""
    victim = cluster.primaries()[0]
    [tag] = tags(victim)
    key, log, one, two = (f"{{{tag}}}{name}" for name in ("k", "log", "one", "two"))
    script = "redis.call('RL.TAKE', KEYS[1], ARGV[1], ARGV[2]); redis.call('RPUSH', KEYS[2], 'x')"

    def work():
        with redis.Redis(port=victim.port, single_connection_client=True, retry=ONCE) as client:
            try:
                while True:
                    with client.pipeline(transaction=True) as pipe:
                        pipe.execute_command("RL.TAKE", key, WIDE, FOREVER)
                        pipe.rpush(log, "x")
                        pipe.execute()
                    client.eval(script, 2, key, log, WIDE, FOREVER)
                    client.execute_command("RL.MTAKE", 2, one, two, *[WIDE, FOREVER] * 2)
            except redis.ConnectionError:
                pass

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    wait_until(lambda: victim.call("LLEN", log) > 200)
    kill(cluster, victim)
    worker.join(10)
    with cluster.client() as client:
        limit = f"{WIDE} {FOREVER}"
        assert held(client, key, limit) == client.llen(log) > 0
        assert held(client, one, limit) == held(client, two, limit) > 0
    revive(cluster, victim)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_killed_again_and_again(cluster, tags, rng):
    """Thirty primaries, one after the other, under load."""
    rounds = []
    for _ in range(30):
        limits = keys_of([tags(primary)[0] for primary in cluster.primaries()])
        load = Load(cluster.client, limits, rng, workers=4, pairs=False)
        load.start()
        try:
            lost, seconds = kill_under_load(cluster, load, tags, rng)
        finally:
            load.stop(check=False)
            load.close()
        rounds.append((load.calls, load.broken, lost, seconds))
    calls, broken, lost, seconds = map(sum, zip(*rounds))
    print(
        f"{len(rounds)} primaries killed under load: {calls} calls answered, {broken} connections "
        f"broken, {lost} units lost in {sum(r[2] > 0 for r in rounds)} of the kills, at most "
        f"{max(r[2] for r in rounds)} in one; whole again after {seconds / len(rounds):.1f} s on "
        f"average, {max(r[3] for r in rounds):.1f} s at most"
    )
