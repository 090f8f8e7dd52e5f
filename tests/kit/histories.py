"""Small studies in terms of every history that a person can have, for tests of estimates."""

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import null_space
from scipy.sparse import csr_array

from kit.walks import when_present
from stream_dp.answers.estimator import StreamEstimator, StreamMeasurements
from stream_dp.answers.joint_answers import Ratios
from stream_dp.answers.measured_rows import PeriodMeasurements, releases_of_stream
from stream_dp.answers.query import TotalQuery, parse_query
from stream_dp.continual.mechanisms import mechanism
from stream_dp.panel import window_codes
from stream_dp.privacy.noise import Draw
from stream_dp.studyfile.study_file import parse_study as parse_study

SIZE = 500


def study_of(
    releases,
    *,
    relation="replace_one",
    count=4,
    values=(0, 1),
    missing=0,
    rho="1/2",
    closed=False,
):
    population = {} if relation == "add_remove" else {"size": SIZE}
    if closed:
        relation, population = "add_remove", {"closed": True}
    own_releases = [
        {"attribute": "x", "rho": rho, "name": f"r{i}", **release}
        for i, release in enumerate(releases)
    ]
    return parse_study(
        {
            "study": {
                "name": "small",
                "unit": "person",
                "neighbours": relation,
                "rho": "20",
                "delta": "1/1000000",
                "periods": {"first": 1, "every": "step", "count": count},
                "population": population,
            },
            "attributes": {
                "x": {"values": list(values), "missing": missing},
                "region": {"values": ["n", "s"], "missing": "absent", "fixed": True},
            },
            "releases": own_releases,
        }
    )


def window(width, **more):
    return {"kind": "window", "width": width, **more}


def totals(event=(1,), **more):
    return {"kind": "cumulative", "event": list(event), **more}


def joint(width, event=(1,), **more):
    return {"kind": "joint", "width": width, "event": list(event), **more}


class Quiet:
    """A draw without noise, for what a mechanism demands."""

    def draw(self, demand):
        noise = tuple(np.zeros(size, np.int64) for _, size in demand)
        return Draw(noise, np.random.default_rng(1))


@dataclass(frozen=True)
class History:
    """A person's symbols in all periods; before `entry` (from 1) they are only filled in."""

    symbols: tuple[int, ...]
    entry: int

    def pattern(self, number, width):
        """The code of the last symbols at a period; None where the person is not there yet."""
        return tuple(self.symbols[number - width : number]) if number >= self.entry else None


class Case:
    """A study, everybody's history, and what every message measures of one person of each.

    late: the last period in which anybody enters; parameters: of the noise of every measurement,
    by release and period.
    """

    def __init__(self, study, *, late=1, seed=3):
        self.study = study
        self.declared = study.releases[0]
        self.alphabet = study.alphabet(self.declared)
        self.q, self.count = len(self.alphabet.values), study.periods.count
        blank = study.blank(self.declared)
        self.histories = []
        for entry in range(1, late + 1):
            rest = itertools.product(range(self.q), repeat=self.count - entry + 1)
            self.histories += [History((blank,) * (entry - 1) + own, entry) for own in rest]
        self.parameters = {}
        self.columns = {r.name: self._measured(r) for r in study.releases}
        rng = np.random.default_rng(seed)
        self.people = rng.integers(0, 40, len(self.histories))
        if study.size is not None and self.declared.where is None:
            self.people = rng.multinomial(SIZE, np.ones(len(self.histories)) / len(self.histories))
        self.messages = {
            name: [
                PeriodMeasurements(
                    number,
                    rows @ self.people + rng.normal(0, np.sqrt(variances)).round(),
                    variances,
                )
                for number, rows, variances in by_number
            ]
            for name, by_number in self.columns.items()
        }
        self.stream = StreamMeasurements(
            tuple(releases_of_stream(study, self.messages, self.declared.stream))
        )

    def _measured(self, declared):
        """(period number, rows on histories, variances) of every message of a release."""
        stepper = mechanism(self.study, declared)
        first, last = self.study.span(declared)
        by_number, steps = {}, {}  # a step for each beginning of the counts
        for i, history in enumerate(self.histories):
            state, seen = stepper.init(), ()
            for number in range(first, last + 1):
                counts = self._counts(declared, history, number)
                seen = *seen, counts.tobytes()
                if seen not in steps:
                    draw = Quiet().draw(stepper.demand(number - first + 1))
                    steps[seen] = stepper.step(state, counts, draw)
                state, step = steps[seen]
                if step is not None:
                    measurements = step.measurements
                    zeros = np.zeros((len(measurements.values), len(self.histories))), None
                    rows, _ = by_number.setdefault(number, zeros)
                    rows[:, i] = measurements.values
                    by_number[number] = rows, measurements.standard_errors() ** 2
                    self.parameters[declared.name, number] = measurements.variances
        return [(number, rows, variances) for number, (rows, variances) in by_number.items()]

    def _counts(self, declared, history, number):
        first, last = self.study.span(declared)
        counts = []
        if declared.kind != "cumulative":
            cells = np.zeros(self.q**declared.width, np.int64)
            pattern = history.pattern(number, declared.width)
            if number >= first + declared.width - 1 and pattern is not None:
                cells[window_codes(np.array([pattern]), self.q)[0]] = 1
            counts.append(cells)
            absent = self.study.presence(declared)
            if absent is not None:
                seen = history.symbols[max(first - 1, number - 2 * declared.width + 1) : number]
                there = number >= history.entry
                kinds = when_present(np.array([seen])[:there], len(seen), declared.width, absent)
                counts.append(kinds)
        if declared.kind != "window":
            rises = np.zeros(last - first + 2, np.int64)
            total = self.happened(declared, history, number)
            if total > self.happened(declared, history, number - 1):
                rises[total - 1] = 1
            seen = self.entered(declared, history, number)
            rises[-1] = seen and not self.entered(declared, history, number - 1)
            counts.append(rises)
        return np.concatenate(counts)

    def happened(self, declared, history, number):
        """Periods of the release so far with the event."""
        first, events = self.study.span(declared)[0], self.study.event_codes(declared)
        periods = range(max(first, history.entry), number + 1)
        return sum(history.symbols[p - 1] in events for p in periods)

    def entered(self, declared, history, number):
        first = self.study.span(declared)[0]
        periods = range(max(first, history.entry), number + 1)
        return any(history.symbols[p - 1] != self.alphabet.absent for p in periods)

    def wanted(self, declared, text, number):
        """Whether the query is true of a person of each history."""
        asked = parse_query(text, self.alphabet.name, self.alphabet.values)
        values = np.zeros(len(self.histories))
        for i, history in enumerate(self.histories):
            if isinstance(asked, TotalQuery):
                values[i] = self.happened(declared, history, number) >= asked.threshold
            elif (pattern := history.pattern(number, asked.width)) is not None:
                values[i] = asked.mask[window_codes(np.array([pattern]), self.q)[0]]
        return values

    def best(self, name):
        (release,) = (r for r in self.stream.releases if r.declared.name == name)
        return StreamEstimator(self.stream, release)

    def answer(self, chosen, declared, text, number):
        asked = parse_query(text, self.alphabet.name, self.alphabet.values)
        if isinstance(asked, TotalQuery):
            return chosen.total(asked.threshold, number)
        return chosen.patterns(number, asked.mask.astype(float))

    @cached_property
    def _responses(self):
        """How the blocks' data and the equalities' gaps follow each measurement."""
        count = sum(m.values.size for own in self.messages.values() for m in own)
        start = self._data(np.zeros(count))
        data = np.stack([self._data(row) for row in np.eye(count)], axis=1) - start[:, None]
        system, at, missed = self.stream.system, 0, 0
        for block, sums in zip(system.blocks, system.equalities.of_block, strict=True):
            end = at + block.data.size
            missed = missed - block.spread(sums, csr_array(data[at:end].T))
            at = end
        gaps = system.factor.solved(missed) if len(missed) else missed
        return data, gaps

    def _data(self, values):
        """Of the blocks of the same system with other measurements, in the study's order."""
        messages, at = {}, 0
        for release in self.stream.releases:
            own = messages.setdefault(release.declared.name, [])
            for m in release.messages:
                end = at + m.values.size
                own.append(PeriodMeasurements(m.number, values[at:end], m.variances))
                at = end
        stream = self.declared.stream
        system = StreamMeasurements(tuple(releases_of_stream(self.study, messages, stream))).system
        return np.concatenate([block.data for block in system.blocks])

    def weights(self, answer):
        """Of an answer on all measurements, in the study's order, and what is added to them."""
        data, gaps = self._responses
        weights = (answer.coordinates @ data + answer.bound @ gaps)[0]
        return weights, answer.value - weights @ self.system[1]

    @cached_property
    def system(self):
        """Rows on histories, values, variances, of all messages in the study's order."""
        order = [r.declared.name for r in self.stream.releases]
        rows = np.concatenate([m[1] for name in order for m in self.columns[name]])
        values = np.concatenate([m.values for name in order for m in self.messages[name]])
        variances = np.concatenate([m.variances for name in order for m in self.messages[name]])
        return rows, values, variances

    @cached_property
    def _dense(self):
        """A known number of each history, the free directions, the scaled rows, their inverse."""
        rows, _, variances = self.system
        count = rows.shape[1]
        start, free = np.zeros(count), np.eye(count)
        if self.study.size is not None and self.declared.where is None:
            start, free = np.full(count, SIZE / count), null_space(np.ones((1, count)))
        scaled = (rows / np.sqrt(variances)[:, None]) @ free
        return start, free, scaled, np.linalg.pinv(scaled, rcond=1e-11)

    def brute(self, wanted):
        """Value and variance of the best unbiased answer, dense; None where there is none."""
        rows, values, variances = self.system
        start, free, scaled, inverse = self._dense
        goal = free.T @ wanted
        weights = goal @ inverse
        if np.abs(weights @ scaled - goal).max() > 1e-7:
            return None
        residual = (values - rows @ start) / np.sqrt(variances)
        return float(wanted @ start + weights @ residual), float(weights @ weights)


OPEN = {"values": (0, 1), "missing": "absent", "relation": "add_remove"}


def single_ratio(value, people):
    """The ratio of two single answers."""
    together = float(value.covariance(people)[0, 0])
    return Ratios.of(value.value, value.variance, people.value, people.variance, together)
