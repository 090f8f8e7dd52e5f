"""Several answers about data sets together, from the measurements that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from stream_dp.errors import UserError

from ..joint import Asked, JointEstimates, joint_estimates
from .answer import Conjunctions, answering
from .conjunction import parse_conjunction
from .published import Floats, PublishedTables, Weights


@dataclass(frozen=True, eq=False)
class AskedTables:
    """A query in words about a data set."""

    published: PublishedTables
    query: str


def joint_answers(asked: Sequence[Asked | AskedTables], *, count: bool) -> JointEstimates:
    """Answers about panels and data sets together; different data sets have independent noise.

    Raises UserError where one of them is not measured.
    """
    own = [id(one.published) if isinstance(one, AskedTables) else 0 for one in asked]
    values, covariance = np.zeros(len(asked)), np.zeros((len(asked), len(asked)))
    for which in dict.fromkeys(own):
        places = [i for i, other in enumerate(own) if other == which]
        part = _part([asked[i] for i in places], count=count)
        values[places], covariance[np.ix_(places, places)] = part.values, part.covariance
    return JointEstimates(values, covariance)


def _part(asked: Sequence[Asked | AskedTables], *, count: bool) -> JointEstimates:
    """Of panels alone, or of one data set."""
    tables = [one for one in asked if isinstance(one, AskedTables)]
    if not tables:
        return joint_estimates(
            [one for one in asked if not isinstance(one, AskedTables)], count=count
        )
    published = tables[0].published
    kind = answering(published)
    if not isinstance(kind, Conjunctions):
        raise UserError(f"release '{published.declared.name}': its answers are given one by one")
    weights, totals = [], []
    for one in tables:
        query = parse_conjunction(one.query, published)
        own = kind.measured(query, published)
        if own is None:
            raise UserError(f"query '{query.text}': no measurement says how far off its answer is")
        weights.append(own)
        totals.append(kind.total(query, published))
    values, errors = _with_errors(weights, published)
    if not count:
        people, theirs = _with_errors(totals, published)
        # Shares to the first order: (value - share * people) / people.
        values = values / people
        errors = csr_array((errors - theirs * values[:, None]) / people[:, None])
    return JointEstimates(values, (errors @ errors.T).toarray())


def _with_errors(
    answers: Sequence[Weights], published: PublishedTables
) -> tuple[Floats, csr_array]:
    """Values, (n,), and how each follows the measurements in units of their noise, (n, rows)."""
    rows = np.repeat(np.arange(len(answers)), [a.places.size for a in answers])
    places = np.concatenate([a.places for a in answers])
    entries = np.concatenate([a.weights for a in answers]) * np.sqrt(published.variances[places])
    shape = (len(answers), published.values.size)
    values = np.array([answer.value(published) for answer in answers])
    return values, csr_array((entries, (rows, places.astype(np.int64))), shape=shape)
