"""Keys belong to slots, and slots move from node to node while clients take."""

import time

import pytest
import redis

from harness import Error, Limiter, wait_until
from load import FOREVER, Load, assert_exact, held, keys_of
from topology import slot_of


def one_per_primary(cluster, tags):
    return [tags(primary)[0] for primary in cluster.primaries()]


def test_a_node_names_the_one_that_serves_a_key(cluster, tags):
    first, second, _ = cluster.primaries()
    [tag] = tags(second)
    key = f"{{{tag}}}k"
    moved = f"MOVED {slot_of(key)} 127.0.0.1:{second.port}"
    with first.raw() as raw:
        for call in [
            ("RL.TAKE", key, "10", "60"),
            ("RL.PEEK", key, "10", "60"),
            ("RL.GIVE", key, "10", "60"),
            ("RL.MTAKE", "1", key, "10", "60"),
            ("RL.MTAKE", "2", key, f"{{{tag}}}l", "10", "60", "10", "60"),
            ("RL.THROTTLE", key, "15", "30", "60"),
            ("CL.THROTTLE", key, "15", "30", "60"),
        ]:
            assert raw(*call) == moved, call
    with second.raw() as raw:
        assert raw("RL.PEEK", key, "10", FOREVER) == [1, 10, 0, 0, 10]


def test_a_client_finds_the_node(cluster, client, tags):
    rl = Limiter(client)
    for tag in one_per_primary(cluster, tags):
        assert rl.take(f"{{{tag}}}k", f"10 {FOREVER} COST 4").remaining == 6
        assert rl.peek(f"{{{tag}}}k", f"10 {FOREVER}").remaining == 6
        assert rl.give(f"{{{tag}}}k", f"10 {FOREVER} COST 1").remaining == 7
        assert rl.throttle(f"{{{tag}}}t", "15 30 60").remaining == 15
        assert rl.throttle(f"{{{tag}}}t", "15 30 60", command="CL.THROTTLE").remaining == 14


def test_a_stale_client_is_sent_on(cluster, tags):
    """It is told another owner of the slot than it had known, and learns."""
    source, target, _ = cluster.primaries()
    [tag] = tags(source)
    key = f"{{{tag}}}k"
    with cluster.client() as client:
        rl = Limiter(client)
        assert rl.take(key, f"10 {FOREVER}").remaining == 9
        cluster.move(slot_of(key), source, target)
        before = cluster.errors("MOVED")
        assert rl.take(key, f"10 {FOREVER}").remaining == 8
        assert rl.take(key, f"10 {FOREVER}").remaining == 7
        assert cluster.errors("MOVED") == before + 1
    assert cluster.owner(key) is target


def test_keys_of_one_take_share_a_slot(cluster, client, tags):
    rl = Limiter(client)
    first, second, third = one_per_primary(cluster, tags)
    limits = f"10 {FOREVER} SLIDINGLOG 20 {FOREVER} FIXEDWINDOW 30 {FOREVER}"
    keys = [f"{{{first}}}user", f"{{{first}}}team", f"{{{first}}}all"]
    assert rl.mtake(keys, limits).remaining == 9
    assert rl.mtake(keys, limits, "COST 9")[:2] == (1, 0)
    assert rl.mtake(keys, limits).allowed == 0
    assert [held(client, key, limit) for key, limit in zip(keys, [
        f"10 {FOREVER}", f"SLIDINGLOG 20 {FOREVER}", f"FIXEDWINDOW 30 {FOREVER}"])] == [10, 10, 10]

    # The client refuses by itself; the server does for those that don't.
    apart = [f"{{{tag}}}k" for tag in (first, second, third)]
    with pytest.raises(redis.exceptions.RedisClusterException, match="same key slot"):
        rl.mtake(apart, limits)
    for node in cluster.primaries():
        with node.raw() as raw:
            reply = raw("RL.MTAKE", "3", *apart, *limits.split())
            assert reply == "CROSSSLOT Keys in request don't hash to the same slot"
    assert [held(client, key, f"10 {FOREVER}") for key in apart] == [0, 0, 0]


def test_a_script_and_a_transaction_in_a_cluster(cluster, client, tags):
    for tag in one_per_primary(cluster, tags):
        key = f"{{{tag}}}k"
        script = "return redis.call('RL.TAKE', KEYS[1], '10', ARGV[1], 'COST', '2')"
        assert client.eval(script, 1, key, FOREVER)[:2] == [1, 8]
        with client.pipeline(transaction=True) as pipe:
            pipe.execute_command("RL.TAKE", key, 10, FOREVER)
            pipe.execute_command("RL.PEEK", key, 10, FOREVER)
            assert [reply[:2] for reply in pipe.execute()] == [[1, 7], [1, 7]]
    # A key that the script did not declare belongs to another node.
    first, second, _ = cluster.primaries()
    [here], [there] = tags(first), tags(second)
    script = "return redis.pcall('RL.TAKE', ARGV[1], '10', '60')"
    with first.raw() as raw:
        reply = raw("EVAL", script, "1", f"{{{here}}}k", f"{{{there}}}k")
        assert isinstance(reply, Error) and "non local key" in reply


def test_a_replica_answers_peeks_only(cluster, client, tags):
    primary = cluster.primaries()[0]
    replica = cluster.replica_of(primary)
    [tag] = tags(primary)
    key = f"{{{tag}}}k"
    for limit in keys_of([tag]).values():
        client.execute_command("RL.TAKE", key, *limit.split(), "COST", 7)
        wait_until(lambda: replica.offset == primary.offset)
        with replica.raw() as raw:
            moved = f"MOVED {slot_of(key)} 127.0.0.1:{primary.port}"
            assert raw("RL.PEEK", key, *limit.split()) == moved
            raw("READONLY")
            of_replica = raw("RL.PEEK", key, *limit.split())
            assert raw("RL.TAKE", key, *limit.split()) == moved
            assert raw("RL.GIVE", key, *limit.split()) == moved
            assert raw("RL.THROTTLE", key, "15", "30", "60") == moved
        assert held(client, key, limit) == 7
        assert of_replica[4] - of_replica[1] == 7
        client.delete(key)


def test_a_slot_that_is_halfway(cluster, client, tags):
    """While a slot moves, a key is here or there: the client is asked to ask there, once."""
    source, target, _ = cluster.primaries()
    [tag] = tags(source)
    here, there, new = f"{{{tag}}}here", f"{{{tag}}}there", f"{{{tag}}}new"
    slot = slot_of(here)
    rl = Limiter(client)
    limit = f"10 {FOREVER}"
    for key in (here, there):
        assert rl.take(key, limit).remaining == 9
    cluster.begin_move(slot, source, target)
    source.call("MIGRATE", "127.0.0.1", target.port, there, 0, 5_000)

    ask = f"ASK {slot} 127.0.0.1:{target.port}"
    with source.raw() as raw:
        assert raw("RL.TAKE", here, *limit.split())[:2] == [1, 8]
        for call in ("RL.TAKE", "RL.PEEK", "RL.GIVE"):
            assert raw(call, there, *limit.split()) == ask
            assert raw(call, new, *limit.split()) == ask
        assert raw("RL.MTAKE", "2", there, new, *limit.split() * 2) == ask
        # Neither node has both keys. The source of Redis 6.2 leaves it to the target to say so.
        reply = raw("RL.MTAKE", "2", here, there, *limit.split() * 2)
        assert reply.startswith("TRYAGAIN ") or reply == ask
    with target.raw() as raw:
        assert raw("RL.TAKE", there, *limit.split()).startswith(f"MOVED {slot} ")
        raw("ASKING")
        assert raw("RL.MTAKE", "2", here, there, *limit.split() * 2).startswith("TRYAGAIN ")

    before = cluster.errors("ASK")
    assert rl.take(here, limit).remaining == 7
    assert rl.take(there, limit).remaining == 8
    assert rl.take(new, limit).remaining == 9
    assert rl.peek(new, limit).remaining == 9
    assert cluster.errors("ASK") == before + 3

    cluster.move_keys(slot, source, target)
    cluster.end_move(slot, source, target)
    assert rl.mtake([here, there, new], " ".join([limit] * 3)).remaining == 6
    assert [held(client, key, limit) for key in (here, there, new)] == [4, 3, 2]


def test_a_moved_key_is_the_same_key(cluster, client, tags):
    source, target, _ = cluster.primaries()
    [tag] = tags(source)
    limits = keys_of([tag])
    for key, limit in limits.items():
        for cost in (3, 1, 2):
            client.execute_command("RL.TAKE", key, *limit.split(), "COST", cost)
    slot = slot_of(f"{{{tag}}}")

    def picture(node):
        return {key: (node.call("DUMP", key), node.call("PTTL", key)) for key in limits}

    def assert_same(before, after):
        for key in limits:
            assert after[key][0] == before[key][0], key
            # PTTL counts down meanwhile, and MIGRATE hands over what is left when it begins.
            assert abs(after[key][1] - before[key][1]) < 20_000, key

    before = picture(source)
    cluster.move(slot, source, target)
    assert_same(before, picture(target))
    if atomic := cluster.atomic_moves():
        atomic(slot, slot, target, source)
        assert_same(before, picture(source))
    for key, limit in limits.items():
        assert held(client, key, limit) == 6


def test_slots_migrated_under_load(cluster, client, tags, rng):
    """The classic way, key by key, each slot once round the cluster. No unit is lost or doubled."""
    moving = one_per_primary(cluster, tags)
    staying = tags(cluster.primaries()[0])
    moved, asked = cluster.errors("MOVED"), cluster.errors("ASK")
    with Load(cluster.client, keys_of(moving + staying), rng) as load:
        for _ in range(2):
            for tag in moving:
                move_under_load(cluster, load, tag)
    load.close()
    assert load.broken == 0
    assert_exact(client, load)
    assert cluster.errors("MOVED") > moved and cluster.errors("ASK") > asked
    refused = [load.total(key).refused for key in load.limits if key.endswith("small")]
    assert any(refused)


def from_and_to(cluster, tag):
    """The primary that serves the tag's slot, and the next one."""
    primaries = cluster.primaries()
    source = cluster.owner(f"{{{tag}}}")
    return source, primaries[(primaries.index(source) + 1) % len(primaries)]


def move_under_load(cluster, load, tag):
    slot = slot_of(f"{{{tag}}}")
    source, target = from_and_to(cluster, tag)
    asked = cluster.errors("ASK")
    cluster.begin_move(slot, source, target)
    half = source.call("CLUSTER", "GETKEYSINSLOT", slot, 4)
    source.call("MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", *half)
    # The rest waits until clients have met the slot with its keys on two nodes.
    wait_until(lambda: load.failed or cluster.errors("ASK") > asked + 3)
    cluster.move_keys(slot, source, target)
    load.progress(5)
    cluster.end_move(slot, source, target)
    load.progress(5)


def test_slots_migrated_at_once_under_load(cluster, client, tags, rng):
    """The server's own migration: a fork, a stream of changes, a short pause, a new owner."""
    atomic = cluster.atomic_moves()
    if not atomic:
        pytest.skip("this server has no atomic slot migration")
    moving = one_per_primary(cluster, tags)
    moved = cluster.errors("MOVED")
    with Load(cluster.client, keys_of(moving), rng) as load:
        for _ in range(2):
            for tag in moving:
                move_at_once_under_load(cluster, load, tag)
    load.close()
    assert load.broken == 0
    assert_exact(client, load)
    assert cluster.errors("MOVED") > moved


def move_at_once_under_load(cluster, load, tag):
    slot = slot_of(f"{{{tag}}}")
    source, target = from_and_to(cluster, tag)
    cluster.atomic_moves()(slot, slot, source, target)
    wait_until(lambda: cluster.owner(f"{{{tag}}}") is target)
    load.progress(5)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_slots_on_the_move_for_minutes(cluster, client, tags, rng):
    """Both ways of moving, in turn, for two minutes."""
    moving = [tag for primary in cluster.primaries() for tag in tags(primary, 4)]
    ways = [move_under_load]
    if cluster.atomic_moves():
        ways.append(move_at_once_under_load)
    moves = 0
    end = time.monotonic() + 120
    with Load(cluster.client, keys_of(moving), rng, workers=4) as load:
        while time.monotonic() < end:
            ways[moves % len(ways)](cluster, load, rng.choice(moving))
            moves += 1
    assert load.broken == 0
    assert_exact(client, load)
    units = sum(load.total(key).admitted for key in load.limits)
    load.close()
    print(
        f"{moves} slots moved ({len(ways)} ways) under {load.calls} calls, "
        f"{units} units admitted: none lost"
    )
