"""RL.GIVE: units come back; never below nothing used, never above the capacity."""

import pytest

from harness import KINDS, everything, play

BUCKET = """
0    take COST 8  = 1 2 0  8000 10
0    give         = 1 3 0  7000 10
0    give COST 2  = 1 5 0  5000 10
0.5  give COST 1  = 1 6 0  3500 10   # 4.5 used, one back
0.5  take COST 6  = 1 0 0  9500 10
2    give COST 8  = 1 10 0    0 10   # exactly all
2    take COST 10 = 1 0 0 10000 10
2    give COST 99 = 1 10 0    0 10   # more than was taken is no credit
2    take COST 11 = 0 10 -1   0 10
2    take COST 10 = 1 0 0 10000 10
2    take         = 0 0 1000 10000 10
2    take COST 5 FORCE = 1 0 0 15000 10
2    give COST 3  = 1 0 0 12000 10   # still in debt
2    give COST 3  = 1 1 0  9000 10
2    give COST 0  = 1 1 0  9000 10
"""

FIXED = """
3   take COST 8   = 1  2 0 7000 10
4   give COST 3   = 1  5 0 6000 10
4   give COST 99  = 1 10 0    0 10
4   take COST 10  = 1  0 0 6000 10
10  give COST 1   = 1 10 0    0 10   # taken in the window before: nothing to return
"""

# The current counter first, then the previous one.
SLIDING = """
5   take COST 6   = 1  4 0 15000 10
10  take COST 4   = 1  0 0 20000 10
10  give COST 3   = 1  3 0 20000 10   # 1 now, 6 before
10  give COST 2   = 1  5 0 10000 10   # 0 now, 5 before
10  give COST 2   = 1  7 0 10000 10   # 3 before
10  give COST 99  = 1 10 0     0 10
10  take COST 8   = 1  2 0 20000 10
25  peek          = 1  6 0  5000 10   # 8 before, which weigh 4
25  give          = 1  7 0  5000 10   # whatever it takes of the 8, one is returned
25  give COST 2   = 1  9 0  5000 10
25  give          = 1 10 0     0 10
"""

# The newest go first: what was taken long ago frees itself sooner.
LOG = """
0   take COST 3   = 1  7 0 10000 10
2   take COST 3   = 1  4 0 10000 10
4   take COST 3   = 1  1 0 10000 10
4   give COST 1   = 1  2 0 10000 10
4   give COST 3   = 1  5 0  8000 10   # two at 2 and three at 0 are left
10  peek          = 1  8 0  2000 10
10  give COST 99  = 1 10 0     0 10
"""

TABLES = {
    "bucket": ("10 10", BUCKET),
    "gcra": ("GCRA 10 10", BUCKET),
    "fixed": ("FIXEDWINDOW 10 10", FIXED),
    "sliding": ("SLIDINGWINDOW 10 10", SLIDING),
    "log": ("SLIDINGLOG 10 10", LOG),
}


@pytest.mark.parametrize("name", TABLES)
def test_give(rl, clock, name):
    play(rl, clock, *TABLES[name])


def test_to_a_leaky_bucket(rl, clock):
    rl.take("k", "LEAKYBUCKET 10 10 COST 8")
    assert rl.give("k", "LEAKYBUCKET 10 10 COST 3") == (1, 5, 0, 5000, 10)
    assert rl.take("k", "LEAKYBUCKET 10 10") == (1, 4, 5000, 6000, 10)


@pytest.mark.parametrize("kind", KINDS)
def test_on_a_missing_key_creates_nothing(rl, clock, client, server, kind):
    dirty = server.dirty
    for option in ("", "COST 5", f"COST {10**12}", "COST 0"):
        assert rl.give("k", kind, "10 10", option) == (1, 10, 0, 0, 10)
    assert client.dbsize() == 0
    assert server.dirty == dirty


@pytest.mark.parametrize("kind", KINDS)
def test_with_nothing_used_changes_nothing(rl, clock, client, server, kind):
    """A drained key whose expiry hasn't come is as good as none."""
    rl.take("k", kind, "10 10 COST 10")
    client.persist("k")
    clock.advance(seconds=20)
    before, dirty = everything(client), server.dirty
    with client.pipeline() as pipe:
        pipe.watch("k")
        assert rl.give("k", kind, "10 10 COST 3") == (1, 10, 0, 0, 10)
        pipe.multi()
        pipe.ping()
        assert pipe.execute() == [True]
    assert everything(client) == before
    assert server.dirty == dirty


def test_with_units_that_count_as_none_by_now_changes_nothing(rl, clock, client, server):
    """A sliding window 0.9 over: 9 units of the one before weigh 0.9, so nothing is used."""
    rl.take("k", "SLIDINGWINDOW 10 10 COST 9")
    clock.set(19)
    before, dirty = everything(client), server.dirty
    assert rl.give("k", "SLIDINGWINDOW 10 10 COST 3") == (1, 10, 0, 1000, 10)
    assert everything(client) == before
    assert server.dirty == dirty


@pytest.mark.parametrize("kind", KINDS)
def test_cost_0_changes_nothing(rl, clock, client, server, kind):
    rl.take("k", kind, "10 10 COST 4")
    before, dirty = everything(client), server.dirty
    assert rl.give("k", kind, "10 10 COST 0").remaining == 6
    assert everything(client) == before
    assert server.dirty == dirty


@pytest.mark.parametrize("kind", KINDS)
def test_returning_everything_deletes_the_key(rl, clock, client, kind):
    for given in ("COST 4", "COST 5", f"COST {10**12}"):
        rl.take("k", kind, "10 10 COST 4")
        assert rl.give("k", kind, "10 10", given) == (1, 10, 0, 0, 10)
        assert not client.exists("k")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_given_can_be_taken_again(rl, clock, kind):
    limit = f"{kind} 10 10"
    rl.take("k", limit, "COST 10")
    assert rl.take("k", limit).allowed == 0
    assert rl.give("k", limit, "COST 3").remaining == 3
    assert rl.take("k", limit, "COST 4").allowed == 0
    assert rl.take("k", limit, "COST 3").allowed == 1
    assert rl.take("k", limit).allowed == 0


@pytest.mark.parametrize("kind", KINDS)
def test_never_more_than_the_capacity(rl, clock, rng, kind):
    limit = f"{kind} 10 10"
    for _ in range(200):
        clock.advance(us=rng.choice([0, rng.randrange(5_000_000)]))
        rl.take("k", limit, f"COST {rng.randrange(1, 12)}")
        before = rl.peek("k", limit).remaining
        given = rng.randrange(0, 14)
        after = rl.give("k", limit, f"COST {given}").remaining
        assert before <= after <= min(10, before + given)


@pytest.mark.parametrize("kind", KINDS)
def test_give_refreshes_the_expiry(rl, clock, client, kind):
    """A give is a write: the key's expiry follows the state again."""
    limit = f"{kind} 10 1000"
    rl.take("k", limit, "COST 10")
    client.persist("k")
    reply = rl.give("k", limit, "COST 9")
    assert reply.remaining == 9
    assert reply.reset_ms <= client.pttl("k") <= reply.reset_ms + max(1000, reply.reset_ms // 4)
