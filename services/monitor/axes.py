"""Axes of charts: round ticks of numbers, and labels of periods."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH_STEPS = (1, 2, 3, 6, 12, 24, 60, 120)
_LETTER = 6.4  # pixels of a letter, on average


@dataclass(frozen=True)
class NumberAxis:
    """The vertical axis from `low` to `high`, with ticks at round numbers."""

    low: float
    high: float
    ticks: tuple[float, ...]


def number_axis(low: float, high: float) -> NumberAxis:
    """The axis over all numbers from `low` to `high`, with about five ticks.

    >>> number_axis(0.0, 10.0).ticks
    (0.0, 2.0, 4.0, 6.0, 8.0, 10.0)
    >>> number_axis(9.2, 13.9).ticks
    (9.0, 10.0, 11.0, 12.0, 13.0, 14.0)
    """
    if not high - low > 1e-9 * max(abs(low), abs(high), 1.0):
        room = max(abs(low) / 2, 1.0)
        low, high = low - room, high + room
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * min((1, 2, 5, 10), key=lambda s: abs(math.log(s * power / rough)))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(round(i * step, 12) + 0.0 for i in range(first, last + 1))
    return NumberAxis(ticks[0], ticks[-1], ticks)


def number_text(value: float, ticks: Sequence[float] = ()) -> str:
    """The text of a number on an axis: with the decimals of the ticks and a true minus sign.

    >>> number_text(1500.0), number_text(-0.5, (-0.5, 0.0, 0.5))
    ('1,500', '−0.5')
    """
    step = min((b - a for a, b in pairwise(ticks)), default=1.0)
    decimals = min(9, max(0, -math.floor(math.log10(step) + 1e-9))) if step > 0 else 0
    if max(map(abs, ticks), default=abs(value)) >= 1e9:
        return f"{value:.3g}".replace("-", "−")
    return f"{value:,.{decimals}f}".replace("-", "−")


def period_ticks(labels: Sequence[str], width: float) -> list[tuple[int, str]]:
    """The labelled periods of an axis of `width` pixels: indices and labels.

    Months have names, with the year at the first month of a year.

    >>> period_ticks([f"2021-{m:02}" for m in range(1, 13)], 300)
    [(2, 'Mar 2021'), (5, 'Jun'), (8, 'Sep'), (11, 'Dec')]
    >>> period_ticks(["1", "2", "3"], 300)
    [(0, '1'), (1, '2'), (2, '3')]
    """
    count = max(1, len(labels))
    period_width = width / count
    if all(re.fullmatch(r"\d+-\d\d", label) for label in labels):
        label_width = 54.0  # a month with its year, now and then
        step = next((s for s in _MONTH_STEPS if s * period_width >= label_width), 240)
        return _months(labels, step)
    label_width = _LETTER * max(map(len, labels), default=1) + 12
    step = math.ceil(label_width / period_width)
    return [(i, labels[i]) for i in range(step - 1 if step <= count else 0, count, step)]


def period_words(label: str) -> str:
    """A period's label for a sentence: a month has its name.

    >>> period_words("2021-06"), period_words("2021-W05")
    ('Jun 2021', '2021-W05')
    """
    if re.fullmatch(r"\d+-\d\d", label):
        return f"{_MONTHS[(int(label[-2:]) - 1) % 12]} {label[:-3]}"
    return label


def _months(labels: Sequence[str], step: int) -> list[tuple[int, str]]:
    names, year = [], ""
    for i in range(min(step, len(labels)) - 1, len(labels), step):
        label = labels[i]
        month = _MONTHS[(int(label[-2:]) - 1) % 12]
        names.append((i, month if label[:-3] == year else f"{month} {label[:-3]}"))
        year = label[:-3]
    return names
