"""The forms that a release could have at its rho and relation, beside the paper's.

The paper's form (Bun, Gaboardi, Neunhoeffer, Zhang 2024) always has noise that is honest for the
declared relation: for windows padded histograms of equal noise; for totals binary trees with a
split of rho that starves no counter; for both classes two panels of their own.

Where people come and go, the paper's window has no name for it: 'absent' is a symbol like the
others, everybody under the declared bound is counted, those absent throughout as well, and a
person's coming changes two patterns each time (squared sensitivity 2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from ..continual import FixedWindow, mechanism
from ..panel import Symbols
from ..study import CounterName, Cumulative, Release, Study, Window
from .plans import Truth, is_open, plan, seen
from .trial import Plan


@dataclass(frozen=True)
class Variant:
    """One form of a release: label; paper: whether it is the paper's; chosen: whether it is what
    the study's plan makes of the release; title: the mechanism's own name."""

    release: Release
    label: str
    paper: bool
    chosen: bool
    title: str
    plan: Plan


def variants(study: Study, release: Release, truth: Truth) -> list[Variant]:
    """The paper's form first."""
    symbols = seen(study, release, truth)
    if isinstance(release, Window):
        return list(_windows(study, release, symbols))
    if isinstance(release, Cumulative):
        return list(_counters(study, release, symbols))
    return []


def _windows(study: Study, release: Window, symbols: Symbols) -> Iterator[Variant]:
    alphabet = study.alphabet(release)
    open_ = is_open(release, alphabet.absent)
    chosen = mechanism(study, release)
    assert isinstance(chosen, FixedWindow)
    found = [("histogram", True)] if not open_ else []
    found += [("histogram", False)] if chosen.rows is not None else []
    found += [("contrasts", True)] if not open_ else []
    found += [("contrasts", False)]
    if open_:
        assert release.rows is not None
        assert alphabet.absent is not None
        missing = max(release.rows - symbols.shape[0], 0)
        gone = np.full((missing, symbols.shape[1]), alphabet.absent, np.uint8)
        everybody = np.concatenate([symbols, gone])
        closed = _copied(release, strategy="histogram", padded=True, rows=None)
        declared = _closed(study, everybody.shape[0])
        label = "paper: histogram, padded, absence counted"
        yield _variant(declared, closed, everybody, label, paper=True, open_=True)
    own = (chosen.strategy, chosen.padded)
    for form in found if own in found else [*found, own]:
        strategy, padded = form
        paper = form == ("histogram", True)
        label = f"{'paper: ' if paper else ''}{strategy}, {'padded' if padded else 'projected'}"
        made = _copied(release, strategy=strategy, padded=padded)
        yield _variant(study, made, symbols, label, paper=paper, chosen=form == own)


def _counters(study: Study, release: Cumulative, symbols: Symbols) -> Iterator[Variant]:
    chosen = mechanism(study, release)
    for name in get_args(CounterName):
        made = _copied(release, counter=name)
        label, own = f"{'paper: ' if name == 'tree' else ''}{name}", mechanism(study, made)
        yield _variant(study, made, symbols, label, paper=name == "tree", chosen=own == chosen)


def _variant(
    study: Study,
    release: Release,
    symbols: Symbols,
    label: str,
    *,
    paper: bool = False,
    chosen: bool = False,
    open_: bool | None = None,
) -> Variant:
    made = plan(study, release, symbols, wide=False, open_=open_)
    return Variant(release, label, paper, chosen, made.mechanism.title, made)


def _copied(release: Any, **fields: Any) -> Any:
    return release.model_copy(update=fields)


def _closed(study: Study, size: int) -> Study:
    """The study with everybody there from the start, so many, under replacement."""
    fields = {name: getattr(study, name) for name in Study.model_fields}
    population = study.population.model_copy(update={"size": size})
    return Study(**{**fields, "neighbours": "replace_one", "population": population})
