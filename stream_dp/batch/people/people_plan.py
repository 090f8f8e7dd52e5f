"""The plan of a table of people: one type, which `check`, the fit and the certificate all ask.

A table of people is fitted in four steps.

1. Compress (`compress/`): the table's columns become those that are measured. Sums of numbers are
   added, or columns are joined and rare values merged.
2. Measure (`measure/`): the number of people where it is private, then single columns.
3. Select (`select/`): all pairs, listed marginals, pairs that rounds pick, or none at all.
4. Model (`model/`): a mixture of products of blocks, or a graphical model of what was picked or
   listed.

A plan says steps 2 to 4. The kinds `mixture`, `rap` and `match` are presets: they differ in what
they compress, and in the plans that their releases may declare.
"""

from __future__ import annotations

from typing import Protocol

from stream_dp.study import PeopleRelease
from stream_dp.study.method_titles import PICKED_TITLE, kind_title

from ..rounds.phases import NoisyAnswers, Phase
from .compress.projections import linear_residuals
from .known import Known
from .measure.residual_counts import Residuals, all_residuals
from .model.tree_model import TreeModel
from .people_table import PeopleDomain
from .select.at_once_plan import MOST_TRIPLE, ResidualPlan, label_columns
from .select.chosen_plan import ChosenPlan
from .select.picked_plan import PickPlan


class PeoplePlan(Protocol):
    """What is measured of people, what is selected, and which model learns.

    workload: all that may be measured.
    known: what others have published of the same columns.
    most_rounds: of all phases.
    may_pick: whether pairs are picked in rounds; both answers where noisy counts decide.
    """

    @property
    def workload(self) -> Residuals: ...
    @property
    def known(self) -> tuple[Known, ...]: ...
    @property
    def most_rounds(self) -> int: ...
    @property
    def may_pick(self) -> tuple[bool, ...]: ...

    def phase(self, number: int, answers: NoisyAnswers) -> Phase | None:
        """The phase of a number, from 0, given the answers of those before; None after the last."""

    def picks_pairs(self, answers: NoisyAnswers) -> bool:
        """Whether pairs are picked in rounds, given the answers of the first phase."""

    def tree(self, answers: NoisyAnswers) -> TreeModel | None:
        """The graphical model that learns, before it has learnt; None for a mixture of blocks."""


def people_plan(
    domain: PeopleDomain, release: PeopleRelease, known: tuple[Known, ...] = ()
) -> ChosenPlan | PickPlan | ResidualPlan:
    """The plan of the kinds `mixture` and `rap`. Raises UserError where every pair is too large."""
    labels = label_columns(release)
    if release.chosen:
        return ChosenPlan(domain, release.rho, labels, known)
    if release.declared_rounds:
        return PickPlan.of(domain, release.rho, *release.declared_rounds, known, labels)
    if release.linear:
        return ResidualPlan(linear_residuals(domain, release), release.rho, labels, known)
    return ResidualPlan(all_residuals(domain, 3, MOST_TRIPLE), release.rho, labels, known)


def mechanism_title(kind: str, picks: bool) -> str:
    """The mechanism of a kind in words; a certificate says it, and `check`."""
    return PICKED_TITLE if picks else kind_title(kind)
