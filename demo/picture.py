"""The picture that a run leaves: what each limit admitted over time, as SVG."""

from html import escape
from pathlib import Path

from .limits import COUNT, PERIOD_S, Limit, per_column
from .traffic import LENGTH_S

COLUMN_S = 0.25
COLUMNS = int(LENGTH_S / COLUMN_S)
LEFT, WIDTH, ROW, PLOT, TOP = 150, 760, 84, 56, 60
RIGHT = 150
MOST = 7  # requests a column at the full height of a plot

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #333 }
.title { font-weight: 600; font-size: 15px }
.small { font-size: 11px; fill: #777 }
.name { font-weight: 600 }
.admitted { fill: #2e8b57 } .refused { fill: #e08a8a } .sent { fill: #8796a8 }
.turn { stroke: #ccd; stroke-dasharray: 2 3 } .axis { stroke: #999 }
"""


def x(at_s: float) -> float:
    return LEFT + WIDTH * at_s / LENGTH_S


def bars(kind: str, counts: list[int], base: float, under: list[int] | None = None) -> list[str]:
    """One bar a column, stacked on what is under it."""
    unit = PLOT / MOST
    result = []
    for column, count in enumerate(counts):
        if count:
            below = under[column] if under else 0
            top = base - unit * (below + count)
            result.append(
                f'<rect class="{kind}" x="{x(column * COLUMN_S):.1f}" y="{top:.1f}" '
                f'width="{WIDTH / COLUMNS - 1:.1f}" height="{unit * count:.1f}"/>'
            )
    return result


def row(base: float, name: str, notes: list[str], drawn: list[str]) -> list[str]:
    parts = [f'<line class="axis" x1="{LEFT}" y1="{base}" x2="{LEFT + WIDTH}" y2="{base}"/>']
    parts += drawn
    parts.append(f'<text class="name" x="{LEFT - 12}" y="{base - 4}" text-anchor="end">{name}</text>')
    for line, note in enumerate(notes):
        y = base - 18 * (len(notes) - line) + 14
        parts.append(f'<text x="{LEFT + WIDTH + 12}" y="{y}">{escape(note)}</text>')
    return parts


def draw(limits: list[Limit], offered_s: list[float]) -> str:
    height = TOP + ROW * (len(limits) + 1) + 34
    bottom = height - 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + RIGHT} {height}" '
        f'width="{LEFT + WIDTH + RIGHT}" height="{height}">',
        f"<style>{STYLE}</style>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text class="title" x="{LEFT}" y="26">The same requests against six limits of '
        f"{COUNT} per {PERIOD_S} seconds</text>",
        f'<text class="small" x="{LEFT}" y="44">green: passed, red: refused, each bar '
        f"{int(COLUMN_S * 1000)} ms; dotted: the turns of the windows</text>",
    ]
    for turn_s in range(0, int(LENGTH_S) + 1, PERIOD_S):
        parts.append(f'<line class="turn" x1="{x(turn_s)}" y1="{TOP}" x2="{x(turn_s)}" y2="{bottom}"/>')
        parts.append(
            f'<text class="small" x="{x(turn_s)}" y="{bottom + 18}" text-anchor="middle">{turn_s} s</text>'
        )
    sent = per_column(offered_s, COLUMNS, COLUMN_S)
    base = TOP + ROW - 14
    parts += row(base, "sent", [f"{len(offered_s)} requests"], bars("sent", sent, base))
    for limit in limits:
        base += ROW
        admitted = per_column(limit.admitted, COLUMNS, COLUMN_S)
        refused = per_column(limit.refused, COLUMNS, COLUMN_S)
        drawn = bars("admitted", admitted, base) + bars("refused", refused, base, admitted)
        notes = [
            f"{len(limit.admitted)} passed",
            f"{len(limit.refused)} refused",
            f"most in {PERIOD_S} s: {limit.most_in_a_period()}",
        ]
        parts += row(base, limit.name, notes, drawn)
    return "\n".join([*parts, "</svg>", ""])


def save(path: Path, limits: list[Limit], offered_s: list[float]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(draw(limits, offered_s))
