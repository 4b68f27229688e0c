"""FIXEDWINDOW: time and call → the five numbers, worked out by hand."""

import pytest

from harness import START_US, play

TEN = """
3       take                = 1  9     0  7000 10
3       take COST 9         = 1  0     0  7000 10
3       take                = 0  0  7000  7000 10
3       take COST 11        = 0  0    -1  7000 10
3.000999 take               = 0  0  7000  7000 10
3.001   take                = 0  0  6999  6999 10
9.999   take                = 0  0     1     1 10
9.9995  take                = 0  0     1     1 10   # half a millisecond to the turn
10      peek                = 1 10     0     0 10
10      take                = 1  9     0 10000 10
10      take COST 10        = 0  9 10000 10000 10
10      take COST 11        = 0  9    -1 10000 10
12.5    peek                = 1  9     0  7500 10
19.9    take COST 9         = 1  0     0   100 10
20      take COST 10        = 1  0     0 10000 10   # the edge that SLIDINGWINDOW smooths
35      peek                = 1 10     0     0 10
35      take ATMOST 4       = 4  6     0  5000 10
35      take ATMOST 40      = 6  0     0  5000 10
35      take ATMOST 40      = 0  0  5000  5000 10
35      take ATMOST 0       = 0  0     0  5000 10
"""

# What is forced counts in its window and ends with it.
FORCE = """
0   take COST 25 FORCE  = 1 0     0 10000 10
0   take                = 0 0 10000 10000 10
0   take COST 0         = 0 0 10000 10000 10
4   take FORCE          = 1 0     0  6000 10
10  take                = 1 9     0 10000 10
"""

MINUTES = """
59.9  take  = 1 4 0   100 5
60    take  = 1 4 0 60000 5
"""

# 1893456000 is 2 more than a multiple of 7: the window began 2 s before START.
SEVENS = """
0  take  = 1 4 0 5000 5
5  take  = 1 4 0 7000 5
"""

MILLISECONDS = """
0         take COST 5  = 1 0 0 1 5
0.000999  take         = 0 0 1 1 5
0.001     take COST 5  = 1 0 0 1 5
"""

ZERO = """
0  take           = 0 0 -1 0 0
0  take COST 0    = 0 0 -1 0 0
0  take ATMOST 5  = 0 0 -1 0 0
0  peek           = 0 0 -1 0 0
"""

TABLES = {
    "ten": ("FIXEDWINDOW 10 10", TEN),
    "force": ("FIXEDWINDOW 10 10", FORCE),
    "minutes": ("FIXEDWINDOW 5 60", MINUTES),
    "sevens": ("FIXEDWINDOW 5 7", SEVENS),
    "milliseconds": ("FIXEDWINDOW 5 1ms", MILLISECONDS),
    "zero": ("FIXEDWINDOW 0 60", ZERO),
}


@pytest.mark.parametrize("name", TABLES)
def test_fixed_window(rl, clock, name):
    play(rl, clock, *TABLES[name])


def test_windows_turn_with_the_epoch_whatever_the_first_take(rl, clock):
    """A day's window turns at midnight UTC, not a day after the first take."""
    clock.set(86_399)
    assert rl.take("k", "FIXEDWINDOW 3 1d COST 3") == (1, 0, 0, 1000, 3)
    clock.set(86_400)
    assert rl.take("k", "FIXEDWINDOW 3 1d COST 3") == (1, 0, 0, 86_400_000, 3)


def test_the_longest_window(rl, clock):
    """3650 days: the seventh since the epoch runs at START."""
    period_us = 3650 * 86_400 * 1_000_000
    left_ms = (period_us - START_US % period_us) // 1000
    trillion = 10**12
    limit = f"FIXEDWINDOW {trillion} 3650d"
    assert rl.take("k", limit, f"COST {trillion}") == (1, 0, 0, left_ms, trillion)
    assert rl.take("k", limit) == (0, 0, left_ms, left_ms, trillion)
    clock.advance(ms=left_ms)
    assert rl.take("k", limit) == (1, trillion - 1, 0, period_us // 1000, trillion)
