"""The errors to expect of a synthetic panel's own answers, from simulated people.

Estimates have errors in theory. A panel's own answers do not: they depend on how many people have
each pattern. So the mechanism runs on simulated people of two public priors, with seeded noise. Of
each query the larger error is stated. A rare symbol may have a smaller or a larger error than a
frequent one, because counts are at or above 0:

- People have the symbols in declared order with shares in proportion to 1, 1/3, 1/9, .., or with
  equal shares. The part of 'absent' is a fifth where people come and go.
- A period repeats the symbol before with probability 9/10; otherwise it is drawn anew.
- As many people as the study declares, at most 10,000. With a cap on the rows, four fifths of it;
  10,000 where nothing is declared.

The noise is that of the whole study. Of a long study the first 24 periods are simulated. The errors
of the release's own estimates on the same draws are known in theory. What they are off by chance is
taken off the panel's (control variates), so that few repetitions suffice.

Results have two digits. They are computed once, when a study begins, and stored with its design,
because the last digits of floats differ between machines.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dp.answers.panel_answer import panel_events
from stream_dp.answers.query import Query, TotalQuery, example_queries, parse_query
from stream_dp.continual.joint.joint import Joint
from stream_dp.continual.mechanism_interface import Demand, Mechanism, PanelError, Step
from stream_dp.continual.mechanisms import AnyMechanism, patterns_part, totals_part
from stream_dp.continual.window.window import FixedWindow
from stream_dp.panel import Symbols, window_codes
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import Release, Study

from .plan import Plan

STAY = 0.9
FALLS = 1 / 3, 1.0  # of the shares of symbols, from one to the next, in the two priors
ABSENT_SHARE = 0.2
_SEED = 1
_MOST_PEOPLE = 10_000
_MOST_PERIODS = 24
_MOST_BINS = 1 << 14
_MOST_REPETITIONS, _LEAST_REPETITIONS = 20, 4  # with each prior
_WORK = 6_000_000  # rows, and patterns times `_BIN_WORK`, over periods, repetitions and releases
_BIN_WORK = 50
_CHANCE = 2.0  # standard errors within which a bias may be chance
_SLIGHT = 0.05  # part of the error below which a bias is not stated

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def panel_errors(plan: Plan) -> dict[str, tuple[PanelError, ...]]:
    """By release of a panel, the errors to expect of its example queries.

    As stored with the study's beginning, or simulated before it. Nothing of a release with too many
    patterns to simulate.
    """
    if plan.stored is not None:
        return {name: design.panel for name, design in plan.stored.items()}
    study, work = plan.study, _WORK // max(1, len(plan.panels))
    errors: dict[str, tuple[PanelError, ...]] = {}
    simulated: dict[Hashable, tuple[PanelError, ...]] = {}
    for planned in plan.panels:
        release, mechanism = planned.release, planned.mechanism
        case = _case(study, release, mechanism)
        if case not in simulated:
            simulated[case] = simulated_errors(study, release, mechanism, work=work)
        queries = _queries(study, release, mechanism)
        errors[release.name] = tuple(
            PanelError(query.text, error.error, error.bias)
            for query, error in zip(queries, simulated[case], strict=False)
        )
    return errors


def _case(study: Study, release: Release, mechanism: AnyMechanism) -> Hashable:
    """All that a simulation depends on: equal releases, strata and waves have one."""
    questions = [
        q.threshold if isinstance(q, TotalQuery) else (q.width, q.mask.tobytes())
        for q in _queries(study, release, mechanism)
    ]
    events = _events(study, release), tuple(panel_events(study, release))
    return mechanism, study.alphabet(release).absent, _sizes(study, release), events, *questions


def _events(study: Study, release: Release) -> tuple[int, ...]:
    return () if release.totals is None else tuple(study.event_codes(release.totals))


def _queries(study: Study, release: Release, mechanism: AnyMechanism) -> list[Query]:
    """The example queries that are simulated."""
    alphabet, texts = study.alphabet(release), example_queries(study, release)
    queries = [parse_query(text, alphabet.name, alphabet.values) for text in texts]
    most = min(mechanism.horizon, _MOST_PERIODS)
    return [q for q in queries if not isinstance(q, TotalQuery) or q.threshold <= most]


def simulated_errors(
    study: Study, release: Release, mechanism: AnyMechanism, *, work: int = _WORK
) -> tuple[PanelError, ...]:
    """The errors of a release's example queries, of every the larger one of both priors.

    work: about the rows, and patterns times `_BIN_WORK`, over all periods and repetitions
    """
    both = [
        _prior_errors(study, release, mechanism, fall=fall, work=work // len(FALLS))
        for fall in FALLS
    ]
    return tuple(max(errors, key=lambda one: one.error) for errors in zip(*both, strict=True))


def _prior_errors(
    study: Study, release: Release, mechanism: AnyMechanism, *, fall: float, work: int
) -> tuple[PanelError, ...]:
    """The errors of a release's example queries on people of one prior."""
    window = patterns_part(mechanism)
    bins = 0 if window is None else window.bins
    if bins > _MOST_BINS:
        return ()
    people, rows = _sizes(study, release)
    periods = min(mechanism.horizon, _MOST_PERIODS)
    alphabet = study.alphabet(release)
    queries, events = _queries(study, release, mechanism), _events(study, release)
    repetitions = work // (periods * (people + _BIN_WORK * bins))
    repetitions = min(max(repetitions, _LEAST_REPETITIONS), _MOST_REPETITIONS)
    truth = prior_people(
        len(alphabet.values),
        people,
        periods,
        absent=alphabet.absent,
        late=rows is not None,
        fall=fall,
    )
    resized = _resized(mechanism, rows)
    counts = _counts(resized, truth, events, alphabet.absent)
    demands = [resized.demand(t) for t in range(1, periods + 1)]  # of every repetition
    true, true_answers = _Rows(len(alphabet.values), events), []
    for column in truth.T:
        true.extend(column[:, None])
        true_answers.append([true.answer(query) for query in queries])
    errors = [
        _errors(
            resized,
            list(zip(counts, demands, strict=True)),
            queries,
            panel=_Rows(len(resized.values), panel_events(study, release)),
            true_answers=np.array(true_answers),
            seed=seed,
        )
        for seed in range(repetitions)
    ]
    panel, estimates, variances = (np.stack(arrays) for arrays in zip(*errors, strict=True))
    return tuple(
        _stated(query.text, panel[:, :, i], estimates[:, :, i], variances[0, :, i])
        for i, query in enumerate(queries)
    )


def _errors(
    mechanism: AnyMechanism,
    inputs: Sequence[tuple[Ints, Demand]],
    queries: Sequence[Query],
    *,
    panel: _Rows,
    true_answers: Floats,
    seed: int,
) -> tuple[Floats, Floats, Floats]:
    """Runs a repetition.

    inputs: what the mechanism takes at every period, and the noise that it demands
    panel: without rows
    true_answers: (periods, queries), NaN without an answer

    Returns the errors of the panel, those of the release's own estimates, and the variances of
    these with seed 0, (periods, queries) each, NaN without an answer.
    """
    stepped: Mechanism[Any] = mechanism
    source, state = SeededNoise(seed), stepped.init()
    padding = [_padding(query, mechanism) for query in queries]
    of_panel, estimates, variances = (np.full(true_answers.shape, np.nan) for _ in range(3))
    for t, (period_counts, demand) in enumerate(inputs, 1):
        state, step = stepped.step(state, period_counts, source.draw(demand))
        if step is not None:
            panel.extend(step.columns)
            of_panel[t - 1] = [panel.answer(query) for query in queries]
            estimates[t - 1] = [_estimate(mechanism, step, query) for query in queries]
            if not seed:  # they are the same in every repetition
                variances[t - 1] = [_variance(mechanism, step, t, query) for query in queries]
    return of_panel - padding - true_answers, estimates - true_answers, variances


def _estimate(mechanism: AnyMechanism, step: Step, query: Query) -> float:
    """The release's own estimate; NaN before the query's first period."""
    window, values = patterns_part(mechanism), step.estimates.values
    if not isinstance(query, TotalQuery):
        assert window is not None
        mask = query.over(window.bins)[window.measured]
        return float(values[: window.measured.size][mask].sum())
    position = _place(window, query)
    return float(values[position]) if position < values.size else math.nan


def _variance(mechanism: AnyMechanism, step: Step, t: int, query: Query) -> float:
    """The variance of the release's own estimate at t; 0 for a total without an estimate at t."""
    window = patterns_part(mechanism)
    if not isinstance(query, TotalQuery):
        assert window is not None
        return window.measurement.variance(t, query.over(window.bins).astype(float))
    position = _place(window, query)
    return (
        float(step.estimates.errors[position] ** 2)
        if position < step.estimates.errors.size
        else 0.0
    )


def _place(window: FixedWindow | None, query: TotalQuery) -> int:
    """The position of a sum among a release's estimates."""
    return (0 if window is None else window.measured.size) + query.threshold - 1


def _padding(query: Query, mechanism: AnyMechanism) -> float:
    """The padding rows in a query's patterns."""
    window = patterns_part(mechanism)
    if window is None or isinstance(query, TotalQuery):
        return 0.0
    return float(window.padding * query.over(window.bins).sum())


def prior_people(
    symbols: int,
    people: int,
    periods: int,
    *,
    absent: int | None,
    late: bool,
    fall: float = FALLS[0],
) -> Symbols:
    """Codes of simulated people, (people, periods), the same for the same arguments.

    absent: the code of 'absent', if there is one
    late: whether 'absent' has its own share; otherwise it is a symbol like any other
    fall: of the shares of symbols, from one to the next
    """
    shares = fall ** np.arange(symbols)
    if absent is not None and late:
        shares[absent] = 0
        shares *= (1 - ABSENT_SHARE) / shares.sum()
        shares[absent] = ABSENT_SHARE
    ends = (shares / shares.sum()).cumsum()
    rng = np.random.default_rng(_SEED)
    columns: list[Symbols] = []
    for _ in range(periods):
        drawn = np.searchsorted(ends[:-1], rng.random(people), side="right").astype(np.uint8)
        stays = rng.random(people) < STAY
        columns.append(np.where(stays, columns[-1], drawn) if columns else drawn)
    return np.stack(columns, axis=1)


def _sizes(study: Study, release: Release) -> tuple[int, int | None]:
    """The numbers of people and of declared rows that are simulated."""
    if release.rows is not None:
        rows = min(release.rows, _MOST_PEOPLE)
        return max(rows * 4 // 5, 1), rows
    if study.size is not None:
        size = min(study.size, _MOST_PEOPLE)
        return size, size
    return _MOST_PEOPLE, None


def _resized(mechanism: AnyMechanism, rows: int | None) -> AnyMechanism:
    if isinstance(mechanism, Joint):
        return replace(
            mechanism,
            window=replace(mechanism.window, rows=rows),
            totals=replace(mechanism.totals, rows=rows),
        )
    return replace(mechanism, rows=rows)


class _Rows:
    """Rows of symbols by period, real or synthetic, and how many of them a query is true of.

    symbols: the number of symbols
    events: the codes of the event
    """

    def __init__(self, symbols: int, events: Sequence[int]) -> None:
        self._symbols, self._events = symbols, events
        self._columns: list[Symbols] = []
        self._totals: Ints | None = None

    def extend(self, columns: Symbols) -> None:
        """Adds the columns (rows, new periods)."""
        happened = np.isin(columns, self._events).sum(axis=1)
        self._totals = happened if self._totals is None else self._totals + happened
        self._columns += list(columns.T)

    def answer(self, query: Query) -> float:
        """The number of rows that a query is true of; NaN before its first period."""
        if isinstance(query, TotalQuery):
            if query.threshold > len(self._columns) or self._totals is None:
                return math.nan
            return float((self._totals >= query.threshold).sum())
        if query.width > len(self._columns):
            return math.nan
        codes = window_codes(np.stack(self._columns[-query.width :], axis=1), self._symbols)
        return float(query.mask[codes].sum())


def _counts(
    mechanism: AnyMechanism, truth: Symbols, events: Sequence[int], absent: int | None
) -> list[Ints]:
    """What the mechanism takes at every period."""
    window, totals = patterns_part(mechanism), totals_part(mechanism)
    counts = []
    if window is not None:
        counts.append([window.counts(truth, t) for t in range(1, truth.shape[1] + 1)])
    if totals is not None:
        counts.append(list(_increments(truth, totals.horizon, events, absent)))
    return [np.concatenate(of_period) for of_period in zip(*counts, strict=True)]


def _increments(
    truth: Symbols, horizon: int, events: Sequence[int], absent: int | None
) -> Iterator[Ints]:
    """By period, the people reaching total b, b = 1..T, and the people entering: (T + 1,)."""
    totals, entered = np.zeros(len(truth), np.int64), np.zeros(len(truth), bool)
    for column in truth.T:
        happens = np.isin(column, events)
        totals = totals + happens
        present = np.ones(len(truth), bool) if absent is None else column != absent
        rises = np.bincount(totals[happens], minlength=horizon + 1)[1:]
        yield np.append(rises, (present & ~entered).sum()).astype(np.int64)
        entered |= present


def _stated(query: str, panel: Floats, estimates: Floats, variances: Floats) -> PanelError:
    """The error to expect of a query.

    panel, estimates: errors, (repetitions, periods), NaN without an answer
    variances: of the estimates, (periods,)

    The estimates' errors have the known mean 0 and variance, so they are controls: what they are
    off by chance is taken out of the panel's mean error and mean square.
    """
    simulated = ~np.isnan(panel).all(axis=0)
    panel, estimates = panel[:, simulated], estimates[:, simulated]
    off = (estimates**2 - variances[simulated]).mean(axis=1)
    squares = _without_chance((panel**2).mean(axis=1), off)
    means = _without_chance(panel.mean(axis=1), estimates.mean(axis=1))
    chance = _CHANCE * float(means.std(ddof=1)) / math.sqrt(len(means))
    bias = float(means.mean())
    error = math.sqrt(max(float(squares.mean()), bias**2))
    clear = abs(bias) > max(chance, _SLIGHT * error)
    return PanelError(query, _two_digits(error), _two_digits(bias) if clear else 0.0)


def _without_chance(values: Floats, control: Floats) -> Floats:
    """Values by repetition less what a control of mean 0 explains of them, by least squares."""
    spread = float(((control - control.mean()) ** 2).sum())
    if not spread:
        return values
    slope = float(((control - control.mean()) * (values - values.mean())).sum()) / spread
    return values - slope * control


def _two_digits(number: float) -> float:
    return float(f"{number:.2g}")
