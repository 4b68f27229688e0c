"""The limits that are shown, and what happened to each request."""

from collections import deque
from dataclasses import dataclass, field

COUNT = 10
PERIOD_S = 5

NAMES = ["TOKENBUCKET", "GCRA", "LEAKYBUCKET", "FIXEDWINDOW", "SLIDINGWINDOW", "SLIDINGLOG"]


@dataclass
class Limit:
    """One limit, and the times at which it let requests through or refused them, in seconds."""

    name: str
    admitted: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)

    def command(self) -> list[str]:
        return ["RL.TAKE", f"demo:{self.name.lower()}", self.name, str(COUNT), str(PERIOD_S)]

    def record(self, at_s: float, reply: list[int]) -> None:
        allowed, _, wait_ms, _, _ = reply
        if allowed:
            # A leaky bucket says how long to hold the request back: it passes then.
            self.admitted.append(at_s + wait_ms / 1000)
        else:
            self.refused.append(at_s)

    def most_in_a_period(self) -> int:
        """The most requests that passed within any one period."""
        most, recent = 0, deque()
        for at_s in sorted(self.admitted):
            recent.append(at_s)
            while recent[0] <= at_s - PERIOD_S:
                recent.popleft()
            most = max(most, len(recent))
        return most


def per_column(times_s: list[float], columns: int, column_s: float) -> list[int]:
    """How many of the times fall into each column."""
    counts = [0] * columns
    for at_s in times_s:
        column = int(at_s / column_s)
        if column < columns:
            counts[column] += 1
    return counts
