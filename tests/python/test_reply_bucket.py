"""TOKENBUCKET, GCRA and LEAKYBUCKET: time and call → the five numbers, worked out by hand."""

import pytest

from harness import play

# Ten units, one draining each second.
EVEN = """
0         take           = 1  9    0  1000 10
0         take COST 4    = 1  5    0  5000 10
0         take COST 6    = 0  5 1000  5000 10   # 5 used; fits when 4 are
0         take COST 11   = 0  5   -1  5000 10   # more than the bucket holds
0         take COST 5    = 1  0    0 10000 10
0         take           = 0  0 1000 10000 10
0         take COST 10   = 0  0 10000 10000 10
0.000999  take           = 0  0 1000 10000 10   # 999.001 ms
0.001     take           = 0  0  999  9999 10
0.999     take           = 0  0    1  9001 10
0.9999    take           = 0  0    1  9001 10   # 0.1 ms to wait is 1 ms in the reply
0.999999  take           = 0  0    1  9001 10   # and so is a microsecond
1         take           = 1  0    0 10000 10
1         peek           = 0  0 1000 10000 10
3.5       peek           = 1  2    0  7500 10   # 7.5 used: 2.5 free, 2 to take
3.5       take COST 3    = 0  2  500  7500 10
3.5       take COST 2    = 1  0    0  9500 10
12.9995   peek           = 1  9    0     1 10   # half a millisecond short of empty
13        peek           = 1 10    0     0 10
20        take COST 10   = 1  0    0 10000 10
20        take COST 0    = 1  0    0 10000 10
"""

# 100 a minute, bursts of 20: a unit drains in 0.6 s.
BURST = """
0       take COST 19  = 1  1   0 11400 20
0       take          = 1  0   0 12000 20
0       take          = 0  0 600 12000 20
0       take COST 21  = 0  0  -1 12000 20
0.599   take          = 0  0   1 11401 20
0.6     take          = 1  0   0 12000 20
12.599  peek          = 1 19   0     1 20
12.6    peek          = 1 20   0     0 20
"""

# A unit drains in a third of a second, which no clock shows exactly.
THIRDS = """
0      take  = 1 0   0 334 1
0      take  = 0 0 334 334 1
0.333  take  = 0 0   1   1 1
0.334  take  = 1 0   0 334 1
1.334  take  = 1 0   0 334 1
"""

# 1 a day, no burst: large numbers of milliseconds.
SLOW = """
0         take  = 1 0        0 86400000 1
0         take  = 0 0 86400000 86400000 1
86399.9   take  = 0 0      100      100 1
86400     take  = 1 0        0 86400000 1
"""

# 8000 a second: a unit drains in 125 microseconds.
FAST = """
0         take COST 2  = 1 0 0 1 2
0         take         = 0 0 1 1 2
0.000124  take         = 0 0 1 1 2
0.000125  take         = 1 0 0 1 2
0.000126  take         = 0 0 1 1 2
0.000374  take COST 2  = 0 1 1 1 2
0.000375  take COST 2  = 1 0 0 1 2
"""

# What is forced is owed.
FORCE = """
0       take COST 25 FORCE  = 1 0     0 25000 10
0       take                = 0 0 16000 25000 10
0       take COST 10        = 0 0 25000 25000 10
0       take COST 11        = 0 0    -1 25000 10
0       take COST 0         = 0 0 15000 25000 10   # until the debt has drained
0       take FORCE          = 1 0     0 26000 10
15.999  take COST 0         = 0 0     1 10001 10
16      take COST 0         = 1 0     0 10000 10
16.999  take                = 0 0     1  9001 10
17      take                = 1 0     0 10000 10
27      peek                = 1 10    0     0 10
"""

ATMOST = """
0    take COST 4           = 1 6    0  4000 10
0    take ATMOST 4         = 4 2    0  8000 10
0    take ATMOST 4         = 2 0    0 10000 10
0    take ATMOST 4         = 0 0 1000 10000 10   # the wait for one
0    take ATMOST 1000      = 0 0 1000 10000 10
0    take ATMOST 0         = 0 0    0 10000 10
3.5  peek ATMOST 1000      = 3 3    0  6500 10
3.5  take ATMOST 1000      = 3 0    0  9500 10
3.5  take ATMOST 5 FORCE   = 5 0    0 14500 10
3.5  take ATMOST 5         = 0 0 5500 14500 10
3.5  take ATMOST 0         = 0 0 4500 14500 10
20   take ATMOST 1000000   = 10 0   0 10000 10
"""

# A limit whose capacity is 0 refuses everything; it is never "unlimited".
ZERO = """
0  take              = 0 0 -1 0 0
0  take COST 0       = 0 0 -1 0 0
0  take COST 5       = 0 0 -1 0 0
0  take ATMOST 5     = 0 0 -1 0 0
0  peek              = 0 0 -1 0 0
9  take              = 0 0 -1 0 0
"""

TABLES = {
    "even": ("10 10", EVEN),
    "burst": ("100 60 BURST 20", BURST),
    "burst in minutes": ("100 1m BURST 20", BURST),
    "thirds": ("3 1 BURST 1", THIRDS),
    "slow": ("1 1d", SLOW),
    "fast": ("8000 1s BURST 2", FAST),
    "force": ("10 10", FORCE),
    "atmost": ("10 10", ATMOST),
    "zero count": ("0 60", ZERO),
    "zero burst": ("10 60 BURST 0", ZERO),
    "zero of both": ("0 60 BURST 0", ZERO),
}

# The same decisions as the others; an admitted call is told to wait for all that is ahead of it.
LEAKY_EVEN = """
0     take         = 1 9    0  1000 10
0     take         = 1 8 1000  2000 10
0     take COST 3  = 1 5 2000  5000 10
0     take         = 1 4 5000  6000 10
0.25  take         = 1 3 5750  6750 10
0.25  peek         = 1 3 6750  6750 10
0.25  take COST 4  = 0 3  750  6750 10   # refused: the wait of a refusal
0.25  take COST 3  = 1 0 6750  9750 10
0.25  take         = 0 0  750  9750 10
0.25  take COST 11 = 0 0   -1  9750 10
1     take         = 1 0 9000 10000 10
20    peek         = 1 10   0     0 10
20    take         = 1 9    0  1000 10
"""

LEAKY_FORCE = """
0   take COST 10     = 1 0     0 10000 10
0   take COST 5 FORCE = 1 0 10000 15000 10
0   take             = 0 0  6000 15000 10
6   take             = 1 0  9000 10000 10
"""

LEAKY_ATMOST = """
0   take COST 7      = 1 3     0  7000 10
0   take ATMOST 5    = 3 0  7000 10000 10
0   take ATMOST 5    = 0 0  1000 10000 10
"""

LEAKY_THIRDS = """
0      take COST 2  = 1 1    0  667 3
0      take         = 1 0  667 1000 3
0      take         = 0 0  334 1000 3
0.3335 take         = 1 0  667 1000 3
"""

LEAKY_TABLES = {
    "even": ("LEAKYBUCKET 10 10", LEAKY_EVEN),
    "force": ("LEAKYBUCKET 10 10", LEAKY_FORCE),
    "atmost": ("LEAKYBUCKET 10 10", LEAKY_ATMOST),
    "thirds": ("LEAKYBUCKET 3 1", LEAKY_THIRDS),
    "zero": ("LEAKYBUCKET 0 60", ZERO),
}


@pytest.mark.parametrize("keyword", ["", "TOKENBUCKET", "GCRA", "gcra", "TokenBucket"])
@pytest.mark.parametrize("name", TABLES)
def test_token_bucket(rl, clock, keyword, name):
    limit, table = TABLES[name]
    play(rl, clock, f"{keyword} {limit}", table)


@pytest.mark.parametrize("name", LEAKY_TABLES)
def test_leaky_bucket(rl, clock, name):
    play(rl, clock, *LEAKY_TABLES[name])


def test_leaky_bucket_makes_the_same_decisions(rl, clock, rng):
    """Whatever is asked of them, LEAKYBUCKET, GCRA and TOKENBUCKET differ in wait_ms only."""
    limit = "7 3 BURST 5"
    for _ in range(300):
        clock.advance(us=rng.choice([0, 0, 1, 999, 428_571, 428_572, rng.randrange(3_000_000)]))
        option = rng.choice(["COST 1", "COST 2", "COST 5", "ATMOST 3", "COST 3 FORCE", "COST 0"])
        token, gcra, leaky = (
            rl.take(kind, kind, limit, option) for kind in ("TOKENBUCKET", "GCRA", "LEAKYBUCKET")
        )
        assert token == gcra
        assert leaky._replace(wait_ms=0) == token._replace(wait_ms=0)
        if not token.allowed:
            assert leaky == token


def test_the_waits_of_a_leaky_bucket_space_the_calls(rl, clock):
    """Calls sent on after their wait leave one drain apart."""
    leaves = [rl.take("k", "LEAKYBUCKET 4 1 BURST 20").wait_ms for _ in range(20)]
    assert leaves == [250 * n for n in range(20)]


@pytest.mark.parametrize("kind", ["", "GCRA", "LEAKYBUCKET"])
def test_the_largest_bucket(rl, clock, kind):
    trillion = 10**12
    limit = f"{kind} {trillion} 3650d"
    assert rl.take("k", limit, f"COST {trillion - 1}")[:3] == (1, 1, 0)
    assert rl.take("k", limit)[:2] == (1, 0)
    # A unit drains in 315.36 microseconds.
    refused = rl.take("k", limit, "COST 10")
    assert refused == (0, 0, 4, 3650 * 86_400_000, trillion)
    clock.advance(ms=3)
    assert rl.take("k", limit, "COST 10").allowed == 0
    clock.advance(ms=1)
    assert rl.take("k", limit, "COST 10").allowed == 1


def test_the_fastest_bucket(rl, clock):
    """10^12 a millisecond: full again after any millisecond, and never more than full."""
    limit = f"{10**12} 1ms"
    assert rl.take("k", limit, f"COST {10**12}") == (1, 0, 0, 1, 10**12)
    assert rl.take("k", limit) == (0, 0, 1, 1, 10**12)
    clock.advance(us=1)
    assert rl.peek("k", limit) == (1, 10**9, 0, 1, 10**12)
    clock.advance(us=999)
    assert rl.peek("k", limit) == (1, 10**12, 0, 0, 10**12)
    clock.advance(seconds=86_400 * 3650)
    assert rl.peek("k", limit) == (1, 10**12, 0, 0, 10**12)


def test_the_slowest_bucket(rl, clock):
    """1 each 36500 days is the longest drain there is."""
    limit = "1 3650d BURST 10"
    day_ms = 86_400_000
    assert rl.take("k", limit, "COST 10") == (1, 0, 0, 36_500 * day_ms, 10)
    assert rl.take("k", limit) == (0, 0, 3650 * day_ms, 36_500 * day_ms, 10)
    assert rl.take("k", limit, "COST 10") == (0, 0, 36_500 * day_ms, 36_500 * day_ms, 10)
    clock.advance(seconds=3650 * 86_400)
    assert rl.take("k", limit) == (1, 0, 0, 36_500 * day_ms, 10)
