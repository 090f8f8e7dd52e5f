"""Weighted answers: post-stratification by public cells of a study (`[study.weights]`).

Cell h has N_h people of the population and, among the people of the study, v_h who are counted of
n_h. The weighted total is the sum of N_h v_h / n_h (Holt and Smith 1979). It is linear in the
measurements if every n_h is declared. If n_h is noisy, v_h / n_h is a ratio with Fieller's
interval, and the intervals of the cells are joined by the method of variance estimates recovery
(Zou and Donner 2008): with the distances d_h from the shares to the ends of their intervals,
weights w_h and correlations r, the end of the weighted answer has the distance
sqrt(sum w_g w_h r_gh d_g d_h). For normal intervals this is the normal interval of the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stream_dp.errors import UserError
from stream_dp.release.answer import RESPONDENTS, Answer, Interval, ReleaseQuery, Sampled
from stream_dp.study import Study
from stream_dp.study.declared_sections import Sampling, WeightingCells

from .answering import Answering
from .joint_answers import JointAnswers, Ratios, joined, sampled_shares
from .measurement_blocks import Floats
from .query import query_words


@dataclass(frozen=True)
class CellQueries:
    """The queries behind an answer.

    queries: to the cells of a weighted answer, in their order; otherwise the query itself
    cells: of a weighted answer
    """

    queries: tuple[ReleaseQuery, ...]
    cells: WeightingCells | None = None


def _cells_counted(queries: Sequence[CellQueries], *, count: bool | None) -> bool | None:
    """Whether the queries of all cells are asked for counts: those with declared numbers of people.

    count: of the answers that are not weighted. Raises UserError where the answers disagree.
    """
    weighted = {query.cells.sample is not None for query in queries if query.cells is not None}
    if not weighted:
        return count
    plain = {bool(count) for query in queries if query.cells is None}
    if len(weighted | plain) > 1:
        raise UserError("weighted: these answers have no covariance together; ask one by one")
    return weighted.pop()


def cell_queries(study: Study, query: ReleaseQuery) -> CellQueries:
    """The queries to the cells of a query that begins with `weighted`. Raises UserError."""
    words = query_words(query.query)
    if not words.weighted:
        return CellQueries((query,))
    cells = study.weights
    if cells is None:
        raise UserError(
            f"query '{query.query}': the study declares no weighting cells; they stand in"
            " [study.weights]"
        )
    if query_words(words.query).weighted:
        raise UserError(f"query '{query.query}': write 'weighted' once")
    if words.among is not None:
        raise UserError(
            f"query '{query.query}': ask 'weighted' without 'among'; for a share of a part, ask for"
            " both weighted answers together and take their ratio"
        )
    if query.release in {batch.name for batch in study.batches or ()}:
        return CellQueries(_of_table(study, query, words.query, cells), _measured(cells))
    names = _strata(study, query.release, cells.by, list(cells.totals))
    queries = tuple(query._replace(release=name, query=words.query) for name in names)
    return CellQueries(queries, cells)


def _measured(cells: WeightingCells) -> WeightingCells:
    """The cells without declared numbers of people: a table measures them itself."""
    return cells.model_copy(update={"sample": None})


def _of_table(
    study: Study, query: ReleaseQuery, text: str, cells: WeightingCells
) -> tuple[ReleaseQuery, ...]:
    """The queries to a table of people, a query for each value of the table's column."""
    batch = study.batch(query.release)
    assert batch is not None
    if cells.by not in batch.questions:
        raise UserError(
            f"query '{query.query}': '{query.release}' has no column '{cells.by}', by which the"
            " study is weighted"
        )
    conditions = [f"{RESPONDENTS} & {cells.by}={value}" for value in cells.totals]
    return tuple(query._replace(query=f"{text} among {condition}") for condition in conditions)


def _strata(study: Study, name: str, by: str, values: Sequence[str]) -> list[str]:
    """The releases of all strata, in the order of the values.

    name: of one of them, or what their names begin with. Raises UserError.
    """
    strata = {r.name: str((r.where or {}).get(by)) for r in study.releases if by in (r.where or {})}
    value = strata.get(name)
    base = name if value is None else name.removesuffix(f"-{value}")
    names = [f"{base}-{value}" for value in values]
    if any(strata.get(stratum) != value for stratum, value in zip(names, values, strict=True)):
        raise UserError(
            f"release '{name}': a weighted answer needs a release of every value of '{by}'; declare"
            f" strata = '{by}'"
        )
    return names


def is_weighted(query: ReleaseQuery) -> bool:
    """Whether a query asks for a weighted answer. Raises UserError if it is no text."""
    return query_words(query.query).weighted


def answered_by_cells(
    study: Study,
    queries: Sequence[ReleaseQuery],
    answering: Callable[[str], Answering],
    *,
    count: bool | None,
) -> JointAnswers:
    """The answers to queries, with or without weights.

    answering: the answering part of a release's family.
    count: whether a weighted answer is a total of the population, not a share.

    Raises UserError where a cell has no error, or is too small for its noise.
    """
    cells_by_query = [(query, cell_queries(study, query)) for query in queries]
    as_counts = _cells_counted([of_cells for _, of_cells in cells_by_query], count=count)
    joint = joined(
        [cell_query for _, of_cells in cells_by_query for cell_query in of_cells.queries],
        lambda cell_query: id(answering(cell_query.release)),
        lambda group: answering(group[0].release).joint(group, count=as_counts),
    )
    if all(of_cells.cells is None for _, of_cells in cells_by_query):
        return joint
    rows, answers, start = np.zeros((len(cells_by_query), len(joint.answers))), list[Answer](), 0
    for row, (query, of_cells) in zip(rows, cells_by_query, strict=True):
        end = start + len(of_cells.queries)
        cell_answers = joint.answers[start:end]
        if of_cells.cells is None:
            row[start] = 1.0
            answers += cell_answers
        else:
            covariance = joint.covariance[start:end, start:end]
            shares = _cell_shares(cell_answers, covariance, of_cells.cells, study.sampling)
            totals = np.array(list(of_cells.cells.totals.values()), float)
            weights = totals if count else totals / totals.sum()
            row[start:end] = weights / shares.divisors
            answers.append(shares.answer(query, weights, count=bool(count)))
        start = end
    return JointAnswers(tuple(answers), rows @ joint.covariance @ rows.T)


@dataclass(frozen=True, eq=False)
class _CellShares:
    """The shares of all cells.

    divisors: the declared numbers of people that counts were divided by; 1 for shares
    covariance: of the shares
    sampled: the errors with that of sampling; None without a design
    """

    cells: WeightingCells
    parts: tuple[Answer, ...]
    divisors: Floats
    values: Floats
    covariance: Floats
    ends: Floats
    sampled: list[Sampled] | None

    def answer(self, query: ReleaseQuery, weights: Floats, *, count: bool) -> Answer:
        """The weighted answer. weights: of the cells' shares."""
        first = self.parts[0]
        value = float(weights @ self.values)
        sampled, sources = None, (name for cell in self.parts for name in cell.sources)
        if self.sampled is not None:
            variances = np.array([cell.standard_error**2 for cell in self.sampled])
            covariance = self.covariance + np.diag(variances - self.covariance.diagonal())
            ends = np.array([cell.interval for cell in self.sampled])
            error, interval = joined_interval(weights, self.values, covariance, ends)
            sampled = Sampled(error, interval, self.sampled[0].covers)
        error, interval = joined_interval(weights, self.values, self.covariance, self.ends)
        by = self.cells.by
        return replace(
            first,
            release=query.release,
            query=f"weighted {query_words(query.query).query}",
            measure="count" if count else "share",
            value=value,
            standard_error=error,
            interval=interval,
            method=f"weighted by public totals of '{by}'; each cell {first.method}",
            people=f"of the population, weighted by {by}",
            sources=tuple(dict.fromkeys(sources)),
            sampled=sampled,
            weighted_by=by,
            synthetic=None,
            padding=None,
            bias=None,
        )


def _cell_shares(
    answers: tuple[Answer, ...], covariance: Floats, cells: WeightingCells, design: Sampling | None
) -> _CellShares:
    """The shares v_h / n_h of all cells.

    answers: shares, or with declared numbers of people n_h the counts v_h.
    covariance: of the answers. Raises UserError for a cell without an interval.
    """
    if len({answer.period for answer in answers}) > 1:
        raise UserError("weighted: the cells are not all published at one last period; name one")
    for value, answer in zip(cells.totals, answers, strict=True):
        if answer.standard_error is None or answer.interval is None:
            reason = answer.reason or "the noisy number of its people is not clearly positive"
            raise UserError(f"weighted: the cell {cells.by}={value} has no interval: {reason}")
    values = np.array([answer.value for answer in answers])
    if cells.sample is None:
        ends = np.array([answer.ends for answer in answers])
        sampled = [answer.sampled for answer in answers if answer.sampled is not None]
        divisors = np.ones(len(answers))
    else:
        divisors = np.array([cells.sample[value] for value in cells.totals], float)
        none = np.zeros(len(answers))
        ratios = Ratios(values, covariance.diagonal(), divisors, none, none)
        values, _, low, high = ratios.intervals()
        covariance = covariance / np.outer(divisors, divisors)
        ends = np.stack([low, high], axis=1)
        sampled = [answer for answer in sampled_shares(ratios, design) if answer is not None]
    design_sampled = sampled if len(sampled) == len(answers) else None
    return _CellShares(cells, answers, divisors, values, covariance, ends, design_sampled)


def joined_interval(
    weights: Floats, values: Floats, covariance: Floats, ends: Floats
) -> tuple[float, Interval]:
    """The standard error and the interval of weights @ values, from the values' own intervals.

    The method of variance estimates recovery (Zou and Donner 2008); see the module.

    weights: (n,), not negative. covariance: (n, n). ends: (n, 2)
    """
    errors: Floats = np.sqrt(np.maximum(0.0, covariance.diagonal()))
    scale: Floats = np.outer(errors, errors)
    correlation = np.divide(covariance, scale, out=np.eye(values.size), where=scale > 0)
    value = float(weights @ values)
    below, above = (weights * distance for distance in (values - ends[:, 0], ends[:, 1] - values))
    low, high = (math.sqrt(max(0.0, float(d @ correlation @ d))) for d in (below, above))
    error = math.sqrt(max(0.0, float(weights @ covariance @ weights)))
    return error, (value - low, value + high)
