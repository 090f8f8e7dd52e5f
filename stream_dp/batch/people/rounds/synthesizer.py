"""Tables of people whose pairs are picked in rounds: for pairs too many to measure all of them.

Source: McKenna, Mullins, Sheldon, Miklau 2022, "AIM" (arXiv 2201.12677): its scores, its annealed
noise and its exact inference. This version measures the number of people and single columns once,
then residuals of pairs, with exact noise, several in a round; the tree that its pairs need is
bounded when they are picked.
"""

from __future__ import annotations

from stream_dp.study import PeopleRelease
from stream_dp.study.method_titles import PICKED_TITLE

from ...base import FitContext
from ...loop import AdaptiveFit, AdaptiveMethod, fit_adaptively
from ..plan import label_columns
from ..table import People
from .model import TreeModel
from .pairs import RankedPairs
from .plan import PickPlan

EDITION = b"rounds 1"


def fit_picked(
    people: People, release: PeopleRelease, context: FitContext
) -> AdaptiveFit[RankedPairs, People]:
    """See `base.Synthesizer`. The release must pick pairs."""
    assert release.picking is not None
    labels = label_columns(release)
    plan = PickPlan.of(people.domain, release.rho, *release.picking, context.known, labels)
    method = AdaptiveMethod.of(
        PICKED_TITLE,
        workload=plan.pairs,
        phases=plan.phases(),
        start=lambda seed: TreeModel(plan.pairs, plan.base, context.known),
        edition=EDITION,
    )
    return fit_adaptively(people, method, context)
