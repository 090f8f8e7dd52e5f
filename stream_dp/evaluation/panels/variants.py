"""The forms that a release could have at its rho and relation, beside the paper's.

The paper's form (Bun, Gaboardi, Neunhoeffer, Zhang 2024) always has noise that is honest for the
declared relation: for windows padded histograms of equal noise; for totals binary trees with parts
of rho in proportion to the cubes of their levels (`paper.py`); for both classes two panels of
their own. Beside it stand trees with equal parts, and with ours: the same worst error in each.

Where people come and go, the paper's window has no name for it: 'absent' is a symbol like the
others, everybody under the declared bound is counted, those absent throughout as well, and a
person's coming changes two patterns each time (squared sensitivity 2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, get_args

import numpy as np

from stream_dp.continual import AnyMechanism, Cumulative, FixedWindow, mechanism
from stream_dp.errors import UserError
from stream_dp.panel import Symbols
from stream_dp.study import (
    CounterName,
    CumulativeRelease,
    JointRelease,
    Release,
    Study,
    WindowRelease,
)

from .paper import Trees
from .plans import Truth, is_open, trial_plan, visible_symbols
from .trial import TrialPlan

# What the two releases that a joint one stands for have in common with it, but for rho.
_COMMON = ("name", "attribute", "failure", "where", "first", "last")


@dataclass(frozen=True)
class Variant:
    """One form of a release: label; paper: whether it is the paper's; chosen: whether it is what
    the study's plan makes of the release; title: the mechanism's own name; study: of which the
    release could be."""

    study: Study
    release: Release
    label: str
    paper: bool
    chosen: bool
    title: str
    plan: TrialPlan


def variants(study: Study, release: Release, truth: Truth) -> list[Variant]:
    """The paper's form first."""
    symbols = visible_symbols(study, release, truth)
    if isinstance(release, WindowRelease):
        return list(_windows(study, release, symbols))
    if isinstance(release, CumulativeRelease):
        return list(_counters(study, release, symbols))
    return list(_joint(study, release, symbols))


def _windows(study: Study, release: WindowRelease, symbols: Symbols) -> Iterator[Variant]:
    alphabet = study.alphabet(release)
    open_ = is_open(release, alphabet.absent)
    chosen = mechanism(study, release)
    assert isinstance(chosen, FixedWindow)
    found = [("histogram", True)] if not open_ else []
    found += [("histogram", False)] if chosen.rows is not None else []
    if not study.grows(release):
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


def _counters(study: Study, release: CumulativeRelease, symbols: Symbols) -> Iterator[Variant]:
    chosen, trees = mechanism(study, release), _copied(release, counter="tree")
    ours = mechanism(study, trees)
    assert isinstance(ours, Cumulative)
    for power, label in ((3, "paper: tree, cubic parts"), (0, "tree, equal parts")):
        made = Trees.like(ours, power)
        yield _variant(study, trees, symbols, label, paper=power == 3, made=made)
    for name in get_args(CounterName):
        try:
            own = mechanism(study, made := _copied(release, counter=name))
        except UserError:
            continue  # not made for so many periods
        yield _variant(study, made, symbols, name, chosen=own == chosen)


def _joint(study: Study, release: JointRelease, symbols: Symbols) -> Iterator[Variant]:
    """One panel, the paper's two that spend all of rho each, and our own two of half of it."""
    fields = {name: getattr(release, name) for name in _COMMON}
    private = study.neighbours == "add_remove"
    rows = symbols.shape[0] if private and release.rows is None else release.rows

    def alone(rho: Fraction) -> tuple[WindowRelease, CumulativeRelease]:
        held = {**fields, "rho": rho}
        return (
            WindowRelease(kind="window", width=release.width, rows=release.rows, **held),
            CumulativeRelease(kind="cumulative", event=release.event, rows=rows, **held),
        )

    window, sums = alone(release.rho)
    for found in (_windows(study, window, symbols), _counters(study, sums, symbols)):
        one = next(v for v in found if v.paper)
        yield replace(one, label="paper: a panel of its own, all of rho", chosen=False)
    for half in alone(release.rho / 2):
        yield _variant(study, half, symbols, "a panel of its own, half of rho")
    yield _variant(study, release, symbols, "one panel", chosen=True)


def _variant(
    study: Study,
    release: Release,
    symbols: Symbols,
    label: str,
    *,
    paper: bool = False,
    chosen: bool = False,
    open_: bool | None = None,
    made: AnyMechanism | None = None,
) -> Variant:
    found = trial_plan(study, release, symbols, wide=False, open_=open_, made=made)
    return Variant(study, release, label, paper, chosen, found.mechanism.title, found)


def _copied(release: Any, **fields: Any) -> Any:
    return release.model_copy(update=fields)


def _closed(study: Study, size: int) -> Study:
    """The study with everybody there from the start, so many, under replacement."""
    fields = {name: getattr(study, name) for name in Study.model_fields}
    population = study.population.model_copy(update={"size": size})
    return Study(**{**fields, "neighbours": "replace_one", "population": population})
