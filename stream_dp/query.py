"""Queries in words, and what they mean: the one parser.

pattern 1 ? 1                        the last periods, oldest first; ? is any value, 0|1 either
at-least 2 of last 3 poverty=1       in how many of the last periods
consecutive 2 of last 3 poverty=1    a run of at least that length among them
total at-least 3                     of all periods so far (cumulative releases)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .errors import UserError

_MOST_MASK = 1 << 20


@dataclass(frozen=True, eq=False)
class WindowQuery:
    """A predicate on the last `width` periods. mask: (q^width,) bool, by code in base q."""

    text: str
    width: int
    mask: NDArray[np.bool_]

    def over(self, bins: int) -> NDArray[np.bool_]:
        """The mask over wider windows of `bins` patterns: older periods are free."""
        return np.tile(self.mask, bins // self.mask.shape[0])


@dataclass(frozen=True)
class TotalQuery:
    """The event in at least `least` periods so far."""

    text: str
    least: int


Query = WindowQuery | TotalQuery


def parse(text: str, attribute: str, values: tuple[int | str, ...]) -> Query:
    """The query that the words mean for an attribute with these values. Raises UserError."""
    words = text.split()
    if words and words[0] == "pattern" and len(words) > 1:
        return _pattern(text, words[1:], values)
    total = re.fullmatch(r"total at-least (\d{1,6})", " ".join(words))
    if total:
        return TotalQuery(" ".join(words), int(total[1]))
    form = r"(at-least|consecutive) (\d{1,6}) of last (\d{1,6}) (?:([^\s=]+)=)?(\S+)"
    match = re.fullmatch(form, " ".join(words))
    if match is None:
        raise UserError(
            f"query '{text}': not understood; write 'pattern 1 ? 1', 'at-least 2 of last 3 A=1', "
            "'consecutive 2 of last 3 A=1' or 'total at-least 3'"
        )
    if match[4] is not None and match[4] != attribute:
        raise UserError(f"query '{text}': the release is of '{attribute}', not '{match[4]}'")
    need, width, wanted = int(match[2]), int(match[3]), _codes(text, match[5], values)
    if not 1 <= need <= width:
        raise UserError(f"query '{text}': cannot ask for {need} of {width} periods")
    counted = _run if match[1] == "consecutive" else _times
    return WindowQuery(" ".join(words), width, _mask(text, width, values, wanted, need, counted))


def _pattern(text: str, words: list[str], values: tuple[int | str, ...]) -> WindowQuery:
    q, width = len(values), len(words)
    symbols = _all(text, q, width)
    mask = np.ones(q**width, bool)
    for column, word in zip(symbols.T, words, strict=True):
        if word != "?":
            mask &= np.isin(column, _codes(text, word, values))
    return WindowQuery("pattern " + " ".join(words), width, mask)


def _codes(text: str, word: str, values: tuple[int | str, ...]) -> list[int]:
    known = {str(value): code for code, value in enumerate(values)}
    unknown = [w for w in word.split("|") if w not in known]
    if unknown:
        raise UserError(
            f"query '{text}': '{unknown[0]}' is no value; the values are {', '.join(known)}"
        )
    return [known[w] for w in word.split("|")]


def _all(text: str, q: int, width: int) -> NDArray[np.uint8]:
    """Every window of that width, (q^width, width), in the order of its code."""
    if q**width > _MOST_MASK:
        raise UserError(f"query '{text}': {width} periods are too many to ask about")
    codes = np.arange(q**width)
    digits = [codes // q**i % q for i in reversed(range(width))]
    return np.stack(digits, axis=1).astype(np.uint8)


def _mask(
    text: str,
    width: int,
    values: tuple[int | str, ...],
    wanted: list[int],
    need: int,
    counted: Callable[[NDArray[np.bool_]], NDArray[np.int64]],
) -> NDArray[np.bool_]:
    hits = np.isin(_all(text, len(values), width), wanted)
    return np.asarray(counted(hits) >= need)


def _times(hits: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.asarray(hits.sum(axis=1), np.int64)


def _run(hits: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Longest run in each row."""
    longest = run = np.zeros(hits.shape[0], np.int64)
    for column in hits.T:
        run = (run + 1) * column
        longest = np.maximum(longest, run)
    return longest
