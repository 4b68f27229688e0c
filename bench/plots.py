"""The pictures of docs/bench, one a part, drawn from the raw numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from bench import cpu, latency, throughput
from bench.instructions import ALONE, AOF

OURS, SERVERS_OWN, SCRIPT, OTHERS = "#2563a8", "#8a939e", "#d9822b", "#3f9b6c"
DARKER = {OURS: "#163f6e", OTHERS: "#25694a"}
LIGHTER = {OURS: "#9dbfe3", SERVERS_OWN: "#cdd2d8", SCRIPT: "#f2cfa5", OTHERS: "#b3dbc6"}
PLAIN = ("GET", "INCR", "SET PX")

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "grid.color": "#e3e6ea",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "figure.facecolor": "white",
    # Text as outlines, so that it looks the same everywhere.
    "svg.fonttype": "path",
    # The same file from the same numbers.
    "svg.hashsalt": "bench",
}


def colour(name: str) -> str:
    """By whose the command is."""
    if name.startswith(PLAIN):
        return SERVERS_OWN
    if name.startswith("Lua"):
        return SCRIPT
    limits = ("RL.", "GCRA", "LEAKY", "FIXED", "SLIDING", "two limits")
    return OURS if name.startswith(limits) else OTHERS


def draw(part: str, data: dict[str, Any], directory: Path) -> None:
    """Writes PART.svg."""
    with matplotlib.rc_context(STYLE):
        FIGURES[part](data).savefig(
            directory / f"{part}.svg",
            bbox_inches="tight",
            metadata={"Date": None, "Creator": None},
        )


def instructions(data: dict[str, Any]) -> Figure:
    alone, aof = data["instructions"][ALONE], data["instructions"][AOF]
    own = data["of them in modules"][ALONE]
    figure, axes = _figure(8.2, 0.32 * len(alone) + 1.2)
    names = list(alone)
    for place, name in enumerate(names):
        shade = colour(name)
        # Three bars, each over a part of the one before.
        axes.barh(place, aof[name], 0.78, color=LIGHTER[shade])
        axes.barh(place, alone[name], 0.78, color=shade)
        if own[name]:
            axes.barh(place, own[name], 0.78, color=DARKER[shade])
        ratio = alone[name] / alone["SET PX"]
        end = max(alone[name], aof[name])
        _note(axes, end, place, f"{alone[name]:,.0f}  ({ratio:.2f} x SET PX)")
    _line_at(axes, alone["SET PX"])
    _names_down_the_side(axes, names)
    axes.set_xlim(0, max(*alone.values(), *aof.values()) * 1.28)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_title("Instructions per command (dark: the module's own; light: what the AOF adds)")
    return figure


def bars(title: str, values: dict[str, float], note: Callable[[str], str]) -> Figure:
    """A bar for each command, with a note at its end."""
    figure, axes = _figure(8.2, 0.34 * len(values) + 1.0)
    names = list(values)
    for place, name in enumerate(names):
        axes.barh(place, values[name], 0.74, color=colour(name))
        _note(axes, values[name], place, note(name))
    _line_at(axes, values["SET PX"])
    _names_down_the_side(axes, names)
    axes.set_xlim(0, max(values.values()) * 1.25)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value > 9 else f"{value:g}")
    axes.set_title(title)
    return figure


def cpu_time(data: dict[str, Any]) -> Figure:
    medians = cpu.medians(data["nanoseconds"]["pipelined"])
    ratios = {name: ratio for name, (_, ratio) in medians.items()}
    return bars(
        "CPU time per command, pipelined, as a multiple of SET PX",
        ratios,
        lambda name: f"{ratios[name]:.2f}  ({medians[name][0]:,.0f} ns)",
    )


def pipelined(data: dict[str, Any]) -> Figure:
    rates = throughput.medians(data)
    return bars(
        "Commands a second, pipelined", rates, lambda name: f"{rates[name] / 1000:,.0f} thousand"
    )


def latencies(data: dict[str, Any]) -> Figure:
    figure, axes = _figure(8.2, 4.2)
    for name, measured in latency.medians(data).items():
        points = [(float(percent), us) for percent, us in measured.items()]
        # One in so many requests waits longer than this.
        points = [(percent, us) for percent, us in points if percent < 99.995]
        across = [1 / (1 - percent / 100) for percent, _ in points]
        shade = colour(name)
        axes.plot(
            across,
            [us for _, us in points],
            marker="o",
            markersize=3.5,
            color=LIGHTER[shade] if name.endswith("refused") else shade,
            label=name,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = {2: "50 %", 10: "90 %", 100: "99 %", 1000: "99.9 %", 10_000: "99.99 %"}
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.set_xticks([], minor=True)
    axes.set_xlabel("share of requests")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.legend(frameon=False)
    axes.set_ylabel("answered within, microseconds")
    axes.grid(True)
    axes.margins(x=0.02)
    axes.set_title(f"Latency at {data['rate']:,} requests a second")
    return figure


def memory_per_key(data: dict[str, Any]) -> Figure:
    per_key = data["bytes per key"]
    contents = list(next(iter(per_key.values())))
    figure, axes = _figure(8.2, 3.8)
    width = 0.8 / len(contents)
    shades = _shades(contents)
    for index, content in enumerate(contents):
        places = [
            number + (index - (len(contents) - 1) / 2) * width for number in range(len(per_key))
        ]
        values = [of[content] for of in per_key.values()]
        drawn = axes.bar(places, values, width * 0.92, color=shades[index], label=content)
        axes.bar_label(drawn, fmt="%.0f", fontsize=7.5, padding=1)
    axes.set_xticks(range(len(per_key)), list(per_key))
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel("bytes")
    axes.grid(True, axis="y")
    axes.legend(frameon=False, fontsize=8.5, loc="upper left", bbox_to_anchor=(1, 1))
    axes.set_title("Bytes per key of 17 bytes, with its TTL")
    return figure


def growth(data: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(11.5, 3.6))
    limits, entries, keys = figure.subplots(1, 3)

    by_limits = data["instructions by limits"]
    limits.plot([int(n) for n in by_limits], list(by_limits.values()), marker="o", color=OURS)
    limits.set_xlabel("limits on the key")
    limits.set_title("Instructions by limits")

    by_entries = data["instructions by log entries"]
    entries.plot([int(n) for n in by_entries], list(by_entries.values()), marker="o", color=OURS)
    _sizes_across(entries, [int(n) for n in by_entries])
    entries.set_xlabel("entries in the log")
    entries.set_title("Instructions by log entries")

    by_keys = data["nanoseconds by keys"]
    for name, times in by_keys.items():
        keys.plot(
            [int(n) for n in times],
            list(times.values()),
            marker="o",
            color=colour(name),
            label=name,
        )
    _sizes_across(keys, [int(n) for n in next(iter(by_keys.values()))])
    keys.set_xlabel("keys in the server")
    keys.set_title("CPU time by keys, ns")
    keys.legend(frameon=False, fontsize=8.5)

    for axes in (limits, entries, keys):
        axes.set_ylim(0, axes.get_ylim()[1] * 1.08)
        axes.grid(True)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    figure.tight_layout(w_pad=2)
    return figure


FIGURES: dict[str, Callable[[dict[str, Any]], Figure]] = {
    "instructions": instructions,
    "cpu": cpu_time,
    "latency": latencies,
    "throughput": pipelined,
    "memory": memory_per_key,
    "growth": growth,
}


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height))
    return figure, figure.subplots()


def _names_down_the_side(axes: Axes, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(True, axis="x")


def _note(axes: Axes, end: float, place: int, text: str) -> None:
    """At the end of a bar, over whatever line is there."""
    axes.annotate(
        text,
        (end, place),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
    )


def _line_at(axes: Axes, value: float) -> None:
    """Where SET PX ends, down through all bars."""
    axes.axvline(value, color="#444", linewidth=0.9, linestyle=":")


def _sizes_across(axes: Axes, sizes: list[int]) -> None:
    """A logarithmic axis that names the sizes measured."""
    axes.set_xscale("log")
    axes.set_xticks(sizes, [_short(size) for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())


def _short(size: int) -> str:
    if size >= 1_000_000:
        return f"{size / 1_000_000:g}M"
    return f"{size / 1000:g}k" if size >= 1000 else str(size)


def _shades(contents: list[str]) -> list[str]:
    """Grey for the plain key, orange for the script's, blues for ours."""
    blues = iter(["#1d4f87", "#2f74bd", "#5b98d6", "#9dbfe3"])
    greens = iter(["#3f9b6c", "#7cc09d", "#b3dbc6"])
    shades = []
    for content in contents:
        whose = colour(content)
        if whose == OURS:
            shades.append(next(blues, "#c8dcf1"))
        else:
            shades.append(next(greens, "#d6ebdf") if whose == OTHERS else whose)
    return shades
