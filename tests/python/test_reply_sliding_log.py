"""SLIDINGLOG: time and call → the five numbers, worked out by hand."""

import pytest

from harness import play

THREE = """
0      take          = 1 2    0 10000 3
1      take COST 2   = 1 0    0 10000 3
2      take          = 0 0 8000  9000 3   # the take at 0 counts until 10
2      take COST 2   = 0 0 9000  9000 3   # and needs a second unit, free at 11
2      take COST 4   = 0 0   -1  9000 3
2.000999 take        = 0 0 8000  9000 3
2.001  take          = 0 0 7999  8999 3
9.999  take          = 0 0    1  1001 3
10     take          = 1 0    0 10000 3   # until 10, not at 10
10     take          = 0 0 1000 10000 3
11     peek          = 1 2    0  9000 3
20     peek          = 1 3    0     0 3
"""

MICROSECONDS = """
0.0005    take COST 3  = 1 0     0 10000 3
10.000499 take         = 0 0     1     1 3
10.0005   take COST 3  = 1 0     0 10000 3
"""

# The edge of FIXEDWINDOW doesn't exist here.
EDGE = """
9.9    take COST 10  = 1 0    0 10000 10
10     take          = 0 0 9900  9900 10
19.899 take          = 0 0    1     1 10
19.9   take COST 10  = 1 0    0 10000 10
"""

FORCE = """
0   take COST 3         = 1 0     0 10000 3
2   take COST 4 FORCE   = 1 0     0 10000 3
2   take                = 0 0 10000 10000 3   # 7 held; at 10 still 4, at 12 none
2   take COST 0         = 0 0 10000 10000 3
10  take                = 0 0  2000  2000 3
12  take                = 1 2     0 10000 3
"""

ATMOST = """
0   take COST 1    = 1 2     0 10000 3
1   take ATMOST 9  = 2 0     0 10000 3
1   take ATMOST 9  = 0 0  9000 10000 3
1   take ATMOST 0  = 0 0     0 10000 3
10  take ATMOST 9  = 1 0     0 10000 3
11  take ATMOST 9  = 2 0     0 10000 3
"""

ZERO = """
0  take           = 0 0 -1 0 0
0  take COST 0    = 0 0 -1 0 0
0  take ATMOST 5  = 0 0 -1 0 0
0  peek           = 0 0 -1 0 0
"""

TABLES = {
    "three": ("SLIDINGLOG 3 10", THREE),
    "microseconds": ("SLIDINGLOG 3 10", MICROSECONDS),
    "edge": ("SLIDINGLOG 10 10", EDGE),
    "force": ("SLIDINGLOG 3 10", FORCE),
    "atmost": ("SLIDINGLOG 3 10", ATMOST),
    "zero": ("SLIDINGLOG 0 60", ZERO),
}


@pytest.mark.parametrize("name", TABLES)
def test_sliding_log(rl, clock, name):
    play(rl, clock, *TABLES[name])


def test_every_take_is_remembered_for_one_period(rl, clock):
    """500 takes a millisecond apart: a period later each frees its unit, one a millisecond."""
    for _ in range(500):
        assert rl.take("k", "SLIDINGLOG 500 10").allowed == 1
        clock.advance(ms=1)
    assert rl.peek("k", "SLIDINGLOG 500 10") == (0, 0, 9500, 9999, 500)
    clock.set("9.999")
    for _ in range(100):
        assert rl.take("k", "SLIDINGLOG 500 10")[:3] == (0, 0, 1)
        clock.advance(ms=1)
        assert rl.take("k", "SLIDINGLOG 500 10").allowed == 1
        assert rl.peek("k", "SLIDINGLOG 500 10").remaining == 0


def test_the_largest_log(rl, clock):
    limit = "SLIDINGLOG 100000 60"
    assert rl.take("k", limit, "COST 99998") == (1, 2, 0, 60_000, 100_000)
    clock.advance(ms=1)
    assert rl.take("k", limit) == (1, 1, 0, 60_000, 100_000)
    assert rl.take("k", limit) == (1, 0, 0, 60_000, 100_000)
    assert rl.take("k", limit) == (0, 0, 59_999, 60_000, 100_000)
    clock.set(60)
    assert rl.peek("k", limit) == (1, 99_998, 0, 1, 100_000)


def test_a_long_log_of_single_takes(rl, clock, client):
    """20,000 takes at distinct instants fill a log of 20,000 exactly."""
    pipe = client.pipeline(transaction=False)
    for _ in range(20):
        for _ in range(1000):
            pipe.execute_command("RL.TAKE", "k", "SLIDINGLOG", 20_000, 60)
        assert all(reply[0] == 1 for reply in pipe.execute())
        clock.advance(ms=1)
    assert rl.take("k", "SLIDINGLOG 20000 60") == (0, 0, 59_980, 59_999, 20_000)
    clock.set(60)
    assert rl.peek("k", "SLIDINGLOG 20000 60").remaining == 1000
    clock.set("60.010")
    assert rl.peek("k", "SLIDINGLOG 20000 60").remaining == 11_000
