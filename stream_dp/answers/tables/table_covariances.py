"""Several answers about one table together, from the measurements that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from stream_dp.errors import UserError

from ..joint_answers import JointAnswers
from .conjunction import parse_conjunction
from .table_answer import NOT_MEASURED, Conjunctions
from .table_facts import Floats, PublishedTables, Weights


def joint_table_answers(
    kind: Conjunctions, published: PublishedTables, queries: Sequence[str], *, count: bool
) -> JointAnswers:
    """The answers to queries in words about one data set.

    Raises UserError where one of them is not measured.
    """
    weights, totals = [], []
    for words in queries:
        query = parse_conjunction(words, published)
        measured = kind.measured(query, published)
        if measured is None:
            raise UserError(f"query '{query.text}': {NOT_MEASURED}")
        weights.append(measured)
        totals.append(kind.total(query, published))
    answers = tuple(kind.answer(published, words, count=count) for words in queries)
    values, errors = _with_errors(weights, published)
    if not count:
        people, theirs = _with_errors(totals, published)
        # Shares to the first order: (value - share * people) / people.
        values = values / people
        errors = csr_array((errors - theirs * values[:, None]) / people[:, None])
    covariance = (errors @ errors.T).toarray()
    return JointAnswers(
        tuple(replace(a, value=float(v)) for a, v in zip(answers, values, strict=True)), covariance
    )


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
