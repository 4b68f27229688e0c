"""The live picture on a terminal, and the plain one for a pipe."""

import shutil
import sys

from .limits import COUNT, PERIOD_S, Limit, per_column
from .traffic import LENGTH_S

HEIGHTS = " ▁▂▃▄▅▆▇█"
MOST_A_COLUMN = 12  # a full block
NAME_WIDTH = 14
NUMBERS_WIDTH = 22

GREEN, RED, DIM, BOLD, NORMAL = "\033[32m", "\033[31m", "\033[2m", "\033[1m", "\033[0m"


def blocks(counts: list[int]) -> str:
    return "".join(HEIGHTS[min(8, -(-count * 8 // MOST_A_COLUMN))] for count in counts)


class Screen:
    """Rows that are drawn over and over where they stand; drawn once, without colours, if plain."""

    def __init__(self, limits: list[Limit], offered_s: list[float], plain: bool):
        self.limits, self.offered_s, self.plain = limits, offered_s, plain
        width = shutil.get_terminal_size((80, 24)).columns
        self.columns = max(20, min(100, width - NAME_WIDTH - NUMBERS_WIDTH))
        self.drawn = 0

    def paint(self, colour: str, text: str) -> str:
        return text if self.plain else f"{colour}{text}{NORMAL}"

    def rows(self, now_s: float) -> list[str]:
        column_s = LENGTH_S / self.columns
        past = [at_s for at_s in self.offered_s if at_s <= now_s]
        rows = [
            f"{self.paint(BOLD, f'{COUNT} per {PERIOD_S} s'):<{NAME_WIDTH}}",
            f"{'sent':<{NAME_WIDTH}}{blocks(per_column(past, self.columns, column_s))}  {len(past):3}",
            "",
        ]
        for limit in self.limits:
            passed = [at_s for at_s in limit.admitted if at_s <= now_s]
            admitted = blocks(per_column(passed, self.columns, column_s))
            refused = blocks(per_column(limit.refused, self.columns, column_s))
            rows += [
                f"{limit.name:<{NAME_WIDTH}}{self.paint(GREEN, admitted)}"
                f"  {len(limit.admitted):3} admitted",
                f"{'':<{NAME_WIDTH}}{self.paint(RED, refused)}  {len(limit.refused):3} refused",
            ]
        seconds = "".join(f"{f'{s} s':<{self.columns // 5}}" for s in range(0, int(LENGTH_S), 5))
        return [*rows, f"{'':<{NAME_WIDTH}}{self.paint(DIM, seconds)}"]

    def draw(self, now_s: float) -> None:
        if self.plain:
            return
        back = f"\033[{self.drawn}A" if self.drawn else ""
        rows = self.rows(now_s)
        sys.stdout.write(back + "".join(f"\033[2K{row}\n" for row in rows))
        sys.stdout.flush()
        self.drawn = len(rows)

    def finish(self) -> None:
        """The last state, and what it comes to."""
        if self.plain:
            print("\n".join(row.rstrip() for row in self.rows(LENGTH_S + PERIOD_S)))
        else:
            self.draw(LENGTH_S + PERIOD_S)
        print(f"\nMost that passed in any {PERIOD_S} s:")
        for limit in self.limits:
            print(f"  {limit.name:<{NAME_WIDTH}}{limit.most_in_a_period():3}")
