"""Counts of a panel that is not kept give the answers of the panel itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from kit.hostile import drafts, drafts_and, sealed, sound
from kit.public_logs import TopicInMemory

from stream_dp.client import PublicLog
from stream_dp.errors import Inconsistent
from stream_dp.panel import Panel, PanelTally
from stream_dp.release.public_reader import keep_none


@given(
    arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 6)), elements=st.integers(0, 2))
)
def test_counts_are_those_of_the_panel(symbols):
    labels = [str(i) for i in range(symbols.shape[1])]
    tally = PanelTally(("a", "b", "c"), 2, (1, 2))
    for label, column in zip(labels, symbols.T, strict=True):
        tally.add(label, ("a", "b", "c"), column)
    at_once = Panel(symbols, tuple(labels), ("a", "b", "c"))
    for t, label in enumerate(labels, 1):
        panel, counts = at_once.until(label), tally.at[label]
        assert (counts.rows, counts.periods) == (panel.rows, panel.periods)
        for width in range(1, min(t, 2) + 1):
            mask = np.arange(3**width) % 4 < 2
            assert counts.matching(mask, width) == panel.matching(mask, width)
        for least in range(0, t + 2):
            assert counts.reaching((1, 2), least) == panel.reaching((1, 2), least)
        assert [counts.newest(code) for code in range(3)] == [panel.newest(c) for c in range(3)]


QUERIES = [
    ("pairs", "pattern full ?"),
    ("pairs", "pattern no"),
    ("both", "at-least 1 of last 2 full"),
    ("months", "total at-least 2"),
    ("both", "total at-least 4"),
]


@pytest.mark.parametrize("count", [True, False])
def test_estimates_without_panels_are_those_with_them(count):
    records = sealed(drafts(sound()))
    kept = PublicLog(TopicInMemory(records))
    counted = PublicLog(
        TopicInMemory(records), lambda _, __, table: table == "measurements", count_panels=True
    )
    assert not any(
        name.startswith("panel") for r in counted.releases for name, _ in r.message.parts
    )
    for name, query in QUERIES:
        for period in kept.study.periods.labels[1:]:
            expected = kept.answer(name, query, period, count=count)
            assert counted.answer(name, query, period, count=count) == expected


def test_a_panel_that_does_not_continue_is_refused_when_it_is_counted():
    chain, one = drafts_and(sound(), "pairs")
    place = next(i for i, d in enumerate(chain) if d is one)
    chain.insert(place + 1, one)
    with pytest.raises(Inconsistent, match="not a next column of the panel before it"):
        PublicLog(TopicInMemory(sealed(chain)), keep_none, count_panels=True)
