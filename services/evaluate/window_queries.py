"""The queries for judging a window release, and the histograms for answering them.

Queries are written in the syntax of `stream_dp.answers.query` and parsed there. A query of width w
is a mask over the q^w patterns of the last w periods, the newest symbol the lowest digit, as in
`stream_dp.panel.window_codes`.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stream_dp.answers.query import WindowQuery, parse_query
from stream_dp.continual.window.window import FixedWindow
from stream_dp.panel import Symbols

Kind = Literal["bin", "named", "narrower", "wider"]

# Up to this number bins are reported singly; "every pattern" always counts all of them.
MOST_LINES = 4096
# Wider queries need a histogram of q^w patterns of the panel at every period: stop here.
MOST_CODES = 1 << 16


@dataclass(frozen=True, eq=False)
class JudgedQuery(WindowQuery):
    """A query to a window release; `kind` is its relation to the release's width k."""

    kind: Kind

    @property
    def patterns(self) -> int:
        """The number of patterns that the query counts."""
        return int(self.mask.sum())


def judged_queries(
    mechanism: FixedWindow, attribute: str, code: int, *, bins: NDArray[np.int64], longest: int
) -> tuple[JudgedQuery, ...]:
    """Makes every bin, the named queries of width k, narrower and wider queries.

    The named queries are those of Bun et al. 2024, Section 5: at least 1, at least 2, 2 consecutive
    and all of the last k. Narrower queries ask for all of the last w. Wider queries, which only the
    panel answers, ask for at least 1 and for all of the last w, w up to `longest`.

    attribute: the name of the release's attribute, or of several joined by &.
    code: the symbol of the named queries.
    bins: the codes of the patterns to ask for.
    """
    k = mechanism.width
    value = str(mechanism.values[code])  # a product's value names its attributes by itself
    condition = shlex.quote(value if "=" in value else f"{attribute}={value}")

    def ask(form: str, need: int, width: int, kind: Kind) -> JudgedQuery:
        text = f"{form} {need} of last {width} {condition}"
        query = parse_query(text, attribute, mechanism.values)
        assert isinstance(query, WindowQuery)
        return JudgedQuery(text, width, query.mask, kind)

    queries: list[JudgedQuery] = []
    if bins.size <= MOST_LINES:
        codes = np.arange(mechanism.bins)
        queries += [JudgedQuery(mechanism.query(c), k, codes == c, "bin") for c in bins.tolist()]
    forms = [("at-least", 1), ("at-least", 2), ("consecutive", 2), ("at-least", k)]
    queries += _distinct([ask(form, need, k, "named") for form, need in forms if need <= k])
    queries += [ask("at-least", w, w, "narrower") for w in range(1, k)]
    for w in range(k + 1, longest + 1):
        queries += [ask("at-least", need, w, "wider") for need in (1, w)]
    return tuple(queries)


def widest(mechanism: FixedWindow) -> int:
    """Returns the width of the widest query: min(T, 2 k), or less if patterns are many."""
    width = mechanism.width
    while width < min(mechanism.horizon, 2 * mechanism.width):
        if mechanism.q ** (width + 1) > MOST_CODES:
            break
        width += 1
    return width


def narrowed(histogram: NDArray[np.int64], q: int, width: int) -> NDArray[np.int64]:
    """Sums a histogram of patterns to the histogram of their last `width` symbols."""
    summed: NDArray[np.int64] = histogram.reshape(-1, q**width).sum(axis=0)
    return summed


def pattern_histograms(
    symbols: Symbols, q: int, first: int, widest: int
) -> list[NDArray[np.int64]]:
    """Counts, at each period t >= `first`, the patterns of the last min(t, widest) symbols."""
    codes = np.zeros(symbols.shape[0], np.int64)
    histograms = []
    for t in range(1, symbols.shape[1] + 1):
        codes = (codes * q + symbols[:, t - 1]) % q ** min(t, widest)
        if t >= first:
            histograms.append(np.bincount(codes, minlength=q ** min(t, widest)))
    return histograms


def _distinct(queries: list[JudgedQuery]) -> list[JudgedQuery]:
    """Drops queries with the mask of an earlier query."""
    return list({query.mask.tobytes(): query for query in reversed(queries)}.values())[::-1]
