"""When memory is full: with noeviction a clear OOM and nothing changed, with eviction a bucket that
is gone and so acts as untouched. And what a look at a key does to its place in the queue: nothing.
"""

import pytest

from harness import KINDS, Error, wait_until

DAY = "86400"
OOM = "OOM command not allowed when used memory > 'maxmemory'"


@pytest.fixture
def memory(client):
    """`memory("allkeys-lru", room)`: at most so many bytes more than now."""
    before = client.config_get("maxmemory*")

    def limit(policy, room):
        client.config_set("maxmemory-policy", policy)
        client.config_set("maxmemory", client.info("memory")["used_memory"] + room if room else 1)

    yield limit
    client.config_set("maxmemory", 0)
    client.config_set("maxmemory-policy", before["maxmemory-policy"])


def test_no_room_and_no_eviction(server, client, raw, rl, memory):
    for kind in KINDS:
        rl.take(kind, f"{kind} 10 {DAY} COST 4")
    before = {key: client.dump(key) for key in client.keys("*")}
    dirty = server.dirty
    memory("noeviction", 0)
    script = "return redis.call('RL.TAKE', KEYS[1], ARGV[1], '10', '86400')"
    for kind in KINDS:
        for key in (kind, "new"):
            calls = [
                ("RL.TAKE", key, kind, "10", DAY),
                ("RL.TAKE", key, kind, "10", DAY, "FORCE"),
                # Servers look at the flag of a command and not at what its options make of it.
                ("RL.TAKE", key, kind, "10", DAY, "COST", "0"),
                ("RL.MTAKE", "2", key, "other", kind, "10", DAY, "10", DAY),
                ("RL.THROTTLE", key, "9", "10", DAY),
                ("CL.THROTTLE", key, "9", "10", DAY),
                ("EVAL", script, "1", key, kind),
            ]
            for call in calls:
                reply = raw(*call)
                assert isinstance(reply, Error) and OOM in reply, call
        raw("MULTI")
        assert OOM in raw("RL.TAKE", kind, kind, "10", DAY)
        assert raw("EXEC").startswith("EXECABORT ")
    assert {key: client.dump(key) for key in client.keys("*")} == before
    assert server.dirty == dirty

    for kind in KINDS:
        assert rl.peek(kind, f"{kind} 10 {DAY}").remaining == 6
        assert rl.peek("new", f"{kind} 10 {DAY}").remaining == 10
        # What is only returned needs no room, and the last of it makes some.
        assert rl.give(kind, f"{kind} 10 {DAY} COST 1").remaining == 7
        assert rl.give(kind, f"{kind} 10 {DAY} COST 3").remaining == 10
    assert client.dbsize() == 0
    client.config_set("maxmemory", 0)
    assert rl.take("new", f"10 {DAY}").allowed == 1


def test_a_log_that_grows_meets_the_limit_too(client, rl, raw, memory, wall_clock):
    """It is the longest state there is; it stops growing with an error and holds what it held."""
    limit = f"SLIDINGLOG 100000 {DAY}"
    taken = 100
    assert rl.take("log", limit, "COST 100").allowed == 1
    memory("noeviction", 20_000)
    while not isinstance(reply := raw("RL.TAKE", "log", *limit.split()), Error):
        taken += 1
        assert reply[:2] == [1, 100_000 - taken]
        wall_clock.advance(us=1)  # takes of one instant would share an entry
    assert OOM in reply
    assert rl.peek("log", limit).remaining == 100_000 - taken


@pytest.mark.parametrize("policy", ["volatile-ttl", "volatile-lru", "allkeys-lru", "allkeys-random"])
def test_an_evicted_bucket_acts_as_untouched(server, client, raw, rl, memory, policy):
    evicted = client.info("stats")["evicted_keys"]
    limits = {f"{kind}:{n}": f"{kind} 10 {DAY}" for kind in KINDS for n in range(4)}
    for key, limit in limits.items():
        assert rl.take(key, limit, "COST 7").remaining == 3
    memory(policy, 200_000)
    number = 0
    while client.exists(*limits) > len(limits) // 2:
        # Data without a TTL: the volatile policies leave it alone.
        reply = raw("SET", f"data:{number}", "x" * 2_000)
        if isinstance(reply, Error):  # no limiter is left to go
            assert OOM in reply
            break
        number += 1
        assert number < 2_000
    assert client.info("stats")["evicted_keys"] > evicted
    client.config_set("maxmemory", 0)
    for key, limit in limits.items():
        if client.exists(key):
            assert rl.take(key, limit, "COST 4").allowed == 0
            assert rl.take(key, limit, "COST 3").remaining == 0
        else:
            assert rl.peek(key, limit)[:2] == (1, 10)
            assert rl.take(key, limit, "COST 8").remaining == 2


def test_volatile_ttl_takes_those_that_are_free_soonest(client, raw, rl, memory):
    """The less there is to forget, the sooner it is forgotten."""
    for n in range(100):
        rl.take(f"soon:{n}", "10 36000")
        rl.take(f"late:{n}", "10 3600000 COST 10")
    soon, late = ([f"{name}:{n}" for n in range(100)] for name in ("soon", "late"))
    samples = client.config_get("maxmemory-samples")["maxmemory-samples"]
    client.config_set("maxmemory-samples", 64)
    memory("volatile-ttl", 50_000)
    number = 0
    while client.exists(*soon) > 60:
        assert raw("SET", f"data:{number}", "x" * 500) == b"OK"
        number += 1
        assert number < 1_000
    client.config_set("maxmemory", 0)
    client.config_set("maxmemory-samples", samples)
    assert client.exists(*late) == 100
    assert rl.peek(next(key for key in soon if not client.exists(key)), "10 36000").remaining == 10


def test_peeking_keeps_no_key_alive(server, client, rl, clock):
    """LRU: a take is a use, a peek is none."""
    policy = client.config_get("maxmemory-policy")["maxmemory-policy"]
    client.config_set("maxmemory-policy", "allkeys-lru")
    rl.take("k", f"10 {DAY}")
    clock.advance(seconds=1000)
    # The server reads the clock for this now and then.
    wait_until(lambda: client.object("idletime", "k") >= 1000)
    assert rl.peek("k", f"10 {DAY}").allowed == 1
    assert client.object("idletime", "k") >= 1000
    rl.take("k", f"10 {DAY}")
    assert client.object("idletime", "k") < 1000
    client.config_set("maxmemory-policy", policy)


def test_a_state_counts_as_memory_of_its_key(client, rl):
    for kind in KINDS:
        rl.take(kind, f"{kind} 1000 {DAY} COST 1000")
        assert 0 < client.memory_usage(kind) < 400
    used = client.info("memory")["used_memory"]
    for n in range(2_000):
        rl.take(f"many:{n}", f"10 {DAY}")
    grown = client.info("memory")["used_memory"] - used
    assert 2_000 * 60 < grown < 2_000 * 400
    client.flushall()
