"""Limits travel with the call: the units used at this instant carry over, clamped to the new capacity."""

import itertools

import pytest

from harness import BUCKETS, KINDS, everything

ALIGNED = ["FIXEDWINDOW", "SLIDINGWINDOW", "SLIDINGLOG"]


@pytest.mark.parametrize("kind", KINDS)
def test_raising_helps_at_once_by_the_difference(rl, clock, kind):
    rl.take("k", kind, "10 3600 COST 10")
    for _ in range(40):
        assert rl.take("k", kind, "10 3600").allowed == 0
    admitted = sum(rl.take("k", kind, "20 3600").allowed for _ in range(30))
    assert admitted == 10


@pytest.mark.parametrize("kind", KINDS)
def test_lowering_clamps(rl, clock, kind):
    """Never locked out for longer than the new limit's own drain."""
    rl.take("k", kind, "100 10 COST 80")
    refused = rl.take("k", kind, "10 10")
    assert refused[:2] == (0, 0)
    assert refused.limit == 10
    own = rl.take("own", kind, "10 10 COST 10") and rl.take("own", kind, "10 10")
    assert refused.wait_ms <= own.wait_ms
    assert refused.reset_ms <= own.reset_ms
    clock.advance(ms=refused.wait_ms - 1)
    assert rl.peek("k", kind, "10 10").allowed == 0
    clock.advance(ms=1)
    assert rl.take("k", kind, "10 10").allowed == 1


@pytest.mark.parametrize("kind", KINDS)
def test_lowering_where_the_use_still_fits(rl, clock, kind):
    rl.take("k", kind, "100 10 COST 4")
    assert rl.peek("k", kind, "10 10").remaining == 6
    assert rl.take("k", kind, "10 10 COST 7").allowed == 0
    assert rl.take("k", kind, "10 10 COST 6")[:2] == (1, 0)


@pytest.mark.parametrize("kind", BUCKETS)
def test_a_change_of_burst_alone(rl, clock, kind):
    rl.take("k", kind, "10 10 COST 10")
    peeked = rl.peek("k", kind, "10 10 BURST 15")
    assert (peeked.remaining, peeked.reset_ms, peeked.limit) == (5, 10_000, 15)
    assert rl.take("k", kind, "10 10 BURST 15 COST 5")[:2] == (1, 0)
    clock.advance(ms=1500)
    assert rl.take("k", kind, "10 10 BURST 5") == (0, 0, 1000, 5000, 5)
    clock.advance(seconds=1)
    assert rl.take("k", kind, "10 10 BURST 5")[:2] == (1, 0)


def test_a_change_of_rate_keeps_the_fraction(rl, clock):
    """2.5 units used stay 2.5 and drain at the new pace."""
    rl.take("k", "10 10 COST 3")
    clock.advance(ms=500)
    assert rl.peek("k", "10 20 BURST 10") == (1, 7, 0, 5000, 10)  # 2.5 units at 2 s each
    assert rl.take("k", "10 20 BURST 10 COST 7") == (1, 0, 0, 19_000, 10)
    clock.advance(ms=999)
    assert rl.take("k", "10 20 BURST 10") == (0, 0, 1, 18_001, 10)
    clock.advance(ms=1)
    assert rl.take("k", "10 20 BURST 10") == (1, 0, 0, 20_000, 10)


def test_a_slower_rate_does_not_reach_back(rl, clock):
    """What has drained at the old rate has drained."""
    rl.take("k", "10 10 COST 10")
    clock.advance(seconds=5)
    assert rl.take("k", "1 10 BURST 10") == (1, 4, 0, 60_000, 10)


def test_a_faster_rate_hands_nothing_out(rl, clock):
    rl.take("k", "10 10 COST 10")
    clock.advance(seconds=1)
    assert rl.peek("k", "1000 10 BURST 10") == (1, 1, 0, 90, 10)
    assert rl.take("k", "1000 10 BURST 10 COST 2") == (0, 1, 10, 90, 10)


def test_a_new_period_of_a_fixed_window(rl, clock):
    """Taken in a ten second window; held, as if taken now, in the minute that runs."""
    clock.set(25)
    rl.take("k", "FIXEDWINDOW 10 10 COST 7")
    assert rl.take("k", "FIXEDWINDOW 10 60 COST 2") == (1, 1, 0, 35_000, 10)
    assert rl.take("k", "FIXEDWINDOW 10 60 COST 2") == (0, 1, 35_000, 35_000, 10)


def test_a_new_period_of_a_sliding_log(rl, clock):
    rl.take("k", "SLIDINGLOG 10 10 COST 4")
    clock.advance(seconds=5)
    rl.take("k", "SLIDINGLOG 10 10 COST 2")
    clock.advance(seconds=1)
    assert rl.take("k", "SLIDINGLOG 10 60 COST 4") == (1, 0, 0, 60_000, 10)
    assert rl.take("k", "SLIDINGLOG 10 60") == (0, 0, 60_000, 60_000, 10)


def test_a_new_period_of_a_sliding_window(rl, clock):
    rl.take("k", "SLIDINGWINDOW 10 10 COST 8")
    clock.set(15)  # 8 × 0.5 = 4 used
    assert rl.take("k", "SLIDINGWINDOW 10 60 COST 6") == (1, 0, 0, 105_000, 10)


def test_a_new_count_of_a_log_keeps_its_times(rl, clock):
    rl.take("k", "SLIDINGLOG 10 10 COST 4")
    clock.advance(seconds=5)
    assert rl.take("k", "SLIDINGLOG 12 10 COST 8") == (1, 0, 0, 10_000, 12)
    assert rl.take("k", "SLIDINGLOG 12 10") == (0, 0, 5000, 10_000, 12)


@pytest.mark.parametrize("old, new", list(itertools.permutations(BUCKETS, 2)))
def test_the_bucket_family_shares_its_state(rl, clock, client, old, new):
    rl.take("k", old, "10 10 COST 3")
    clock.advance(us=1)
    before = client.dump("k")
    assert rl.take("k", new, "10 10 COST 8").allowed == 0
    assert client.dump("k") == before, "not even a change of limits"
    assert rl.take("k", new, "10 10 COST 7")[:2] == (1, 0)


@pytest.mark.parametrize("old, new", list(itertools.permutations(["TOKENBUCKET", *ALIGNED], 2)))
def test_another_algorithm_takes_over_the_units_used(rl, clock, old, new):
    clock.set(5)
    rl.take("k", old, "10 10 COST 4")
    reply = rl.peek("k", new, "10 10")
    assert reply[:3] == (1, 6, 0)
    # As if the four had been taken now, by the new limit.
    assert reply == rl.take("own", new, "10 10 COST 4") and reply == rl.peek("own", new, "10 10")
    # Refused, they wait no longer than that, and less if they drain sooner as what they were.
    refused, own = rl.take("k", new, "10 10 COST 7"), rl.take("own", new, "10 10 COST 7")
    assert refused.allowed == own.allowed == 0 and refused.wait_ms <= own.wait_ms
    assert rl.take("k", new, "10 10 COST 6") == rl.take("own", new, "10 10 COST 6")
    assert rl.take("k", new, "10 10") == rl.take("own", new, "10 10")


@pytest.mark.parametrize("new", ALIGNED)
def test_a_part_of_a_unit_is_held_as_a_whole_one(rl, clock, new):
    """3.5 units of a bucket become four of a window: nothing is handed out."""
    rl.take("k", "10 10 COST 4")
    clock.advance(ms=500)
    assert rl.peek("k", new, "10 10").remaining == 6
    clock.advance(ms=500)
    assert rl.peek("k", new, "10 10").remaining == 7


@pytest.mark.parametrize("old, new", list(itertools.permutations(["TOKENBUCKET", *ALIGNED], 2)))
def test_changing_back_and_forth_hands_nothing_out(rl, clock, old, new):
    admitted = 0
    for _ in range(30):
        admitted += rl.take("k", old, "10 1000").allowed
        admitted += rl.take("k", new, "10 1000").allowed
    assert admitted == 10


@pytest.mark.parametrize("old, new", list(itertools.product(KINDS, KINDS)))
def test_a_refusal_after_a_change_keeps_its_promise(rl, clock, client, old, new):
    """The refusal marks the instant if that is sooner, or its wait would not come true."""
    clock.set("3.21")
    rl.take("k", old, "30 60 COST 30")
    refused = rl.take("k", new, "10 10 COST 5")
    assert refused.allowed == 0 and refused.wait_ms > 0
    clock.advance(ms=refused.wait_ms - 1)
    assert rl.peek("k", new, "10 10 COST 5").allowed == 0
    clock.advance(ms=1)
    assert rl.take("k", new, "10 10 COST 5").allowed == 1


@pytest.mark.parametrize("old, new", list(itertools.product(KINDS, KINDS)))
def test_a_refusal_after_a_change_changes_nothing_for_others(rl, clock, old, new):
    """Those with the stored limit are told the same before and after, and have nothing more to take."""
    clock.set("3.21")
    rl.take("k", old, "30 60 COST 30")
    before = rl.take("k", old, "30 60")
    for _ in range(3):
        assert rl.take("k", new, "10 10 COST 5").allowed == 0
    assert rl.take("k", old, "30 60") == before
    clock.advance(ms=before.wait_ms - 1)
    assert rl.peek("k", old, "30 60").allowed == 0
    clock.advance(ms=1)
    assert rl.take("k", old, "30 60").allowed == 1


def test_refusals_in_turn_hand_nothing_out_and_shut_nobody_out(rl, clock):
    """During a roll-out, two limits meet on a key, with any costs."""
    rl.take("k", "100 60 COST 100")
    admitted = 0
    for _ in range(200):
        assert rl.take("k", "100 60 BURST 20").allowed == 0
        admitted += rl.take("k", "100 60 COST 80").allowed
    assert admitted == 0

    rl.take("l", "10 10 COST 10")
    for _ in range(30):
        clock.advance(seconds=1)
        admitted += rl.take("l", "10 10").allowed
        assert rl.take("l", "SLIDINGLOG 10 5 COST 10").allowed == 0
    assert admitted == 30


@pytest.mark.parametrize("old, new", list(itertools.product(KINDS, KINDS)))
def test_a_refusal_writes_once_for_each_limit(rl, clock, client, old, new):
    """However often it is refused, and it costs the key no more than the mark, with its expiry."""
    rl.take("k", old, "30 60 COST 30")
    size, expiry = client.strlen("k"), client.execute_command("PTTL", "k")
    rl.take("k", new, "10 10 COST 5")
    marked = everything(client)
    for _ in range(5):
        rl.take("k", new, "10 10 COST 5")
        rl.take("k", new, "10 10 COST 3")
    assert everything(client) == marked
    assert client.strlen("k") in (size, size + 16)
    assert client.execute_command("PTTL", "k") == expiry
    for count in range(11, 31):
        rl.take("k", new, f"{count} 10 COST 5")
    assert client.strlen("k") <= size + 8 * 16


@pytest.mark.parametrize("old, new", list(itertools.product(KINDS, KINDS)))
def test_a_refusal_for_ever_after_a_change_stores_nothing(rl, clock, client, old, new):
    rl.take("k", old, "30 60 COST 30")
    before = everything(client)
    assert rl.take("k", new, "10 10 COST 11").wait_ms == -1
    assert rl.take("k", new, "0 10").wait_ms == -1
    assert rl.take("k", new, "10 10 COST 0").limit == 10
    assert everything(client) == before


@pytest.mark.parametrize("kind", KINDS)
def test_debt_is_clamped_when_the_limit_changes(rl, clock, kind):
    rl.take("k", kind, "10 10 COST 500 FORCE")
    refused = rl.take("k", kind, "12 10")
    assert refused[:2] == (0, 0)
    own = rl.take("own", kind, "12 10 COST 12") and rl.take("own", kind, "12 10")
    assert refused.wait_ms <= own.wait_ms


def test_more_limits_start_fresh(rl, clock):
    rl.take("k", "10 10 COST 4")
    _, detail = rl.detailed("RL.TAKE", "k", "10 10 FIXEDWINDOW 20 60 5 5", "COST 2")
    assert [d.remaining for d in detail] == [4, 18, 3]


def test_fewer_limits_drop_the_rest(rl, clock):
    rl.take("k", "10 10 FIXEDWINDOW 20 60 COST 4")
    rl.take("k", "10 10")
    _, detail = rl.detailed("RL.PEEK", "k", "10 10 FIXEDWINDOW 20 60")
    assert [d.remaining for d in detail] == [5, 20]


def test_a_refusal_with_fewer_limits_drops_nothing(rl, clock, client):
    rl.take("k", "10 10 FIXEDWINDOW 20 60 COST 4")
    before = everything(client)
    assert rl.take("k", "10 10 COST 7").allowed == 0
    assert everything(client) == before


def test_limits_are_matched_by_position(rl, clock):
    rl.take("k", "10 10 20 10 COST 4")
    _, detail = rl.detailed("RL.PEEK", "k", "20 10 10 10")
    assert [d.remaining for d in detail] == [16, 6]
    rl.take("l", "10 10 FIXEDWINDOW 20 10 COST 4")
    rl.take("l", "10 10 FIXEDWINDOW 20 10 SLIDINGLOG 30 10")
    _, detail = rl.detailed("RL.PEEK", "l", "SLIDINGLOG 30 10 10 10 FIXEDWINDOW 20 10")
    assert [d.remaining for d in detail] == [25, 5, 19]


def test_one_of_several_changes(rl, clock):
    rl.take("k", "10 10 FIXEDWINDOW 20 60 COST 4")
    clock.advance(seconds=1)
    _, detail = rl.detailed("RL.TAKE", "k", "10 10 FIXEDWINDOW 40 60", "COST 2")
    assert detail == [(5, 0, 5000, 10), (34, 0, 59_000, 40)]


def test_mtake_and_throttle_carry_as_well(rl, clock):
    rl.take("k", "10 10 COST 4")
    assert rl.mtake(["k"], "20 20 COST 1") == (1, 15, 0, 5000, 20)
    assert rl.throttle("k", "9 10 10") == (0, 10, 4, -1, 6)


def test_give_after_a_change(rl, clock):
    rl.take("k", "10 10 COST 8")
    assert rl.give("k", "20 10 COST 3") == (1, 15, 0, 2500, 20)
    assert rl.take("k", "20 10 COST 15").allowed == 1


@pytest.mark.parametrize("kind", KINDS)
def test_at_random_nothing_is_handed_out_and_nobody_locked_out(rl, clock, rng, kind):
    """Whatever is changed, remaining never rises above the capacity less what was used before, and a
    single unit is never further away than the new limit's own drain. (What was refused before and
    told to wait may find more: that was its promise.)"""
    count, period, told = 20, 20, set()
    for _ in range(150):
        clock.advance(us=rng.choice([0, rng.randrange(1_000_000)]))
        before = rl.peek("k", kind, f"{count} {period}")
        used = before.limit - before.remaining
        if rng.random() < 0.5:
            count = rng.choice([5, 10, 20, 40])
        if rng.random() < 0.3:
            period = rng.choice([5, 20, 60])
        now = rl.peek("k", kind, f"{count} {period}")
        if (count, period) not in told and len(told) < 8:
            assert now.remaining <= max(0, count - used) + 1, "one for a part of a unit"
        reply = rl.take("k", kind, f"{count} {period}")
        assert 0 <= reply.wait_ms <= 2 * period * 1000
        told = set() if reply.allowed else told | {(count, period)}
