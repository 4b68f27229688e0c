"""The traffic: when requests are sent, in seconds after a turn of the windows.

It has what tells the limits apart: a burst across the turn of a window, a long overload, and
quiet in between.
"""

LENGTH_S = 25.0


def evenly(start_s: float, end_s: float, per_second: float) -> list[float]:
    count = round((end_s - start_s) * per_second)
    return [start_s + (end_s - start_s) * n / count for n in range(count)]


def schedule() -> list[float]:
    trickle = evenly(0.5, 3.5, 1)
    across_the_turn = evenly(4.5, 5.5, 24)
    overload = evenly(12.1, 20.1, 4)
    return sorted(trickle + across_the_turn + overload + evenly(22.6, 24.6, 1))
