"""The forms that a release could have at its rho and relation, beside the paper's.

The paper is Bun, Gaboardi, Neunhoeffer, Zhang 2024. Its form always has the noise that the declared
relation needs: for windows padded histograms of equal noise (Algorithm 1); for totals binary trees
with parts of rho in proportion to the cubes of their levels (Algorithm 2, `paper.py`); for both
classes of queries two panels. The other forms are trees with equal parts, and those of this
library.

Where people come and go, the paper's window does not know of absence: 'absent' is a symbol like
the others, everybody under the declared bound is counted, those absent throughout as well, and a
person's coming changes two patterns at each period (squared sensitivity 2).
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
    """One form of a release."""

    # A study that could have the release.
    study: Study
    release: Release
    label: str
    # Whether it is the paper's form.
    paper: bool
    # Whether it is the form that the study's plan gives the release.
    chosen: bool
    # The mechanism's own name.
    title: str
    plan: TrialPlan


def variants(study: Study, release: Release, truth: Truth) -> list[Variant]:
    """The forms of a release, the paper's first."""
    symbols = visible_symbols(study, release, truth)
    if isinstance(release, WindowRelease):
        return list(_windows(study, release, symbols))
    if isinstance(release, CumulativeRelease):
        return list(_counters(study, release, symbols))
    return list(_joint(study, release, symbols))


def _windows(study: Study, release: WindowRelease, symbols: Symbols) -> Iterator[Variant]:
    alphabet = study.alphabet(release)
    people_come_and_go = is_open(release, alphabet.absent)
    chosen = mechanism(study, release)
    assert isinstance(chosen, FixedWindow)
    forms = [("histogram", True)] if not people_come_and_go else []
    forms += [("histogram", False)] if chosen.rows is not None else []
    if chosen.design.allows("residuals"):
        forms += [("residuals", True)] if not people_come_and_go else []
        forms += [("residuals", False)] if chosen.rows is not None else []
    if people_come_and_go:
        assert release.rows is not None
        assert alphabet.absent is not None
        missing = max(release.rows - symbols.shape[0], 0)
        absentees = np.full((missing, symbols.shape[1]), alphabet.absent, np.uint8)
        everybody = np.concatenate([symbols, absentees])
        yield _variant(
            _closed(study, everybody.shape[0]),
            _copied(release, strategy="histogram", padded=True, rows=None),
            everybody,
            "paper: histogram, padded, absence counted",
            paper=True,
            leave_out_absent=True,
        )
    own = (chosen.strategy, chosen.padded)
    for form in forms if own in forms else [*forms, own]:
        strategy, padded = form
        paper = form == ("histogram", True)
        label = f"{'paper: ' if paper else ''}{strategy}, {'padded' if padded else 'projected'}"
        variant = _copied(release, strategy=strategy, padded=padded)
        yield _variant(study, variant, symbols, label, paper=paper, chosen=form == own)


def _counters(study: Study, release: CumulativeRelease, symbols: Symbols) -> Iterator[Variant]:
    chosen, trees = mechanism(study, release), _copied(release, counter="tree")
    equal_error_trees = mechanism(study, trees)
    assert isinstance(equal_error_trees, Cumulative)
    for power, label in ((3, "paper: tree, cubic parts"), (0, "tree, equal parts")):
        split = Trees.like(equal_error_trees, power)
        yield _variant(study, trees, symbols, label, paper=power == 3, override=split)
    for name in get_args(CounterName):
        variant = _copied(release, counter=name)
        try:
            is_chosen = mechanism(study, variant) == chosen
        except UserError:
            continue  # this counter is not for so many periods
        yield _variant(study, variant, symbols, name, chosen=is_chosen)


def _joint(study: Study, release: JointRelease, symbols: Symbols) -> Iterator[Variant]:
    """The paper's two panels with all of rho each, our two with half of it each, and one panel."""
    common = {name: getattr(release, name) for name in _COMMON}
    private = study.neighbours == "add_remove"
    rows = symbols.shape[0] if private and release.rows is None else release.rows

    def separate(rho: Fraction) -> tuple[WindowRelease, CumulativeRelease]:
        fields = {**common, "rho": rho}
        return (
            WindowRelease(kind="window", width=release.width, rows=release.rows, **fields),
            CumulativeRelease(kind="cumulative", event=release.event, rows=rows, **fields),
        )

    window, sums = separate(release.rho)
    for forms in (_windows(study, window, symbols), _counters(study, sums, symbols)):
        paper = next(variant for variant in forms if variant.paper)
        yield replace(paper, label="paper: a panel of its own, all of rho", chosen=False)
    for half in separate(release.rho / 2):
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
    leave_out_absent: bool | None = None,
    override: AnyMechanism | None = None,
) -> Variant:
    """A form of a release; the last two parameters are those of `trial_plan`."""
    plan = trial_plan(
        study,
        release,
        symbols,
        wide=False,
        leave_out_absent=leave_out_absent,
        override=override,
    )
    return Variant(
        study=study,
        release=release,
        label=label,
        paper=paper,
        chosen=chosen,
        title=plan.mechanism.title,
        plan=plan,
    )


def _copied(release: Any, **fields: Any) -> Any:
    return release.model_copy(update=fields)


def _closed(study: Study, size: int) -> Study:
    """The study of a declared number of people, all there from the start, under replacement."""
    fields = {name: getattr(study, name) for name in Study.model_fields}
    population = study.population.model_copy(update={"size": size})
    return Study(**{**fields, "neighbours": "replace_one", "population": population})
