"""Data sets of people, of households and of events, judged on known people. CONFIDENTIAL.

A fit that learns from panels gets answers about the known people, with simulated noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from stream_dp.batch.data.domain import Hierarchy
from stream_dp.batch.groups.workload.candidates import declared_workload
from stream_dp.batch.people.people_table import People, present_rows, study_people
from stream_dp.batch.synthesizer import Known, release_domain, with_events
from stream_dp.continual.mechanisms import mechanism, patterns_part
from stream_dp.continual.window.open_residuals import OpenResiduals
from stream_dp.continual.window.window import FixedWindow
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study import (
    BatchRelease,
    DataSetRelease,
    EventsRelease,
    Family,
    PeopleRelease,
    Study,
)
from stream_dp.study.families import TABLE_FAMILIES, Registry
from stream_dp.study.group_releases import HierarchyRelease

from ..intake.group_tables import Members
from ..releaser.people_jobs import Answers, known_interactions, panels_of
from .groups_trials import FitProgress, evaluate_data_sets, evaluate_people
from .table_report import DataSetReport, Quality, Score, budget_label


def simulated_answers(
    study: Study,
    release: PeopleRelease,
    period: int,
    panel: Mapping[str, NDArray[np.unsignedinteger]],
    seed: int,
) -> Answers:
    """The input of `known_interactions`: answers with the noise of their plans.

    period: the number of the data set's period.
    panel: by attribute, symbols of everybody (people, periods). Confidential.
    """
    answers = dict[tuple[str, int], NDArray[np.int64]]()
    for index, declared in enumerate(panels_of(study, release)):
        source = SeededNoise(seed * 1000 + index)
        window = patterns_part(mechanism(study, declared))
        # With late arrivals a panel has nothing of use for a fit.
        if window is None or isinstance(window.measurement, OpenResiduals):
            continue
        for number in range(max(1, period - release.past), period + 1):
            time = study.time(declared, number)
            if time is None or time < window.width:
                continue
            counts = _patterns(panel[str(declared.attribute)], number, window)
            noise = np.concatenate(source.draw(window.demand(time)).noise)
            answers[declared.name, number] = window.measure(time, counts) + noise
    return answers


def _patterns(
    symbols: NDArray[np.unsignedinteger], number: int, window: FixedWindow
) -> NDArray[np.int64]:
    """The number of people by pattern of the k periods up to `number`, (q^k,)."""
    q, cells = len(window.values), np.zeros(len(symbols), np.int64)
    for column in range(number - window.width, number):
        cells = cells * q + symbols[:, column]
    return np.bincount(cells, minlength=q**window.width).astype(np.int64)


Panel = Mapping[str, NDArray[np.unsignedinteger]]
R = TypeVar("R", bound=DataSetRelease)


@dataclass(frozen=True)
class Trials:
    """The truth, and the number of repetitions.

    known: by attribute, symbols (people, periods).
    members: of groups; None where the study has none.
    at: the period; the last due one of a release by default.
    scales: the budgets, as multiples of the declared ones.
    """

    study: Study
    known: Panel
    members: Members | None
    at: str | None
    scales: Sequence[str]
    repetitions: int
    seed: int


class Judged(NamedTuple):
    """The errors of a release. groups: 0 where people are released alone."""

    people: int
    groups: int
    qualities: Sequence[Quality]
    scores: Sequence[Score] = ()
    panels: Sequence[str] = ()


def judged_tables(trials: Trials) -> list[DataSetReport]:
    """A report per release of people or of households: at one period, at every budget."""
    study, reports = trials.study, list[DataSetReport]()
    for release in study.batches or ():
        if release.family not in TABLE_JUDGES:
            continue
        label = trials.at or last_due(study, release)
        number = study.periods.numbers[label]
        declared = study.schedule(release).get(number, release)
        rhos = [declared.rho * Fraction(scale) for scale in trials.scales or ["1"]]
        with fit_bar(release.name) as progress:
            judged = TABLE_JUDGES[release.family](trials, release, number, rhos, progress)
        reports.append(
            DataSetReport(
                study=study.name,
                release=release.name,
                kind=release.kind,
                period=label,
                groups=judged.groups,
                people=judged.people,
                repetitions=trials.repetitions,
                seed=trials.seed,
                rhos={budget_label(rho): rho for rho in rhos},
                qualities=tuple(judged.qualities),
                scores=tuple(judged.scores),
                panels=tuple(judged.panels),
            )
        )
    return reports


def _judge_people(
    trials: Trials,
    release: PeopleRelease,
    number: int,
    rhos: Sequence[Fraction],
    progress: FitProgress,
) -> Judged:
    study = trials.study
    people = people_table(study, release, known=trials.known, number=number)
    qualities, scores = evaluate_people(
        people,
        _scaled(release, rhos),
        trials.repetitions,
        seed=trials.seed,
        progress=progress,
        known=partial(_simulated, study, release, number, trials.known),
    )
    panels = [panel.name for panel in panels_of(study, release)]
    return Judged(people.N, 0, qualities, scores, panels)


def _judge_households(
    trials: Trials,
    release: BatchRelease,
    number: int,
    rhos: Sequence[Fraction],
    progress: FitProgress,
) -> Judged:
    assert trials.members is not None  # the study declares groups
    truth = hierarchy(
        trials.study, release, known=trials.known, members=trials.members, number=number
    )
    judged = _judge_two_tables(trials, release, truth, rhos, progress)
    return Judged(truth.N, truth.G, judged)


def _judge_events(
    trials: Trials,
    release: EventsRelease,
    number: int,
    rhos: Sequence[Fraction],
    progress: FitProgress,
) -> Judged:
    answers = np.stack([trials.known[name][:, number - 1] for name in release.names], axis=1)
    truth = with_events(trials.study.attributes, release, answers)
    return Judged(truth.G, 0, _judge_two_tables(trials, release, truth, rhos, progress))


def _judge_two_tables(
    trials: Trials,
    release: HierarchyRelease,
    truth: Hierarchy,
    rhos: Sequence[Fraction],
    progress: FitProgress,
) -> list[Quality]:
    declared_workload(truth.domain, release)  # refuses what is too large
    return evaluate_data_sets(
        truth, _scaled(release, rhos), trials.repetitions, seed=trials.seed, progress=progress
    )


TABLE_JUDGES: Registry[Family, Callable[..., Judged]] = Registry(
    "judges of tables",
    TABLE_FAMILIES,
    {
        Family.PEOPLE: _judge_people,
        Family.HOUSEHOLDS: _judge_households,
        Family.EVENTS: _judge_events,
    },
)


def _scaled(release: R, rhos: Sequence[Fraction]) -> list[tuple[str, R]]:
    """The release at every budget, with the budget's label."""
    return [(budget_label(rho), release.model_copy(update={"rho": rho})) for rho in rhos]


@contextmanager
def fit_bar(name: str) -> Iterator[FitProgress]:
    """A bar, named after a release, with the rounds of its fits."""
    with tqdm(desc=name, disable=None, leave=False) as bar:

        def show(subject: str, done: int, rounds: int) -> None:
            bar.set_description(subject, refresh=False)
            bar.total, bar.n = rounds, done
            bar.refresh()

        yield show


def last_due(study: Study, release: DataSetRelease) -> str:
    """The last period at whose close a data set is due."""
    numbers = range(1, study.periods.count + 1)
    return study.periods.labels[max(n for n in numbers if release in study.due(n)) - 1]


def _simulated(
    study: Study, release: PeopleRelease, number: int, panel: Panel, seed: int
) -> tuple[Known, ...]:
    """Simulated answers of panels about the release's columns."""
    answers = simulated_answers(study, release, number, panel, seed)
    return known_interactions(study, release, number, answers)


def hierarchy(
    study: Study, release: BatchRelease, known: Panel, members: Members, number: int
) -> Hierarchy:
    """Groups and members as a release measures them at the close of a period.

    known: by attribute, symbols (people, periods).
    number: the period, from 1.
    """
    people = members.people([known[name][:, number - 1] for name in release.attributes])
    return Hierarchy(release_domain(study, release), members.groups, people, members.group_of)


def people_table(study: Study, release: PeopleRelease, known: Panel, number: int) -> People:
    """People as a release measures them at the close of a period; see `hierarchy`."""
    symbols = {a.column: known[a.attribute][:, number - 1 - a.ago] for a in release.answers}
    return People.of_answers(study_people(study, release), present_rows(study, release, symbols))
