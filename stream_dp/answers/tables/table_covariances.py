"""Joint answers about a table, from shared measurements."""

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
    """The answers to queries in words about a data set.

    Raises UserError if a query is not measured.
    """
    weights, totals = [], []
    for text in queries:
        query = parse_conjunction(text, published)
        measured = kind.measured(query, published)
        if measured is None:
            raise UserError(f"query '{query.text}': {NOT_MEASURED}")
        weights.append(measured)
        totals.append(kind.total(query, published))
    answers = tuple(kind.answer(published, text, count=count) for text in queries)
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
    """Values, (n,), and their weights on the measurements in units of the noise, (n, rows)."""
    rows = np.repeat(np.arange(len(answers)), [a.rows.size for a in answers])
    measured = np.concatenate([a.rows for a in answers])
    entries = np.concatenate([a.weights for a in answers]) * np.sqrt(published.variances[measured])
    shape = (len(answers), published.values.size)
    values = np.array([answer.value(published) for answer in answers])
    return values, csr_array((entries, (rows, measured.astype(np.int64))), shape=shape)
