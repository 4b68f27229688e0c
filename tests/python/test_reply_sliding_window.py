"""SLIDINGWINDOW: time and call → the five numbers, worked out by hand."""

import pytest

from harness import play

TEN = """
8     take COST 10  = 1  0     0 12000 10   # until the next window ends, at 20
8     take          = 0  0  2001 12000 10   # at 10.000001 the ten weigh 9.99…
8     take COST 5   = 0  0  6001 12000 10   # at 14.000001 they weigh 5.99…
8     take COST 10  = 0  0 11001 12000 10   # at 19.000001 they weigh 0.99…
8     take COST 11  = 0  0    -1 12000 10
8.001   take        = 0  0  2000 11999 10
8.002001 take       = 0  0  1998 11998 10
10    peek          = 0  0     1 10000 10
12.5  peek          = 1  3     0  7500 10   # 7.5 counts as 7
12.5  take COST 3   = 1  0     0 17500 10
12.5  take          = 0  0   501 17500 10   # at 13.000001: 6.99… and 3
19.5  peek          = 1  7     0 10500 10   # 0.5 counts as 0
20    peek          = 1  7     0 10000 10
20    take COST 8   = 0  7     1 10000 10
20    take COST 10  = 0  7  6667 10000 10   # 3 × (10 − e) / 10 < 1 when e > 6.66…
25    peek          = 1  9     0  5000 10
29    peek          = 1 10     0  1000 10
30    peek          = 1 10     0     0 10
"""

# The example: ten takes from 8.0 to 9.8 s, then one each 0.2 s from 10.0 s.
EXAMPLE = """
8.0   take  = 1 9   0 12000 10
8.2   take  = 1 8   0 11800 10
8.4   take  = 1 7   0 11600 10
8.6   take  = 1 6   0 11400 10
8.8   take  = 1 5   0 11200 10
9.0   take  = 1 4   0 11000 10
9.2   take  = 1 3   0 10800 10
9.4   take  = 1 2   0 10600 10
9.6   take  = 1 1   0 10400 10
9.8   take  = 1 0   0 10200 10
10.0  take  = 0 0   1 10000 10
10.2  take  = 1 0   0 19800 10
10.4  take  = 0 0 601 19600 10
10.6  take  = 0 0 401 19400 10
10.8  take  = 0 0 201 19200 10
11.0  take  = 0 0   1 19000 10
11.2  take  = 1 0   0 18800 10
11.4  take  = 0 0 601 18600 10
11.6  take  = 0 0 401 18400 10
11.8  take  = 0 0 201 18200 10
"""

FORCE = """
0   take COST 25 FORCE  = 1 0     0 20000 10
0   take                = 0 0 16001 20000 10   # 25 × (10 − e) / 10 < 10 when e > 6
10  take COST 0         = 0 0  5601 10000 10   # < 11 when e > 5.6
16  take                = 0 0     1  4000 10
16.001  take            = 1 0     0 13999 10
"""

ATMOST = """
0    take COST 7      = 1 3   0 20000 10
5    take ATMOST 10   = 3 0   0 15000 10
10   take ATMOST 10   = 0 0   1 10000 10
12   take ATMOST 10   = 2 0   0 18000 10
12   take ATMOST 10   = 0 0   1 18000 10
12   take ATMOST 0    = 0 0   0 18000 10
"""

# Small counts: one unit of the previous window counts only at its very end.
ONE = """
5         take  = 1 0    0 15000 1
5         take  = 0 0 5001 15000 1
10        take  = 0 0    1 10000 1
10.000001 take  = 1 0    0 20000 1
"""

ZERO = """
0  take           = 0 0 -1 0 0
0  take COST 0    = 0 0 -1 0 0
0  take ATMOST 5  = 0 0 -1 0 0
0  peek           = 0 0 -1 0 0
"""

TABLES = {
    "ten": ("SLIDINGWINDOW 10 10", TEN),
    "example": ("SLIDINGWINDOW 10 10", EXAMPLE),
    "force": ("SLIDINGWINDOW 10 10", FORCE),
    "atmost": ("SLIDINGWINDOW 10 10", ATMOST),
    "one": ("SLIDINGWINDOW 1 10", ONE),
    "zero": ("SLIDINGWINDOW 0 60", ZERO),
}


@pytest.mark.parametrize("name", TABLES)
def test_sliding_window(rl, clock, name):
    play(rl, clock, *TABLES[name])


def test_only_10_2_and_11_2_are_admitted(rl, clock):
    """The example once more, as the sentence that it is."""
    for tenth in range(80, 100, 2):
        clock.set(f"{tenth // 10}.{tenth % 10}")
        assert rl.take("k", "SLIDINGWINDOW 10 10").allowed == 1
    admitted = []
    for tenth in range(100, 120, 2):
        at = f"{tenth // 10}.{tenth % 10}"
        clock.set(at)
        if rl.take("k", "SLIDINGWINDOW 10 10").allowed:
            admitted.append(at)
    assert admitted == ["10.2", "11.2"]


def test_the_largest_sliding_window(rl, clock):
    """10^12 each millisecond: of a full window, a thousandth frees each microsecond of the next."""
    trillion = 10**12
    limit = f"SLIDINGWINDOW {trillion} 1ms"
    assert rl.take("k", limit, f"COST {trillion}") == (1, 0, 0, 2, trillion)
    clock.advance(ms=1)
    assert rl.take("k", limit) == (0, 0, 1, 1, trillion)
    clock.advance(us=1)
    assert rl.take("k", limit) == (1, 10**9 - 1, 0, 2, trillion)
