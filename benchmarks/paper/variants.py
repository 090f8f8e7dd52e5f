"""The possible forms of a release at its rho and relation, beside the paper's.

The paper is Bun, Gaboardi, Neunhoeffer, Zhang 2024. Its form always has the noise that the declared
relation needs: for windows padded histograms of equal noise (Algorithm 1); for totals binary trees
with parts of rho in proportion to the cubes of their levels (Algorithm 2, `paper_trees.py`); for
both classes of queries two panels. The other forms are trees with equal parts, and this library's
forms.

In an open population the paper's window does not know of absence: 'absent' is a symbol like
the others, everybody under the declared bound is counted, also people absent throughout, and a
person's coming changes two patterns at each period (squared sensitivity 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from paper_trees import Trees

from stream_dp.continual.joint.joint import Joint
from stream_dp.continual.joint.reconciliation import Reconciliation
from stream_dp.continual.mechanisms import AnyMechanism, mechanism, patterns_part, totals_part
from stream_dp.errors import UserError
from stream_dp.panel import Symbols
from stream_dp.services.evaluate.repeated_panels import (
    TrialPlan,
    Truth,
    is_open,
    trial_plan,
    visible_symbols,
)
from stream_dp.study import (
    CounterKind,
    CumulativeRelease,
    Family,
    JointRelease,
    Kind,
    Release,
    Strategy,
    Study,
    WindowRelease,
)
from stream_dp.study.families import PANEL_FAMILIES, Registry

# The fields that a joint release shares with its two separate releases, but for rho.
_COMMON = ("name", "attribute", "failure", "where", "first", "last")


APART = "one panel, not reconciled"


class _Apart(Reconciliation):
    """Patterns and sums that keep their own estimates."""

    possible = False


@dataclass(frozen=True)
class _Unreconciled(Joint):
    """A joint panel that follows the estimates of patterns and of sums as they are."""

    @property
    def _reconciliation(self) -> Reconciliation:
        return _Apart(self.window, self.totals, self.events)


@dataclass(frozen=True)
class Variant:
    """A form of a release."""

    # A study that could have the release.
    study: Study
    release: Release
    label: str
    # Whether it is the paper's form.
    paper: bool
    # Whether it is the form that the study's plan gives the release.
    chosen: bool
    # The mechanism's name.
    title: str
    plan: TrialPlan


def variants(study: Study, release: Release, truth: Truth) -> list[Variant]:
    """Returns the forms of a release, the paper's first."""
    symbols = visible_symbols(study, release, truth)
    return list(_VARIANTS[release.family](study, release, symbols))


def _windows(study: Study, release: WindowRelease, symbols: Symbols) -> Iterator[Variant]:
    alphabet = study.alphabet(release)
    people_come_and_go = is_open(release, alphabet.absent)
    chosen = patterns_part(mechanism(study, release))
    assert chosen is not None
    forms = [(Strategy.HISTOGRAM, True)] if not people_come_and_go else []
    forms += [(Strategy.HISTOGRAM, False)] if chosen.rows is not None else []
    if chosen.allows(Strategy.RESIDUALS):
        forms += [(Strategy.RESIDUALS, True)] if not people_come_and_go else []
        forms += [(Strategy.RESIDUALS, False)] if chosen.rows is not None else []
    if people_come_and_go:
        assert release.rows is not None
        assert alphabet.absent is not None
        missing = max(release.rows - symbols.shape[0], 0)
        absentees = np.full((missing, symbols.shape[1]), alphabet.absent, np.uint8)
        everybody = np.concatenate([symbols, absentees])
        yield _variant(
            _closed(study, everybody.shape[0]),
            _copied(release, strategy=Strategy.HISTOGRAM, padded=True, rows=None),
            everybody,
            "paper: histogram, padded, absence counted",
            paper=True,
            leave_out_absent=True,
        )
    chosen_form = (chosen.strategy, chosen.padded)
    for form in forms if chosen_form in forms else [*forms, chosen_form]:
        strategy, padded = form
        paper = form == (Strategy.HISTOGRAM, True)
        label = f"{'paper: ' if paper else ''}{strategy}, {'padded' if padded else 'projected'}"
        variant = _copied(release, strategy=strategy, padded=padded)
        yield _variant(study, variant, symbols, label, paper=paper, chosen=form == chosen_form)


def _counters(study: Study, release: CumulativeRelease, symbols: Symbols) -> Iterator[Variant]:
    chosen, trees = mechanism(study, release), _copied(release, counter=CounterKind.TREE)
    equal_error_trees = totals_part(mechanism(study, trees))
    assert equal_error_trees is not None
    for power, label in ((3, "paper: tree, cubic parts"), (0, "tree, equal parts")):
        split = Trees.like(equal_error_trees, power)
        yield _variant(study, trees, symbols, label, paper=power == 3, override=split)
    for kind in (*CounterKind, None):
        variant = _copied(release, counter=kind)
        try:
            is_chosen = mechanism(study, variant) == chosen
        except UserError:
            continue  # the counter does not support this number of periods
        yield _variant(study, variant, symbols, kind.value if kind else "coupled", chosen=is_chosen)


def _joint(study: Study, release: JointRelease, symbols: Symbols) -> Iterator[Variant]:
    """Yields the paper's two panels with all of rho, ours with half of rho, and joint panels."""
    common = {name: getattr(release, name) for name in _COMMON}
    private = study.neighbours == "add_remove"
    rows = symbols.shape[0] if private and release.rows is None else release.rows

    def separate(rho: Fraction) -> tuple[WindowRelease, CumulativeRelease]:
        fields = {**common, "rho": rho}
        return (
            WindowRelease(kind=Kind.WINDOW, width=release.width, rows=release.rows, **fields),
            CumulativeRelease(kind=Kind.CUMULATIVE, event=release.event, rows=rows, **fields),
        )

    window, sums = separate(release.rho)
    for forms in (_windows(study, window, symbols), _counters(study, sums, symbols)):
        paper = next(variant for variant in forms if variant.paper)
        yield replace(paper, label="paper: a panel of its own, all of rho", chosen=False)
    for half in separate(release.rho / 2):
        yield _variant(study, half, symbols, "a panel of its own, half of rho")
    yield _variant(study, release, symbols, "one panel", chosen=True)
    joint = mechanism(study, release)
    assert isinstance(joint, Joint)
    apart = _Unreconciled(joint.window, joint.totals, joint.events)
    yield _variant(study, release, symbols, APART, override=apart)


_VARIANTS: Registry[Family, Callable[..., Iterator[Variant]]] = Registry(
    "forms of panels",
    PANEL_FAMILIES,
    {Family.WINDOW: _windows, Family.CUMULATIVE: _counters, Family.JOINT: _joint},
)


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
    """Makes a form of a release; the last two parameters are those of `trial_plan`."""
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
    """Makes a study under replacement with a declared number of people, always present."""
    population = study.population.model_copy(update={"size": size, "closed": None})
    return study.revised(neighbours="replace_one", population=population)
