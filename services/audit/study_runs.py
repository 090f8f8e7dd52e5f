"""Runs of a release, or of all releases of a study together, on simulated people.

Both worlds differ by the same people in every panel, every data set and the gate of every period. A
later data set learns from the earlier ones and from the panels of its own run. A run's score is the
sum of the log likelihood ratios of everything that was measured and chosen, with normal noise of
the declared variances.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_dp.batch.kinds import require_available
from stream_dp.batch.synthesizer import EarlierTable, FitContext, Known
from stream_dp.continual.mechanism_interface import Mechanism
from stream_dp.errors import UserError
from stream_dp.planning.plan import Plan, plan_study
from stream_dp.privacy.noise import Draw, Measurements, NoiseSource, SeededNoise
from stream_dp.release.arrow_parts import ipc_stream
from stream_dp.study import DataSetRelease, Release, SizesRelease, Study
from stream_dp.study.declared_sections import DeclaredPopulation
from stream_dp.study.noisy_gate import GATE

from ..releaser.job_families import JOB_FAMILIES
from ..releaser.people_jobs import known_interactions, panels_of
from .histories import Cell, History, Pair, Progress, WorstPair, worst_pair
from .rho_bounds import APART, TwoScores
from .watched_fits import (
    Fit,
    WatchedRound,
    choice_log_ratio,
    log_ratio,
    noiseless_draw,
    repeated_fit,
    watched_fit,
    without_noise,
)
from .worlds import JOINING, LEAVING, DataSet, Measured, PlaceWorlds, WorldPeriod, Worlds

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_MOST_SIZE, _MOST_SIZE_OF_PANELS = 20_000, 400  # people of an audited study
_MOST_PAIRS, _SEARCH = 1500, 15.0  # of each of two searches: pairs, and CPU seconds, about
_NOISY_REFERENCES = 4  # for fits that make choices
_NOTHING = Measurements((), np.zeros(0, np.int64), ())


@dataclass(frozen=True)
class _WatchedTable:
    """A data set of a run. context: all of its surroundings but noise and transcript."""

    context: Callable[[FitContext], FitContext]
    rounds: tuple[WatchedRound, ...]


@dataclass(frozen=True)
class _Run:
    """Everything that was measured in one run. values: by panel, and of the gate."""

    values: Mapping[str, Floats]
    tables: Mapping[DataSet, _WatchedTable]


class StudyRuns:
    """A release, or all releases of a study together, on simulated people.

    subject: what is audited, in words.
    rho: its declared cost.
    most: the people whom both worlds may differ by, at most.
    """

    worlds_of: type[Worlds] = Worlds

    def __init__(self, study: Study, release: Release | DataSetRelease | None = None) -> None:
        """Raises UserError if a fit is not installed.

        release: of data sets, its first one; None for all releases.
        """
        declared = plan_study(study if release is None else _alone(study, release))
        self.plan = _smaller(declared)
        self.study = self.plan.study
        self.mechanisms = self.plan.mechanisms
        batches, periods = self.study.batches or (), self.study.periods
        require_available(batch.kind for batch in batches)
        self.last, self.rho = periods.count, declared.total
        self.subject = f"all releases of {self.last} periods together"
        if release in study.releases:
            (audited,) = self.mechanisms.values()
            self.subject = f"{len(audited.charges)} periods, all together"
        elif release is not None:
            self.last = min(self.study.due_periods(batches[0]))
            self.subject = f"the data set of {periods.labels[self.last - 1]}"
            self.rho = self._charge(release.name)
        if self.study.size != study.size:
            self.subject += f", as of {self.study.size:,} people"
        self.schedule: dict[DataSet, DataSetRelease] = {
            (batch.name, number): one
            for batch in batches
            for number, one in self.study.schedule(batch).items()
            if number <= self.last
        }
        self.worlds = self.worlds_of(self.study, self.schedule, self.last)
        self.gate, self.most = self.worlds.gate, self.worlds.most
        self.cells = self.worlds.cells(*self.mechanisms, *self.schedule)
        self._answers: dict[tuple[Measured, bytes], Floats] = {}
        self._single: dict[History, tuple[WorldPeriod, ...]] = {}

    def _charge(self, name: str) -> Fraction:
        """What is charged for a release in all audited periods."""
        (planned,) = (one for one in self.plan.releases if one.release.name == name)
        return sum(planned.charges[: self.last], Fraction(0))

    def _panel(
        self, name: str, world: Sequence[WorldPeriod], draw: Callable[..., Draw]
    ) -> list[Measurements]:
        """By period of a panel, its noisy values."""
        mechanism: Mechanism[Any] = self.mechanisms[name]
        first, last = self.study.span(self.study.release(name))
        state, published = mechanism.init(), []
        for number in range(first, last + 1):
            demand = mechanism.demand(number - first + 1)
            state, step = mechanism.step(state, world[number - 1].counts[name], draw(demand))
            published.append(_NOTHING if step is None else step.measurements)
        return published

    @cached_property
    def _variances(self) -> dict[str, Floats]:
        """By panel, and of the gate, the declared variances of all values."""
        variances = {}
        for name in self.mechanisms:
            measured = Measurements.joined(self._panel(name, self._nobody, noiseless_draw))
            variances[name] = np.array(measured.variances, np.float64)
        if self.gate is not None:
            variances[GATE] = np.full(self.last, float(self.gate.variance))
        return variances

    @cached_property
    def _nobody(self) -> tuple[WorldPeriod, ...]:
        return self.worlds.world(self.cells, None, 0)

    def _exact(self, name: str, world: Sequence[WorldPeriod]) -> Floats:
        """The values of a panel, or of the gate, without noise."""
        if name == GATE:
            return np.array([period.returning for period in world], np.float64)
        return _values(self._panel(name, world, noiseless_draw))

    def _fit(self, name: DataSet, world: Sequence[WorldPeriod], watched: _WatchedTable) -> Fit:
        return self._fit_in(name, world, watched.context)

    def _fit_in(
        self,
        name: DataSet,
        world: Sequence[WorldPeriod],
        context: Callable[[FitContext], FitContext],
    ) -> Fit:
        release, tables = self.schedule[name], world[name[1] - 1].tables[name[0]]
        fitted = JOB_FAMILIES[release.family].fitted
        return lambda surroundings: fitted(self.study, release, tables, context(surroundings))

    def _run(
        self,
        world: Sequence[WorldPeriod],
        source: NoiseSource | None,
        rounds: Mapping[DataSet, int] | None = None,
    ) -> _Run:
        """Runs all releases in a world.

        source: None for no noise.
        rounds: by data set, the round after which its fit ends; None for its end.
        """
        draw = noiseless_draw if source is None else source.draw
        panels = {name: self._panel(name, world, draw) for name in self.mechanisms}
        values = {name: _values(published) for name, published in panels.items()}
        if self.gate is not None:
            noise = [int(draw(self.gate.demand).noise[0][0]) for _ in world]
            values[GATE] = self._exact(GATE, world) + noise
        tables = dict[DataSet, _WatchedTable]()
        earlier = dict[str, list[EarlierTable]]()
        for name, release in sorted(self.schedule.items(), key=lambda item: item[0][1]):
            known = self._known(name, panels)
            before = earlier.setdefault(name[0], [])
            number = 1 + self.study.due_periods(release).index(name[1])
            context = _context(known, number, tuple(before))
            fit = self._fit_in(name, world, context)
            watched = watched_fit(fit, source, None if rounds is None else rounds[name])
            tables[name] = _WatchedTable(context, watched)
            if release.fused:
                kept = tuple(one.data for one in watched)
                before.append(EarlierTable(number, release, kept, known))
        return _Run(values, tables)

    def _known(self, name: DataSet, panels: Mapping[str, list[Measurements]]) -> tuple[Known, ...]:
        """What the panels of a run have published of a data set's people and columns."""
        release, number = self.schedule[name], name[1]
        answers = dict[tuple[str, int], Ints]()
        for panel in panels_of(self.study, release):
            first, _ = self.study.span(panel)
            for period in range(max(first, number - release.past), number + 1):
                published = panels[panel.name]
                if period - first < len(published) and len(published[period - first].values):
                    answers[panel.name, period] = published[period - first].values
        return known_interactions(self.study, release, number, answers)

    @cached_property
    def _references(self) -> list[_Run]:
        """Runs without the people in question, whose questions a search repeats."""
        reference = self._run(self._nobody, None)
        if any(one.choices for table in reference.tables.values() for one in table.rounds):
            return [self._run(self._nobody, SeededNoise(i)) for i in range(_NOISY_REFERENCES)]
        return [reference]

    def _measured(self, name: Measured, world: Sequence[WorldPeriod]) -> Floats:
        """What the reference runs would have measured in a world, in standard deviations."""
        key = name, _content(name, world)
        if key not in self._answers:
            if isinstance(name, str):
                found = self._exact(name, world) / np.sqrt(self._variances[name])
            else:
                exact = list[Floats]()
                for reference in self._references:
                    watched = reference.tables[name]
                    rounds = repeated_fit(self._fit(name, world, watched), watched.rounds)
                    exact += [a.exact / np.sqrt(a.variances) for a in rounds]
                    # A choice of the range e in log-probability costs at most e^2 / 8.
                    chosen = [c.log_probability / 2 for a in rounds for c in a.choices]
                    exact.append(np.array(chosen))
                found = np.concatenate(exact) / np.sqrt(len(self._references))
            self._answers[key] = found
        return self._answers[key]

    def _costs(self, names: Sequence[Measured], pairs: Sequence[Pair]) -> list[float]:
        """The costs of pairs, by the declared variances."""
        worlds = {h: self._world_of(h) for pair in pairs for h in pair}
        return [
            sum(
                float(((self._measured(n, worlds[a]) - self._measured(n, worlds[b])) ** 2).sum())
                for n in names
            )
            / 2
            for a, b in pairs
        ]

    def _world_of(self, history: History | None) -> tuple[WorldPeriod, ...]:
        """The input with one person of this history, or with nobody."""
        if history is None:
            return self._nobody
        if history not in self._single:
            self._single[history] = self.worlds.world(self.cells, history, 1)
        return self._single[history]

    def worst_pair(self) -> WorstPair:
        """The pair of histories with the largest cost in all releases together.

        The search begins with the worst pair of each release, the dearest release first.
        """
        absence = self.study.neighbours == "add_remove"
        everything: list[Measured] = [*self._variances, *self.schedule]
        low = tuple(0 for _ in self.cells)
        first, second, settled = list(low), list(low), set[Cell]()
        most = self._affordable(everything)
        for names in self._releases():
            cells = self.worlds.cells(*names)
            places = [self.cells.index(cell) for cell in cells]

            def costs(
                pairs: Sequence[Pair],
                names: Sequence[Measured] = names,
                places: Sequence[int] = places,
            ) -> list[float]:
                whole = [(_within(low, places, a), b and _within(low, places, b)) for a, b in pairs]
                return self._costs(names, whole)

            found = worst_pair(cells, costs, absence=absence, most=most)
            if {*names} == {*everything}:
                return found
            pairs = zip(found.first, found.second or found.first, strict=True)
            for cell, place, (one, other) in zip(cells, places, pairs, strict=True):
                if cell not in settled:
                    first[place], second[place] = one, other
            settled |= {*cells}
        merged: Pair = tuple(first), None if absence else tuple(second)
        return worst_pair(
            self.cells,
            lambda pairs: self._costs(everything, pairs),
            absence=absence,
            most=most,
            begin=[merged],
        )

    def _affordable(self, names: Sequence[Measured]) -> int:
        """The pairs whose costs a search has time for."""
        self._costs(names, [(tuple(0 for _ in self.cells), None)])  # compiles the fits
        self._answers.clear()
        self._single.clear()
        began = time.process_time()
        self._costs(names, [(tuple(0 for _ in self.cells), None)])
        seconds = max(time.process_time() - began, 1e-3)
        return max(8, min(_MOST_PAIRS, int(_SEARCH / seconds)))

    def _releases(self) -> list[tuple[Measured, ...]]:
        """What each release measures, the dearest first."""
        everything: list[Measured] = [*self.mechanisms, *self.schedule]
        releases = sorted(
            self.plan.releases, key=lambda planned: sum(planned.charges), reverse=True
        )
        return [
            tuple(n for n in everything if planned.release.name == _release(n))
            for planned in releases
        ]

    def scores(
        self, pair: WorstPair, size: int, runs: int, source: NoiseSource, progress: Progress
    ) -> TwoScores:
        """The scores of `runs` runs in every world: log likelihood ratios of what is measured.

        A panel, the gate, and data sets that learn from no panel have scores alone, too, and so
        have the selections of these data sets.

        size: the number of people in whom the worlds differ.
        """
        worlds = [
            self.worlds.world(self.cells, history, size) for history in (pair.second, pair.first)
        ]
        exact = [{name: self._exact(name, world) for name in self._variances} for world in worlds]
        rounds = {n: len(table.rounds) for n, table in self._references[0].tables.items()}
        releases = list(dict.fromkeys([*self._variances, *(name for name, _ in self.schedule)]))
        scores = np.zeros((2, len(releases), runs))
        choices = np.zeros((2, len(releases), runs))
        for run in range(runs):
            for here, there in ((0, 1), (1, 0)):
                done, sign = self._run(worlds[here], source, rounds), 1 - 2 * here
                for name, values in done.values.items():
                    squares = (values - exact[here][name]) ** 2 - (values - exact[there][name]) ** 2
                    ratio = float((squares / (2 * self._variances[name])).sum())
                    scores[here, releases.index(name), run] += sign * ratio
                for data_set, watched in done.tables.items():
                    place, rounds_here = (here, releases.index(data_set[0]), run), watched.rounds
                    fit = self._fit(data_set, worlds[there], watched)
                    own, other = without_noise(rounds_here), repeated_fit(fit, rounds_here)
                    scores[place] += sign * log_ratio(rounds_here, own, other)
                    choices[place] += sign * choice_log_ratio(own, other)
            progress()
        alone = [
            (name, self._charges[name], TwoScores(scores[0, i], scores[1, i], size))
            for i, name in enumerate(releases)
            if name in self._charges
        ]
        alone = alone if len(releases) > 1 else []
        alone += [
            (
                f"selections of {name}",
                self._charges[name],
                TwoScores(choices[0, i], choices[1, i], size, normal=False),
            )
            for i, name in enumerate(releases)
            if name in self._charges and choices[:, i].any()
        ]
        first, second = scores.sum(axis=1)
        return TwoScores(first, second, size, alone=tuple(alone))

    @cached_property
    def _charges(self) -> dict[str, Fraction]:
        """What is charged for a part that learns from no other part, by name."""
        charges = {} if self.gate is None else {GATE: self.gate.rho * self.last}
        for planned in self.plan.releases:
            name = planned.release.name
            if name in self.mechanisms or not panels_of(self.study, self.study.batch(name)):
                charges[name] = self._charge(name)
        return charges


class SizesRuns(StudyRuns):
    """The first data set of a release of sizes, whose people move between simulated places."""

    worlds_of = PlaceWorlds
    worlds: PlaceWorlds

    def __init__(self, study: Study, release: SizesRelease) -> None:
        """Raises UserError for a release from a table of counts, or whose cap is 1."""
        if release.attribute is None:
            raise UserError(
                f"audit: '{release.name}' is measured from a table of counts, not from reports;"
                " the audit sends reports; audit the same release with an attribute of places"
            )
        if release.largest < 2:
            raise UserError(f"audit: '{release.name}' has sizes up to 1; the audit needs 2")
        super().__init__(study, release)
        self.largest = release.largest
        self.subject += f", of {len(self.worlds.keys)} simulated places in two regions"

    def worst_pair(self) -> WorstPair:
        """The costlier of two ways to join: all in one place, or each in one of their own.

        The cost of a shift d of the exact values is sum of d^2 / variance / 2, for `size` people at
        once; as it grows with the square of their number, it is divided by that.
        """
        second = None if self.study.neighbours == "add_remove" else LEAVING
        wanted = round(APART / math.sqrt(2 * float(self.rho)))
        (name,), found = self.schedule, list[tuple[float, bool, int]]()
        for self.worlds.together in (True, False):
            size = max(1, min(wanted, self.worlds.room(self.largest)))
            joined, left = (
                self._measured(name, self.worlds.world(self.cells, history, size))
                for history in (JOINING, second)
            )
            cost = float(((joined - left) ** 2).sum() / 2)
            found.append((cost / size**2, self.worlds.together, size))
        rho, self.worlds.together, self.most = max(found)
        return WorstPair(JOINING, second, rho)


def runs_of(study: Study, release: Release | DataSetRelease | None) -> StudyRuns:
    """The runs of a release, or of all. Raises UserError for what cannot be audited."""
    if isinstance(release, SizesRelease):
        return SizesRuns(study, release)
    sizes = study.of(SizesRelease)
    if release is None and sizes:
        raise UserError(
            f"audit: the sizes of places in '{sizes[0].name}' are audited alone: name a release"
        )
    return StudyRuns(study, release)


def _alone(study: Study, release: Release | DataSetRelease) -> Study:
    """The study with one release, the columns that it looks at, and no gate."""
    return study.revised(
        releases=tuple(one for one in study.releases if one == release),
        batches=tuple(one for one in study.batches or () if one == release) or None,
        attributes={name: study.attributes[name] for name in release.questions},
        gate=None,
    )


def _context(
    known: tuple[Known, ...], number: int, earlier: tuple[EarlierTable, ...]
) -> Callable[[FitContext], FitContext]:
    return lambda context: replace(context, known=known, number=number, earlier=earlier)


def _release(name: Measured) -> str:
    return name if isinstance(name, str) else name[0]


def _values(published: Sequence[Measurements]) -> Floats:
    return Measurements.joined(published).values.astype(np.float64)


def _content(name: Measured, world: Sequence[WorldPeriod]) -> bytes:
    """What a release looks at in a world, in bytes."""
    if name == GATE:
        return repr([period.returning for period in world]).encode()
    if isinstance(name, str):
        return b"".join(period.counts[name].tobytes() for period in world if name in period.counts)
    tables = world[name[1] - 1].tables[name[0]]
    return b"".join(ipc_stream(table) for table in tables.values())


def _within(low: History, places: Sequence[int], history: History) -> History:
    """The whole history with these answers at these cells, and the first answer elsewhere."""
    whole = list(low)
    for place, option in zip(places, history, strict=True):
        whole[place] = option
    return tuple(whole)


def _smaller(declared: Plan) -> Plan:
    """The plan of a study with fewer people, if they get the same noise at the same charges."""
    study = declared.study
    most = _MOST_SIZE if study.batches else _MOST_SIZE_OF_PANELS
    if study.size is None or study.size <= most:
        return declared
    fewer = plan_study(study.revised(population=DeclaredPopulation(size=most)))
    same = fewer.total == declared.total and all(
        mechanism.demand(time) == fewer.mechanisms[name].demand(time)
        for name, mechanism in declared.mechanisms.items()
        for time in range(1, mechanism.horizon + 1)
    )
    return fewer if same else declared
