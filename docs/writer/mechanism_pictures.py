"""A picture for each mechanism, drawn from small examples."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from drawings import COLOURS, TEXT, Drawing, drawn, settings
from matplotlib import patches, pyplot

from stream_dp.continual.cumulative.coupled_strategy import coupled_strategy


@cache
def drawing(name: str) -> Drawing:
    """The picture of a mechanism. Raises KeyError for a name without a picture."""
    draw, caption = PICTURES[name]
    with settings():
        figure, axes = pyplot.subplots(figsize=(6.4, 2.6))
        axes.set_axis_off()
        axes.set_xlim(0, 12)
        axes.set_ylim(0, 5)
        draw(axes)
        return drawn(figure, caption)


def _box(axes: Any, x: float, y: float, text: str, width: float = 2.0, colour: int = 0) -> None:
    box = patches.FancyBboxPatch(
        (x, y), width, 0.8, boxstyle="round,pad=0.06", fill=False, edgecolor=COLOURS[colour]
    )
    axes.add_patch(box)
    axes.text(x + width / 2, y + 0.4, text, ha="center", va="center", fontsize=9)


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": TEXT, "lw": 1})


def _windows(axes: Any) -> None:
    for row, (t, new) in enumerate(
        ((3, "all 7 numbers"), (4, "4 new numbers"), (5, "4 new numbers"))
    ):
        y = 3.7 - 1.3 * row
        for period in range(1, 6):
            inside = t - 2 <= period <= t
            square = patches.Rectangle(
                (period, y),
                0.9,
                0.9,
                facecolor=COLOURS[1 if period == t else 0] if inside else "none",
                alpha=0.75 if inside else 1,
                edgecolor=TEXT,
                linewidth=0.7,
            )
            axes.add_patch(square)
        axes.text(0.8, y + 0.45, f"t = {t}", ha="right", va="center")
        axes.text(6.4, y + 0.45, f"measures {new}", va="center")
    for period in range(1, 6):
        axes.text(period + 0.45, 0.4, str(period), ha="center", fontsize=8)


def _totals(axes: Any) -> None:
    periods = 6
    strategy = coupled_strategy(public_size=False, periods=periods)
    matrix, first = np.zeros((21, 21)), {1: 0}
    for b in range(1, periods + 1):
        count, start = periods - b + 1, first[b]
        rows, before = strategy.block(b, count)
        matrix[start : start + count, start : start + count] = rows
        if b > 1:
            matrix[start : start + count, first[b - 1] : first[b - 1] + count] = before
        first[b + 1] = start + count
    axes.set_xlim(0, 21)
    axes.set_ylim(24, -1)
    axes.pcolormesh(np.sqrt(np.abs(matrix)), cmap="Greens", edgecolors="none")
    for b in range(1, periods + 1):
        middle = first[b] + (periods - b + 1) / 2
        axes.text(middle, 22.6, f"b = {b}" if b < 5 else f"{b}", ha="center", fontsize=8)
    axes.text(-0.4, 10, "rows measured", rotation=90, ha="right", va="center", fontsize=9)


def _joint(axes: Any) -> None:
    for row, overlap in enumerate(("00", "01", "10", "11")):
        axes.text(3.2, 3.55 - 0.8 * row, overlap, ha="right", va="center")
        for total in range(6):
            held = total >= overlap.count("1")
            axes.add_patch(
                patches.Rectangle(
                    (3.5 + 0.9 * total, 3.2 - 0.8 * row),
                    0.85,
                    0.72,
                    facecolor=COLOURS[0] if held else "none",
                    alpha=0.15 + 0.1 * (5 - total) if held else 0.3,
                    edgecolor=TEXT,
                    linewidth=0.5,
                )
            )
    for total in range(6):
        axes.text(3.92 + 0.9 * total, 0.45, str(total), ha="center", fontsize=9)
    axes.text(6.2, -0.15, "events so far: columns sum to totals", ha="center", fontsize=9)
    axes.text(0, 4.35, "last symbols: rows sum to patterns", fontsize=9)


def _presence(axes: Any) -> None:
    kinds = (
        ("come and go", "..xxx.xx..xx"),
        ("enter late", "...xxxxxxxxx"),
        ("closed cohort", "xxxxxxxxxxxx"),
    )
    for row, (label, presence) in enumerate(kinds):
        axes.text(2.6, 3.9 - 1.3 * row, label, ha="right", va="center")
        for period, mark in enumerate(presence):
            axes.add_patch(
                patches.Rectangle(
                    (3 + 0.7 * period, 3.6 - 1.3 * row),
                    0.62,
                    0.6,
                    facecolor=COLOURS[0] if mark == "x" else "none",
                    alpha=0.75 if mark == "x" else 1,
                    edgecolor=TEXT,
                    linewidth=0.7,
                )
            )


def _tables(axes: Any) -> None:
    for index, text in enumerate(("compress", "measure", "select", "model", "sample")):
        _box(axes, 0.1 + 2.4 * index, 3, text, 1.9)
        if index:
            _arrow(axes, (2.4 * index - 0.3, 3.4), (0.05 + 2.4 * index, 3.4))
    points = {"age": (2, 1.2), "work": (4.5, 1.9), "income": (7, 1.2), "sex": (4.5, 0.3)}
    for a, b in (("age", "work"), ("work", "income"), ("work", "sex")):
        axes.plot(*zip(points[a], points[b], strict=True), color=COLOURS[1], lw=1.5, zorder=1)
    for name, (x, y) in points.items():
        axes.text(
            x, y, name, ha="center", va="center", bbox={"facecolor": COLOURS[0], "alpha": 0.35}
        )
    axes.text(8.2, 1.2, "measured pairs are\nedges of the model", va="center", fontsize=9)


def _months(axes: Any) -> None:
    generator = np.random.default_rng(4)
    months = np.arange(1, 12)
    truth = 2 + 0.8 * np.sin(months / 4)
    noisy = truth + generator.normal(0, 0.55, months.size)
    level, variance, fused = noisy[0], 0.3, [noisy[0]]
    for value in noisy[1:]:
        variance += 0.03
        gain = variance / (variance + 0.3)
        level, variance = level + gain * (value - level), (1 - gain) * variance
        fused.append(level)
    axes.plot(months, truth, color=TEXT, lw=1, ls="--", label="truth")
    axes.plot(months, noisy, "s", color=COLOURS[1], label="measured")
    axes.plot(months, fused, "o-", color=COLOURS[0], label="combined")
    axes.legend(frameon=False, loc="upper right", ncols=3)


def _groups(axes: Any) -> None:
    _box(axes, 0.2, 2.1, "row k of the\nmixture", 2.2)
    for index, text in enumerate(("group's\nattributes", "size", "member 1", "member 2")):
        _box(axes, 4.0 + 2.0 * index, 3.4, text, 1.7, colour=1)
        _arrow(axes, (2.5, 2.6), (4.0 + 2.0 * index + 0.4, 3.3))
    _box(axes, 5.0, 0.6, "a household with its members", 5.0)
    for index in range(4):
        _arrow(axes, (4.8 + 2.0 * index, 3.3), (6.2 + 0.9 * index, 1.55))


def _sizes(axes: Any) -> None:
    sizes = np.arange(0, 11)
    noisy = np.array([0.2, 1.5, 1.2, 2.4, 3.1, 2.9, 3.6, 4.1, 3.9, 4.4, 4.5])
    rising = np.array([0.2, 1.35, 1.35, 2.4, 3.0, 3.0, 3.6, 4.0, 4.0, 4.4, 4.5])
    axes.step(sizes + 0.5, noisy, where="mid", color=COLOURS[1], label="noisy")
    axes.step(sizes + 0.5, rising, where="mid", color=COLOURS[0], lw=2, label="consistent")
    axes.text(5.5, -0.35, "size s", ha="center", fontsize=9)
    axes.text(0, 4.7, "groups of at most s members", fontsize=9)
    axes.legend(frameon=False, loc="lower right")


PICTURES: dict[str, tuple[Callable[[Any], None], str]] = {
    "windows": (_windows, "Windows of three periods. Every window has its newest period measured."),
    "totals": (_totals, "The coupled matrix of six periods: rows against events of a person."),
    "joint": (_joint, "Rows of a joint panel by their last two symbols and their total."),
    "presence": (_presence, "Twelve periods of one person under three declarations."),
    "tables": (_tables, "The four steps of a table, and a model of three measured pairs."),
    "months": (_months, "A share that drifts, its monthly measurements and their fusion."),
    "groups": (_groups, "A component of the mixture makes a group, its size and its members."),
    "sizes": (_sizes, "Noisy cumulative counts of groups, and the counts made consistent."),
}
