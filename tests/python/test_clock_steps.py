"""The server's clock steps: back, nothing is minted and nobody is locked out; ahead, time has passed."""

import pytest

from harness import BUCKETS, KINDS, expires_at_ms

STEPS = ["0.000001", "0.5", "3600", "31536000"]


@pytest.mark.parametrize("back", STEPS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_back_mints_nothing_and_locks_nobody_out(rl, clock, kind, back):
    limit = f"{kind} 10 10"
    clock.set("5.5")
    rl.take("k", limit, "COST 6")
    clock.advance(seconds="-" + back)
    assert rl.peek("k", limit).remaining == 4
    refused = rl.take("k", limit, "COST 5")
    assert refused[:2] == (0, 4)
    # Not the size of the step: at most what a full limit of this kind asks.
    assert refused.wait_ms <= (20_000 if kind == "SLIDINGWINDOW" else 10_000)
    assert refused.reset_ms <= (20_000 if kind == "SLIDINGWINDOW" else 10_000)
    assert rl.take("k", limit, "COST 4")[:2] == (1, 0)
    assert rl.take("k", limit).allowed == 0


@pytest.mark.parametrize("back", STEPS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_refusal_after_a_step_keeps_its_promise(rl, clock, kind, back):
    """It stores what it saw as now: the one refusal that writes."""
    limit = f"{kind} 10 10"
    clock.set("5.5")
    rl.take("k", limit, "COST 10")
    clock.advance(seconds="-" + back)
    refused = rl.take("k", limit, "COST 3")
    assert refused.allowed == 0 and refused.wait_ms > 0
    clock.advance(ms=refused.wait_ms - 1)
    assert rl.take("k", limit, "COST 3").allowed == 0
    clock.advance(ms=1)
    assert rl.take("k", limit, "COST 3").allowed == 1


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_first_refusal_after_a_step_writes(rl, clock, client, server, kind):
    limit = f"{kind} 10 10"
    clock.set("3605.5")
    rl.take("k", limit, "COST 10")
    clock.set("5.5")
    dirty = server.dirty
    assert rl.take("k", limit).allowed == 0
    assert server.dirty > dirty
    after, dirty = client.dump("k"), server.dirty
    for _ in range(5):
        assert rl.take("k", limit).allowed == 0
        clock.advance(us=10)
    assert client.dump("k") == after
    assert server.dirty == dirty


@pytest.mark.parametrize("kind", KINDS)
def test_a_peek_after_a_step_writes_nothing(rl, clock, client, server, kind):
    limit = f"{kind} 10 10"
    clock.set("3605.5")
    rl.take("k", limit, "COST 10")
    clock.set("5.5")
    before, dirty = client.dump("k"), server.dirty
    peeked = rl.peek("k", limit)
    rl.take("k", limit, "COST 0")
    assert client.dump("k") == before
    assert server.dirty == dirty
    assert rl.take("k", limit) == peeked


@pytest.mark.parametrize("kind", KINDS)
def test_the_expiry_follows_the_clock_back(server, rl, clock, client, kind):
    """After the step the key no longer lives until its old, far away expiry."""
    limit = f"{kind} 10 10"
    clock.set("3605.5")
    rl.take("k", limit, "COST 10")
    clock.set("5.5")
    refused = rl.take("k", limit)
    at = expires_at_ms(server, client, "k")
    left_ms = at - clock.now_us // 1000
    assert refused.reset_ms <= left_ms <= refused.reset_ms + max(1000, refused.reset_ms / 4) + 1


@pytest.mark.parametrize("kind", BUCKETS)
def test_a_bucket_by_hand(rl, clock, kind):
    limit = f"{kind} 10 10"
    clock.set(3600)
    rl.take("k", limit, "COST 10")
    clock.set(0)
    assert rl.take("k", limit) == (0, 0, 1000, 10_000, 10)
    clock.set("0.999")
    assert rl.take("k", limit) == (0, 0, 1, 9001, 10)
    clock.set(1)
    assert rl.take("k", limit)[:2] == (1, 0)


def test_a_fixed_window_by_hand(rl, clock):
    """The window ahead counts as the current one and ends with it."""
    clock.set(3605)
    rl.take("k", "FIXEDWINDOW 10 10 COST 7")
    clock.set(5)
    assert rl.take("k", "FIXEDWINDOW 10 10 COST 4") == (0, 3, 5000, 5000, 10)
    clock.set(10)
    assert rl.take("k", "FIXEDWINDOW 10 10 COST 4") == (1, 6, 0, 10_000, 10)


def test_a_sliding_window_by_hand(rl, clock):
    clock.set(3605)
    rl.take("k", "SLIDINGWINDOW 10 10 COST 8")
    clock.set(5)
    assert rl.take("k", "SLIDINGWINDOW 10 10 COST 4") == (0, 2, 6251, 15_000, 10)  # 8 × (10 − e) / 10 < 7
    clock.set(12.5)  # 8 × 0.75 = 6
    assert rl.take("k", "SLIDINGWINDOW 10 10 COST 4") == (1, 0, 0, 17_500, 10)


def test_a_sliding_window_back_over_its_turn(rl, clock):
    """What counted as the window before is of this one again, at its full weight."""
    limit = "SLIDINGWINDOW 10 10"
    clock.set("9.9")
    rl.take("k", limit, "COST 10")
    clock.set(15)
    assert rl.take("k", limit, "COST 2")[:2] == (1, 3)  # 10 × 0.5 and 2
    clock.set("9.95")
    assert rl.peek("k", limit)[:2] == (0, 0)
    # 12 units of this window: 12 × (10 − e) / 10 < 10 when e > 1.66…
    assert rl.take("k", limit) == (0, 0, 1717, 10_050, 10)
    clock.set("11.667")
    assert rl.take("k", limit)[:2] == (1, 0)


def test_a_sliding_log_by_hand(rl, clock):
    """Takes ahead of the clock count as taken now; those behind keep their time."""
    clock.set(1)
    rl.take("k", "SLIDINGLOG 10 10 COST 2")
    clock.set(5)
    rl.take("k", "SLIDINGLOG 10 10 COST 8")
    clock.set(3)
    assert rl.take("k", "SLIDINGLOG 10 10 COST 3") == (0, 0, 10_000, 10_000, 10)
    clock.set(11)
    assert rl.peek("k", "SLIDINGLOG 10 10") == (1, 2, 0, 2000, 10)
    clock.set(13)
    assert rl.peek("k", "SLIDINGLOG 10 10") == (1, 10, 0, 0, 10)


@pytest.mark.parametrize("kind", KINDS)
def test_sawing_back_and_forth_admits_no_more_than_standing_still(rl, clock, kind):
    limit = f"{kind} 10 10"
    admitted = 0
    for step in range(200):
        clock.set(0 if step % 2 else "0.0005")
        admitted += rl.take("k", limit).allowed
    assert admitted == 10


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_ahead_and_back_again(rl, clock, kind):
    """A clock that was wrong for one take: what it held stays held, no more and no less."""
    limit = f"{kind} 10 10"
    rl.take("k", limit, "COST 10")
    clock.set(86_400)
    assert rl.take("k", limit, "COST 7")[:2] == (1, 3)
    clock.set(1)
    assert rl.take("k", limit, "COST 4").allowed == 0
    assert rl.take("k", limit, "COST 3")[:2] == (1, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_leap_of_years(rl, clock, kind):
    limit = f"{kind} 10 10"
    rl.take("k", limit, "COST 10")
    clock.set(200 * 365 * 86_400)
    assert rl.take("k", limit, "COST 10")[:2] == (1, 0)
    clock.set(-40 * 365 * 86_400)  # 1990
    assert rl.take("k", limit).allowed == 0
    assert rl.peek("k", limit).remaining == 0
    clock.advance(seconds=30)
    assert rl.take("k", limit, "COST 10").allowed == 1


def test_mtake_and_throttle_after_a_step(rl, clock, client):
    clock.set(3600)
    rl.mtake(["a", "b"], "10 10 FIXEDWINDOW 10 10", "COST 10")
    rl.throttle("c", "9 10 10 10")
    clock.set(0)
    refused = rl.mtake(["a", "b"], "10 10 FIXEDWINDOW 10 10")
    assert refused == (0, 0, 10_000, 10_000, 10)
    assert rl.throttle("c", "9 10 10") == (1, 10, 0, 1, 10)
    clock.set("0.999")
    assert rl.throttle("c", "9 10 10").limited == 1
    clock.set(1)
    assert rl.throttle("c", "9 10 10").limited == 0
    clock.set("9.999")
    assert rl.mtake(["a", "b"], "10 10 FIXEDWINDOW 10 10").allowed == 0
    clock.set(10)
    assert rl.mtake(["a", "b"], "10 10 FIXEDWINDOW 10 10").allowed == 1


def test_windows_ahead_of_each_other_on_one_key(rl, clock):
    """Several limits, all ahead: each is taken as now."""
    limits = "10 10 FIXEDWINDOW 10 10 SLIDINGLOG 10 10"
    clock.set(3600)
    rl.take("k", limits, "COST 10")
    clock.set(0)
    five, detail = rl.detailed("RL.TAKE", "k", limits)
    assert five == (0, 0, 10_000, 10_000, 10)
    assert [d.wait_ms for d in detail] == [1000, 10_000, 10_000]
    clock.set("9.999")
    assert rl.take("k", limits).allowed == 0
    clock.set(10)
    assert rl.take("k", limits).allowed == 1
