"""RL.MTAKE: one limit a key, charged to all keys or none."""

import pytest

from harness import Error, wait_until

ALL = ["user", "org"]
LIMITS = "5 10 FIXEDWINDOW 8 60"


def test_charged_to_all_keys(rl, clock):
    assert rl.mtake(ALL, LIMITS) == (1, 4, 0, 2000, 5)
    assert rl.peek("user", "5 10").remaining == 4
    assert rl.peek("org", "FIXEDWINDOW 8 60").remaining == 7


def test_or_to_none(rl, clock, client):
    rl.take("org", "FIXEDWINDOW 8 60 COST 7")
    before = client.dump("org")
    assert rl.mtake(ALL, LIMITS, "COST 2") == (0, 1, 60_000, 60_000, 8)
    assert not client.exists("user")
    assert client.dump("org") == before
    assert rl.mtake(ALL, LIMITS) == (1, 0, 0, 60_000, 8)


def test_limits_are_in_the_order_of_the_keys(rl, clock):
    rl.mtake(["a", "b", "c"], "10 10 SLIDINGLOG 20 10 LEAKYBUCKET 30 10 BURST 25", "COST 2")
    assert rl.peek("a", "10 10") == (1, 8, 0, 2000, 10)
    assert rl.peek("b", "SLIDINGLOG 20 10") == (1, 18, 0, 10_000, 20)
    assert rl.peek("c", "LEAKYBUCKET 30 10 BURST 25") == (1, 23, 667, 667, 25)


def test_detail_is_one_row_a_key(rl, clock):
    five, detail = rl.detailed("RL.MTAKE", "2 user org", LIMITS, "COST 4")
    assert five == (1, 1, 0, 8000, 5)
    assert detail == [(1, 0, 8000, 5), (4, 0, 60_000, 8)]
    five, detail = rl.detailed("RL.MTAKE", "2 user org", LIMITS, "COST 2")
    assert five == (0, 1, 2000, 8000, 5)
    assert detail == [(1, 2000, 8000, 5), (4, 0, 60_000, 8)]
    five, detail = rl.detailed("RL.MTAKE", "2 user org", LIMITS, "COST 6")
    assert five == (0, 1, -1, 8000, 5)
    assert detail == [(1, -1, 8000, 5), (4, 60_000, 60_000, 8)]


def test_ties_go_to_the_first_key(rl, clock):
    assert rl.mtake(["a", "b"], "5 10 FIXEDWINDOW 5 60") == (1, 4, 0, 2000, 5)
    assert rl.mtake(["c", "d"], "FIXEDWINDOW 5 60 5 10") == (1, 4, 0, 60_000, 5)


def test_cost_0_changes_nothing(rl, clock, client):
    assert rl.mtake(ALL, LIMITS, "COST 0") == (1, 5, 0, 0, 5)
    assert not client.exists(*ALL)


def test_wait_is_the_promise_of_all_keys(rl, clock, client):
    keys = ["a", "b"]
    limits = "3 1 SLIDINGLOG 5 4"
    refused = 0
    for _ in range(30):
        reply = rl.mtake(keys, limits)
        if not reply.allowed:
            refused += 1
            clock.advance(ms=reply.wait_ms - 1)
            assert rl.mtake(keys, limits).allowed == 0
            clock.advance(ms=1)
            assert rl.mtake(keys, limits).allowed == 1
    assert refused > 5


def test_one_key(rl, clock, client):
    assert rl.mtake(["k"], "5 10") == (1, 4, 0, 2000, 5)
    rl.take("l", "5 10")
    assert client.dump("k") == client.dump("l")


def test_128_keys(rl, clock, client):
    keys = [f"k{n}" for n in range(128)]
    limits = " ".join(f"{n + 10} 10" for n in range(128))
    five, detail = rl.detailed("RL.MTAKE", "128", *keys, limits, "COST 3")
    assert five == (1, 7, 0, 3000, 10)
    assert [d.remaining for d in detail] == [n + 7 for n in range(128)]
    assert client.dbsize() == 128


def test_a_key_that_holds_something_else(rl, clock, client, raw):
    """Found anywhere in the row, it leaves the others uncharged."""
    for place in range(3):
        keys = ["a", "b", "c"]
        client.set(keys[place], "hello")
        reply = raw("RL.MTAKE", "3", *keys, "5", "10", "5", "10", "5", "10")
        assert reply == Error("WRONGTYPE Operation against a key holding the wrong kind of value")
        assert client.get(keys[place]) == b"hello"
        assert client.dbsize() == 1
        client.flushall()


def test_every_key_gets_its_expiry(rl, clock, client):
    rl.mtake(ALL, LIMITS)
    assert 2000 <= client.pttl("user") <= 3000
    assert 60_000 <= client.pttl("org") <= 75_000


def test_a_key_may_look_like_a_limit_or_a_number(rl, clock):
    assert rl.mtake(["10", "COST"], "5 10 6 10") == (1, 4, 0, 2000, 5)
    assert rl.peek("10", "5 10").remaining == 4
    assert rl.peek("COST", "6 10").remaining == 5


def test_mtake_and_take_share_their_state(rl, clock):
    rl.take("user", "5 10 COST 2")
    assert rl.mtake(ALL, LIMITS, "COST 2").remaining == 1
    assert rl.take("user", "5 10").remaining == 0


@pytest.fixture
def cluster(new_server, clock):
    """One node that owns every slot."""
    server = new_server("--cluster-enabled", "yes")
    with server.raw() as raw:
        slots = [str(n) for n in range(16_384)]
        assert raw("CLUSTER", "ADDSLOTS", *slots) == b"OK"
        clock.advance(seconds=10)  # a fresh node waits two seconds before it serves
        wait_until(lambda: b"cluster_state:ok" in raw("CLUSTER", "INFO"))
    return server


def test_one_slot_in_a_cluster(cluster):
    rl = cluster.limiter()
    assert rl.mtake(["user:{a}", "org:{a}"], LIMITS).allowed == 1
    assert rl.peek("user:{a}", "5 10").remaining == 4
    with cluster.raw() as raw:
        reply = raw("RL.MTAKE", "2", "user:a", "org:b", *LIMITS.split())
        assert isinstance(reply, Error) and reply.startswith("CROSSSLOT ")
        assert raw("DBSIZE") == 2
