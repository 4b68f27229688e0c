"""One key, up to eight limits: charged to all of them or to none; the reply tells of the governing one."""

import pytest

from harness import KINDS

TEN_AND_TWELVE = "10 1 FIXEDWINDOW 12 60"


def take(rl, limits, *options):
    return rl.detailed("RL.TAKE", "k", limits, *options)


def test_two_limits_by_hand(rl, clock):
    # (the five), [remaining, wait, reset, limit of each]
    assert take(rl, TEN_AND_TWELVE, "COST 10") == (
        (1, 0, 0, 1000, 10), [(0, 0, 1000, 10), (2, 0, 60_000, 12)])  # fmt: skip
    # Refused by the first alone; the second would admit and shows no wait.
    assert take(rl, TEN_AND_TWELVE) == (
        (0, 0, 100, 1000, 10), [(0, 100, 1000, 10), (2, 0, 60_000, 12)])  # fmt: skip
    clock.set("0.5")
    # Admitted: the second has less left and governs.
    assert take(rl, TEN_AND_TWELVE, "COST 2") == (
        (1, 0, 0, 59_500, 12), [(3, 0, 700, 10), (0, 0, 59_500, 12)])  # fmt: skip
    # Refused by the second alone; the first isn't charged.
    assert take(rl, TEN_AND_TWELVE) == (
        (0, 0, 59_500, 59_500, 12), [(3, 0, 700, 10), (0, 59_500, 59_500, 12)])  # fmt: skip
    # Refused by both: the longer wait governs.
    assert take(rl, TEN_AND_TWELVE, "COST 4") == (
        (0, 0, 59_500, 59_500, 12), [(3, 100, 700, 10), (0, 59_500, 59_500, 12)])  # fmt: skip
    # Never is longer than any wait.
    assert take(rl, TEN_AND_TWELVE, "COST 11") == (
        (0, 3, -1, 700, 10), [(3, -1, 700, 10), (0, 59_500, 59_500, 12)])  # fmt: skip
    # A tie goes to the first.
    assert take(rl, TEN_AND_TWELVE, "COST 13") == (
        (0, 3, -1, 700, 10), [(3, -1, 700, 10), (0, -1, 59_500, 12)])  # fmt: skip
    clock.set(60)
    assert take(rl, TEN_AND_TWELVE) == (
        (1, 9, 0, 100, 10), [(9, 0, 100, 10), (11, 0, 60_000, 12)])  # fmt: skip


def test_ties_go_to_the_first(rl, clock):
    assert rl.take("k", "5 10 FIXEDWINDOW 5 60") == (1, 4, 0, 2000, 5)
    assert rl.take("l", "FIXEDWINDOW 5 60 5 10") == (1, 4, 0, 60_000, 5)
    rl.take("k", "5 10 FIXEDWINDOW 5 60 COST 4")
    assert rl.take("m", "FIXEDWINDOW 1 60 1 60") == (1, 0, 0, 60_000, 1)
    assert rl.take("m", "FIXEDWINDOW 1 60 1 60") == (0, 0, 60_000, 60_000, 1)


def test_a_refusal_charges_none_of_them(rl, clock):
    for order in ("100 1 5 60", "5 60 100 1"):
        key = order
        assert rl.take(key, order, "COST 5").allowed == 1
        for _ in range(50):
            assert rl.take(key, order).allowed == 0
        _, detail = rl.detailed("RL.PEEK", key.encode(), order)
        assert sorted(d.remaining for d in detail) == [0, 95]


def test_peek_of_several_limits(rl, clock):
    rl.take("k", TEN_AND_TWELVE, "COST 9")
    five, detail = rl.detailed("RL.PEEK", "k", TEN_AND_TWELVE, "COST 2")
    assert five == (0, 1, 100, 900, 10)
    assert detail == [(1, 100, 900, 10), (3, 0, 60_000, 12)]
    five, _ = rl.detailed("RL.PEEK", "k", TEN_AND_TWELVE, "COST 4")
    assert five == (0, 3, 60_000, 60_000, 12)
    five, _ = rl.detailed("RL.PEEK", "k", TEN_AND_TWELVE)
    assert five == (1, 1, 0, 900, 10)


def test_atmost_takes_what_the_tightest_has(rl, clock):
    limits = "10 10 FIXEDWINDOW 4 60"
    assert take(rl, limits, "ATMOST 7") == (
        (4, 0, 0, 60_000, 4), [(6, 0, 4000, 10), (0, 0, 60_000, 4)])  # fmt: skip
    assert take(rl, limits, "ATMOST 7") == (
        (0, 0, 60_000, 60_000, 4), [(6, 0, 4000, 10), (0, 60_000, 60_000, 4)])  # fmt: skip


def test_force_charges_all(rl, clock):
    limits = "10 10 FIXEDWINDOW 4 60"
    five, detail = take(rl, limits, "COST 6 FORCE")
    assert five == (1, 0, 0, 60_000, 4)
    assert detail == [(4, 0, 6000, 10), (0, 0, 60_000, 4)]


def test_give_returns_to_all(rl, clock):
    limits = "10 10 FIXEDWINDOW 20 60"
    rl.take("k", limits, "COST 8")
    five, detail = rl.detailed("RL.GIVE", "k", limits, "COST 3")
    assert detail == [(5, 0, 5000, 10), (15, 0, 60_000, 20)]
    assert five == (1, 5, 0, 5000, 10)


def test_a_capacity_of_zero_among_them_refuses_everything(rl, clock, client):
    assert rl.take("k", "10 10 0 60") == (0, 0, -1, 0, 0)
    assert rl.take("k", "0 60 10 10") == (0, 0, -1, 0, 0)
    assert rl.take("k", "10 10 0 60 ATMOST 3") == (0, 0, -1, 0, 0)
    assert not client.exists("k")


def test_all_six_kinds_on_one_key(rl, clock):
    limits = " ".join(f"{kind} {10 + n} 10" for n, kind in enumerate(KINDS))
    five, detail = take(rl, limits, "COST 4")
    assert five == (1, 6, 0, 4000, 10)
    assert detail == [
        (6, 0, 4000, 10),
        (7, 0, 3637, 11),
        (8, 0, 3334, 12),
        (9, 0, 10_000, 13),
        (10, 0, 20_000, 14),
        (11, 0, 10_000, 15),
    ]
    assert take(rl, limits, "COST 7") == (
        (0, 6, 1000, 4000, 10),
        [
            (6, 1000, 4000, 10),
            (7, 0, 3637, 11),
            (8, 0, 3334, 12),
            (9, 0, 10_000, 13),
            (10, 0, 20_000, 14),
            (11, 0, 10_000, 15),
        ],
    )


def test_eight_limits(rl, clock):
    limits = " ".join(f"{n} {n * n}" for n in range(8, 0, -1))
    five, detail = take(rl, limits)
    assert five == (1, 0, 0, 1000, 1)
    assert detail == [(n - 1, 0, n * 1000, n) for n in range(8, 0, -1)]


def test_a_limit_may_be_named_twice(rl, clock):
    """Two equal limits are two states that move alike."""
    limits = "10 10 10 10"
    for left in (9, 8, 7):
        assert take(rl, limits) == (
            (1, left, 0, (10 - left) * 1000, 10),
            [(left, 0, (10 - left) * 1000, 10)] * 2,
        )


def test_wait_is_the_promise_of_all_limits(rl, clock, client):
    """Admitted at wait_ms, refused one before, whichever limit holds it back."""
    limits = "2 1 FIXEDWINDOW 5 7 SLIDINGLOG 8 20"
    admitted = 0
    for _ in range(40):
        reply = rl.take("k", limits)
        if reply.allowed:
            admitted += 1
            continue
        clock.advance(ms=reply.wait_ms - 1)
        assert rl.peek("k", limits).allowed == 0
        clock.advance(ms=1)
        assert rl.peek("k", limits).allowed == 1
    assert admitted >= 20


def test_the_wait_of_a_leaky_bucket_among_others(rl, clock):
    """The five describe the governing limit; the leaky bucket's own wait is in its detail."""
    limits = "LEAKYBUCKET 10 10 FIXEDWINDOW 5 60"
    take(rl, limits)
    five, detail = take(rl, limits)
    assert detail == [(8, 1000, 2000, 10), (3, 0, 60_000, 5)]
    assert five == (1, 3, 0, 60_000, 5)
    five, detail = rl.detailed("RL.TAKE", "l", "LEAKYBUCKET 5 5 FIXEDWINDOW 50 60", "COST 2")
    five, detail = rl.detailed("RL.TAKE", "l", "LEAKYBUCKET 5 5 FIXEDWINDOW 50 60", "COST 2")
    assert five == (1, 1, 2000, 4000, 5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pair_is_as_strict_as_each_alone(rl, clock, rng, kind):
    """A pair admits exactly what both of its halves admit, when each is asked first."""
    one, two = f"{kind} 5 2", "FIXEDWINDOW 11 7"
    for _ in range(150):
        clock.advance(us=rng.choice([0, 0, rng.randrange(400_000), rng.randrange(3_000_000)]))
        cost = rng.choice([1, 1, 2, 3])
        both = all(rl.peek(key, limit, f"COST {cost}").allowed for key, limit in (("a", one), ("b", two)))
        assert rl.take("k", one, two, f"COST {cost}").allowed == both
        if both:
            rl.take("a", one, f"COST {cost}")
            rl.take("b", two, f"COST {cost}")
