"""How a panel's errors are predicted: weights that reruns of its mechanism teach.

Of a query's cell, its answer at a period, let e be the panel's error in a rerun, s^2 its mean
square and .3 for rounding, F the features (`reruns.py`) and F* those of the rerun: the
truth's and noise. Over the cells of a group and the reruns, in units of s,

    N = mean (F* - F)(F* - F)',  b = mean (F* - F) e,  U = mean F F' on the truth,
    T = .2 U + .8 [U - N]_+,     beta = (N + T + .1 diag(N + T))^-1 b,

where [.]_+ is the positive part by eigenvalues, and T the roughness of true series: U has the
panel's noise on top. The answer is p - beta F (`least_error_answers.py`). Groups are wide, because
weights that are learned for a single query fit the only truth that reruns have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

import numpy as np

from stream_dp import __version__
from stream_dp.panel import Panel
from stream_dp.release.published_panels import (
    FamilyWeights,
    GroupWeights,
    PublishedWeights,
    SeriesFamily,
    Weights,
    WeightsStatement,
    weights_parts,
)

from .answering import PanelAnswers, PublishedLog
from .estimator import StreamMeasurements
from .least_error_answers import Correction, ErrorWeights, reruns_of
from .measured_rows import ReleaseMeasurements
from .reruns import RERUNS, ROUNDING, QuerySeries, ReleaseSeries, SeriesLayout, rerun

FITTED = 0.2  # of the roughness that is U itself
RIDGE = 0.1
FAMILIES: tuple[SeriesFamily, ...] = ("pattern", "union", "total")
FACTORS = (1.75, 2.3)  # of intervals, at least and at most
LEVEL = 0.95
_MOST_GUARD = 1.5
_LEAST_INFLATED = 0.05
_DIGITS = 6  # decimals of published weights
_SLACK = 2e-6  # of weights that are computed again on another machine


MOST_CELLS = 10_000  # of a release: their errors are a few megabytes
MOST_WORK = 20_000_000  # rows times periods


def has_weights(release: ReleaseMeasurements, rows: int) -> bool:
    """Whether reruns of a release are worth their time, and know its padding's part.

    rows: of its panel
    """
    layout, window = SeriesLayout(release), release.window
    if window is not None and window.padding and window.left_out is not None:
        return False
    return layout.live.sum() <= MOST_CELLS and rows * layout.periods <= MOST_WORK


def missing_weights(log: PublishedLog) -> Iterator[Weights]:
    """The weights of all panels whose last publication has none yet: heads and parts of messages.

    Raises Inconsistent.
    """
    answers = PanelAnswers(log)
    for declared in log.study.releases:
        name = declared.name
        if not log.periods_of(name):
            continue
        stream, release = answers.measured(name)
        number = max(each.last for each in stream.releases)
        if name in log.weights and log.weights[name].head.number == number:
            continue
        if has_weights(release, log.release_at(name, None).certificate.rows):
            yield weights_message(stream, release, log.panel(name))


def follows(log: PublishedLog, published: PublishedWeights) -> bool:
    """Whether weights follow from the panel and the published errors of its reruns.

    The counts have to be equal, and the weights up to the last digits of floats. The errors are
    simulated. They are not simulated again, because machines differ in the last digits of a fit.
    Raises Inconsistent.
    """
    name = published.head.release
    stream, release = PanelAnswers(log).measured(name)
    if published.head.number < max(each.last for each in stream.releases):
        return True  # no answer uses them
    layout = SeriesLayout(release)
    if not has_weights(release, log.release_at(name, None).certificate.rows):
        return False
    counts = layout.counts(log.panel(name).symbols[:, : layout.periods])
    if not np.array_equal(counts, published.counts):
        return False
    estimates = stream.answers(layout.questions(stream)).values
    series = ReleaseSeries.of(layout, reruns_of(published), estimates)
    learned = learned_weights(series.workload())
    return all(
        len(found) == len(stated) and all(map(_close, found, stated))
        for found, stated in (
            (learned.groups, published.head.groups),
            (learned.families, published.head.families),
        )
    )


def _close(found: GroupWeights | FamilyWeights, stated: GroupWeights | FamilyWeights) -> bool:
    """Whether two weights are of the same cells, and equal up to the last digits of floats."""
    pairs = zip(found.model_dump().values(), stated.model_dump().values(), strict=True)
    return all(
        a == b if isinstance(a, str) else np.allclose(a, b, rtol=1e-5, atol=_SLACK)
        for a, b in pairs
    )


def weights_message(
    stream: StreamMeasurements, release: ReleaseMeasurements, panel: Panel
) -> Weights:
    """The weights of a release, as the head and the parts of their message."""
    study, layout = release.study, SeriesLayout(release)
    reruns = rerun(layout, stream, panel, reruns=RERUNS)
    estimates = stream.answers(layout.questions(stream)).values
    weights = learned_weights(ReleaseSeries.of(layout, reruns, estimates).workload())
    number = max(each.last for each in stream.releases)
    head = WeightsStatement(
        study_hash=study.hash,
        release=release.declared.name,
        period=study.periods.labels[number - 1],
        number=number,
        reruns=len(reruns.panel),
        panel_step=reruns.panel_step,
        unbiased_step=reruns.unbiased_step,
        groups=weights.groups,
        families=weights.families,
        code_version=__version__,
    )
    return head, weights_parts(reruns.counts, reruns.panel, reruns.unbiased)


def learned_weights(series: Iterable[QuerySeries]) -> ErrorWeights:
    """The weights that reruns teach, rounded."""
    queries = list(series)
    groups, families = list[GroupWeights](), list[FamilyWeights]()
    for family in FAMILIES:
        own = [query for query in queries if query.family == family]
        for past, future, large in product(range(3), range(3), (False, True)):
            cells = [
                (query, int(t))
                for query in own
                if query.large == large
                for t in np.flatnonzero(
                    query.live & (query.neighbours == [[past], [future]]).all(axis=0)
                )
            ]
            if cells:
                groups.append(_group(cells, family, past, future, large))
        if own:
            learned = ErrorWeights(tuple(groups), ())
            families.append(_family(family, [Correction(query, learned) for query in own]))
    return ErrorWeights(tuple(groups), tuple(families))


def _group(
    cells: Sequence[tuple[QuerySeries, int]],
    family: SeriesFamily,
    past: int,
    future: int,
    large: bool,
) -> GroupWeights:
    """The weights of a group of cells: queries, each at a period.

    `n`, `b`, `u`, `roughness` and `beta` are N, b, U, T and beta of the module. In units of s^2 the
    remaining error is 1 - 2 beta'b + beta'(N + T) beta.
    """
    # (cells, features, reruns), (cells, reruns) and (cells, features)
    noise = np.array([query.noise[:, :, t] / query.scale[t] for query, t in cells])
    errors = np.array([query.panel[:, t] / query.scale[t] for query, t in cells])
    truth = np.array([query.truth[:, t] / query.scale[t] for query, t in cells])
    count, size, _ = noise.shape
    b = np.einsum("ckb,cb->k", noise, errors) / errors.size
    flat = np.moveaxis(noise, 1, 0).reshape(size, -1)
    n, u = flat @ flat.T / errors.size, truth.T @ truth / count
    seen = np.abs(u).sum(axis=0) > 0
    values, vectors = np.linalg.eigh(u - n * np.outer(seen, seen))
    positive = (vectors * np.maximum(values, 0)) @ vectors.T
    roughness = FITTED * u + (1 - FITTED) * positive
    moment = n + roughness
    beta = np.linalg.solve(moment + np.diag(RIDGE * moment.diagonal() + 1e-9), b)
    plain = float(1 - 2 * beta @ b + beta @ moment @ beta)
    inflated = max(plain * (1 + size / count), _LEAST_INFLATED)
    return GroupWeights(
        family=family,
        past=past,
        future=future,
        large=large,
        beta=tuple(round(float(each), _DIGITS) for each in beta),
        roughness=round(max(0.0, float(beta @ roughness @ beta)), _DIGITS),
        inflation=round(min(inflated, max(1.0, plain)) / max(plain, 1e-9), _DIGITS),
    )


def _family(family: SeriesFamily, corrections: Sequence[Correction]) -> FamilyWeights:
    """The factor of intervals, and the guard by Stein's unbiased estimate of the panel's risk."""
    ratios, gaps, of_reruns = [], [], []
    for correction in corrections:
        query, live = correction.query, correction.query.live
        spread = np.sqrt(correction.variances + ROUNDING)
        ratios.append((np.abs(correction.rerun_errors) / spread)[:, live].ravel())
        gaps.append(((query.counts - query.estimates) / query.scale)[live] ** 2)
        of_reruns.append((((query.panel - query.unbiased) / query.scale)[:, live]) ** 2)
    by_rerun = np.concatenate(of_reruns, axis=1).mean(axis=1)
    above = np.concatenate(gaps).mean() - by_rerun.mean() - 2 * by_rerun.std(ddof=1)
    factor = np.clip(np.quantile(np.concatenate(ratios), LEVEL), *FACTORS)
    return FamilyWeights(
        family=family,
        factor=round(float(factor), _DIGITS),
        guard=round(float(np.clip(above, 0, _MOST_GUARD)), _DIGITS),
    )
