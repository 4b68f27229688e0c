"""Keys clean themselves: after every write an absolute expiry, not before the state says the same as
no key, and at most a second or a quarter of that time (the larger) after."""

import pytest

from harness import BUCKETS, KINDS, expires_at_ms


def assert_expiry(server, client, clock, reset_ms, key="k"):
    """`reset_ms` is the exact time until nothing is held."""
    at = expires_at_ms(server, client, key)
    assert at is not None, "no expiry"
    left_us = at * 1000 - clock.now_us
    assert reset_ms * 1000 <= left_us, "gone before its state is"
    assert left_us <= (reset_ms + max(1000, reset_ms / 4)) * 1000 + 1000, "kept too long"


@pytest.mark.parametrize("period_s", [1, 10, 60, 3600, 86_400, 3650 * 86_400])
@pytest.mark.parametrize("kind", KINDS)
def test_after_a_take(server, rl, client, clock, kind, period_s):
    for cost in (1, 3, 10):
        reply = rl.take("k", f"{kind} 10 {period_s} COST {cost}")
        assert reply.allowed == 1
        assert_expiry(server, client, clock, reply.reset_ms)
        client.delete("k")


@pytest.mark.parametrize("kind", KINDS)
def test_after_every_write(server, rl, client, clock, rng, kind):
    """Many takes and gives; the expiry may be refreshed lazily but is never too early or too late."""
    limit = f"{kind} 20 40"
    for _ in range(250):
        clock.advance(ms=rng.choice([0, 1, rng.randrange(2000), rng.randrange(9000)]))
        if rng.random() < 0.2:
            reply = rl.give("k", limit, f"COST {rng.randrange(1, 4)}")
            wrote = reply.remaining < 20
        else:
            reply = rl.take("k", limit, rng.choice(["", "COST 3", "COST 5 FORCE", "ATMOST 4"]))
            wrote = reply.allowed
        if wrote and client.exists("k"):
            assert_expiry(server, client, clock, reply.reset_ms)


@pytest.mark.parametrize("kind", KINDS)
def test_gone_by_itself(rl, client, clock, kind):
    reply = rl.take("k", f"{kind} 10 10 COST 7")
    clock.advance(ms=reply.reset_ms - 1)
    assert client.exists("k")
    clock.advance(ms=1 + max(1000, reply.reset_ms // 4) + 2)
    assert not client.exists("k")


@pytest.mark.parametrize("kind", KINDS)
def test_its_state_says_nothing_any_more_when_it_goes(rl, client, clock, kind):
    """At reset_ms the state and no key answer alike; a millisecond before they don't."""
    limit = f"{kind} 10 10"
    reply = rl.take("k", limit, "COST 7")
    client.persist("k")
    clock.advance(ms=reply.reset_ms - 1)
    assert rl.peek("k", limit) != rl.peek("missing", limit)
    clock.advance(ms=1)
    for option in ("", "COST 10", "ATMOST 99", "COST 11"):
        assert rl.peek("k", limit, option) == rl.peek("missing", limit, option)


def test_several_limits_keep_the_key_for_the_longest(server, rl, client, clock):
    rl.take("k", "10 1 FIXEDWINDOW 1000 3600 SLIDINGLOG 100 60")
    assert_expiry(server, client, clock, 3_600_000)
    rl.take("l", "FIXEDWINDOW 1000 3600 10 1")
    assert_expiry(server, client, clock, 3_600_000, "l")
    clock.set(3599)
    rl.take("m", "FIXEDWINDOW 1000 3600 10 10 COST 8")
    assert_expiry(server, client, clock, 8000, "m")


@pytest.mark.parametrize("kind", KINDS)
def test_debt_is_kept_until_it_has_drained(server, rl, client, clock, kind):
    reply = rl.take("k", f"{kind} 10 10 COST 500 FORCE")
    assert_expiry(server, client, clock, reply.reset_ms)
    if kind in BUCKETS:
        assert reply.reset_ms == 500_000


@pytest.mark.parametrize("kind", KINDS)
def test_without_ttl_it_still_decides_rightly(server, rl, client, clock, kind):
    """PERSIST: the state has its own timestamps, and gets its TTL back at the next write."""
    limit = f"{kind} 10 10"
    rl.take("k", limit, "COST 10")
    client.persist("k")
    clock.advance(seconds=3)
    assert rl.take("k", limit, "COST 4").allowed == 0
    assert client.ttl("k") == -1, "a refusal writes nothing"
    clock.advance(seconds=30)
    assert rl.peek("k", limit) == (1, 10, 0, 0, 10)
    assert client.ttl("k") == -1
    reply = rl.take("k", limit, "COST 4")
    assert reply[:2] == (1, 6)
    assert_expiry(server, client, clock, reply.reset_ms)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", ["take", "give", "force"])
def test_a_shorter_expiry_is_repaired_at_the_next_write(server, rl, client, clock, kind, verb):
    limit = f"{kind} 10 1000"
    rl.take("k", limit, "COST 5")
    client.pexpire("k", 100)
    if verb == "give":
        reply = rl.give("k", limit)
    else:
        reply = rl.take("k", limit, "FORCE" if verb == "force" else "")
    assert_expiry(server, client, clock, reply.reset_ms)
    clock.advance(ms=101)
    assert client.exists("k")


@pytest.mark.parametrize("kind", KINDS)
def test_a_longer_expiry_is_repaired_too(server, rl, client, clock, kind):
    limit = f"{kind} 10 10"
    rl.take("k", limit)
    client.pexpire("k", 1_000_000_000)
    assert_expiry(server, client, clock, rl.take("k", limit).reset_ms)


@pytest.mark.parametrize("kind", KINDS)
def test_a_user_expiry_that_comes_resets_the_limit(rl, client, clock, kind):
    limit = f"{kind} 10 1000"
    rl.take("k", limit, "COST 10")
    client.pexpire("k", 100)
    clock.advance(ms=102)
    assert rl.take("k", limit) == rl.take("new", limit)


def test_sub_millisecond_states_live_to_be_read(rl, client, clock):
    """8000 a second: each take is held for 125 microseconds, less than the expiry can say."""
    for _ in range(50):
        assert rl.take("k", "8000 1 BURST 1").allowed == 1
        assert rl.take("k", "8000 1 BURST 1").allowed == 0
        clock.advance(us=124)
        assert rl.take("k", "8000 1 BURST 1").allowed == 0
        clock.advance(us=1)


def test_mtake_and_throttle_set_it_as_well(server, rl, client, clock):
    rl.mtake(["a", "b"], "10 10 FIXEDWINDOW 5 600", "COST 4")
    assert_expiry(server, client, clock, 4000, "a")
    assert_expiry(server, client, clock, 600_000, "b")
    rl.throttle("c", "15 30 60")
    assert_expiry(server, client, clock, 2000, "c")


def test_a_million_keys_would_not_stay(rl, client, clock):
    """A thousand keys, each taken from once, are all gone after their reset and a second."""
    pipe = client.pipeline(transaction=False)
    for n in range(1000):
        pipe.execute_command("RL.TAKE", f"k{n}", KINDS[n % 6], 10, 1)
    pipe.execute()
    assert client.dbsize() == 1000
    clock.advance(seconds=4)
    for n in range(1000):
        pipe.exists(f"k{n}")
    assert sum(pipe.execute()) == 0
