"""What a kind of data set announces, against what its fit does.

Announced are the mechanisms of a certificate, the phases, the charges of a schedule and the keys of
a study file. A fit is made as a worker makes it, on the tables of a tiny study. Where the model
does not matter it learns nothing, so that a fit costs little.
"""

from __future__ import annotations

import pickle
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from stream_dp.batch.kinds import fit_plan, planned_titles
from stream_dp.batch.rounds import adaptive_fit
from stream_dp.batch.synthesizer import FitContext, Known, MemoryTranscript
from stream_dp.errors import UserError
from stream_dp.planning.plan import plan_study
from stream_dp.privacy.noise import SeededNoise
from stream_dp.release.published_tables import column_values
from stream_dp.services.releaser.job_families import JOB_FAMILIES
from stream_dp.study import Study
from stream_dp.study.families import TABLE_FAMILIES, Kind
from stream_dp.studyfile import parse_study

from .kinds_of_releases import study_of

RHOS = [*map(Fraction, ("1/100000", "1/2000", "1/50", "1", "20"))]
CONTENT = {"name", "kind", "rho", "every", "at", "attribute", "attributes", "events"}
# By key, what a release declares besides in both studies, and another value.
CHANGES: dict[str, tuple[dict[str, Any], Any]] = {
    "rounds": ({}, 2),
    "per_round": ({"rounds": 3}, 2),
    "ways": ({}, 1),
    "rows": ({}, 7),
    "labels": ({}, ["work"]),
    "linear": ({}, [{"random": 1}]),
    "fuse": ({}, False),
    "first": ({}, "3/4"),
    "derived": ({}, {"worker": {"of": "work", "values": {"no": 0, "yes": 1}}}),
    "one_ways": ({}, "1/2"),
    "threshold": ({}, 99),
    "exempt": ({"threshold": 99}, ["work"]),
    "composites": ({}, {"both": ["work", "sex"]}),
    "coarser": ({}, {"work": [1]}),
    "marginals": ({}, [{"of": ["work"], "weight": 3}]),
    "methods": ({}, ["cumulative-squares", "cumulative-squares"]),
    "parts": ({}, [1, 3]),
    "epsilon": ({"rho": None}, [1, 1]),
    "relations": ({}, "1/3"),
    "rules": ({}, ["head.age >= 16"]),
}
# Settings that two columns of listed values cannot show: `fuse` is `check_fusion`'s, and of others
# batch/test_kind_settings.py, test_match.py, test_people_linear.py and test_people_numbers.py look.
ELSEWHERE = {"fuse", "labels", "linear", "threshold", "exempt", "composites", "coarser"}
ELSEWHERE |= {"relations", "rules"}
LOCATED = ("rap", "rows")  # of numbers: batch/test_people_linear.py


class Deaf:
    """A model that learns nothing; see `adaptive_fit.Model`."""

    gap = 0.0

    def answers(self, rows: Any) -> Any:
        return np.zeros(len(rows))

    def learn(self, measured: Any) -> tuple[Deaf, float]:
        return self, float("nan")


@dataclass
class Deed:
    """What a fit did.

    title: the mechanism that it names.
    phases: the rho of each phase of the adaptive loop, in order.
    models: the shapes of the first models.
    rounds: its transcript.
    model: what it gave.
    """

    title: str = ""
    phases: list[Fraction] = field(default_factory=list)
    models: list[Any] = field(default_factory=list)
    rounds: list[bytes] = field(default_factory=list)
    model: Any = None


class _Fitted(Exception):
    """A fit has ended; nothing is sampled."""


def shapes(value: Any, depth: int = 4) -> Iterator[Any]:
    """The shapes of the arrays in a value."""
    if hasattr(value, "shape"):
        yield tuple(value.shape)
    elif depth and is_dataclass(value):
        for each in fields(value):
            yield from shapes(getattr(value, each.name), depth - 1)
    elif depth and isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from shapes(item, depth - 1)


@contextmanager
def everywhere(name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Puts a function in the place of one of this name, in all modules that have it."""
    with pytest.MonkeyPatch.context() as patch:
        for module in [m for key, m in sys.modules.items() if key.startswith("stream_dp")]:
            if callable(getattr(module, name, None)):
                patch.setattr(module, name, function)
        yield


def deed(
    fit: Any, release: Any, *, deaf: bool = True, models: bool = False, **surroundings: Any
) -> Deed:
    """Fits a release on the tables of a fit.

    deaf: whether its model learns nothing.
    models: whether to look at the first model.
    surroundings: of the context.
    """
    done, real = Deed(), adaptive_fit.fit_adaptively

    def watched(data: Any, method: Any, context: FitContext) -> Any:
        def phase(number: int, answers: Any) -> Any:
            following = method.phase(number, answers)
            if following is not None:
                done.phases.append(following.rho)
            return following

        if models:
            done.models.append([*shapes(method.start(1))])
        return real(data, replace(method, phase=phase, start=lambda seed: Deaf()), context)

    def table_parts(synthesizer: Any, data: Any, release: Any, context: Any, coded: Any) -> Any:
        done.model = synthesizer(data, release, context)
        raise _Fitted

    context = FitContext(SeededNoise(1), MemoryTranscript(), **surroundings)
    family = JOB_FAMILIES[release.family]
    with (
        everywhere("fitted_table_parts", table_parts),
        everywhere("fit_adaptively", watched if deaf else real),
    ):
        try:
            provenance, _ = family.fitted(fit.study, release, fit.tables, context)
            done.title = provenance.mechanism
        except _Fitted:
            done.title = done.model.title
    done.rounds = context.transcript.rounds()
    return done


def changed(kind: Kind, **declared: Any) -> Study:
    """The tiny study of a kind without settings, but for these; None leaves a key out."""
    study: Any = study_of(kind)
    (release,) = study["releases"]
    required = {k for k, f in kind.declaration.model_fields.items() if f.is_required()}
    bare = {key: value for key, value in release.items() if key in CONTENT | required}
    both = {key: value for key, value in (bare | declared).items() if value is not None}
    return parse_study({**study, "releases": [both]})


def optional_keys(kind: Kind) -> list[str]:
    """The keys of a kind's declaration that a release may leave out, but for its content."""
    model = kind.declaration.model_fields
    return [key for key, each in model.items() if key not in CONTENT and not each.is_required()]


def check_titles(kind: Kind, fits: Any) -> None:
    """A fit names an announced mechanism, and every announced one is named by a fit."""
    study, named = changed(kind), set()
    (declared,) = study.batches or ()
    for rho in RHOS:
        release = declared.model_copy(update={"rho": rho})
        title = deed(fits[-1], release).title
        assert title in planned_titles(study, release), f"names '{title}', which is not announced"
        named.add(title)
    for title in declared.titles:
        assert title in named, f"announces '{title}', which no fit names"


def check_phases(kind: Kind, fits: Any) -> None:
    """The phases that run are announced with their rho, and spend that of the release."""
    study = changed(kind)
    (declared,) = study.batches or ()
    for rho in RHOS[1::2]:
        release = declared.model_copy(update={"rho": rho})
        planned, done = fit_plan(study, release).phases, deed(fits[-1], release)
        assert planned, "announces no phase"
        announced = Counter(phase.rho for phase in planned)
        if done.phases:
            more = [*(Counter(done.phases) - announced)]
            assert not more, f"runs a phase of rho = {(*more, 0)[0]}, which is not announced"
            assert sum(done.phases) == release.rho, "the phases of a fit spend another rho"
        else:
            noisy = len(done.rounds) - (release.family in TABLE_FAMILIES)  # round 0 is a seed
            assert noisy == len(planned), f"{noisy} rounds run, and {len(planned)} are announced"
        assert sum(announced.elements()) >= release.rho, "announces less than it spends"


def check_fusion(kind: Kind, fits: Any) -> None:
    """Charges fall from the first table on only if later tables use it; so with `learns`."""
    study = fits[0].study
    (planned,) = plan_study(study).releases
    charged = [charge for charge in planned.charges if charge]
    assert charged == [fit.release.rho for fit in fits], "a fit spends another rho than is charged"
    (declared,) = study.batches or ()
    if declared.family not in TABLE_FAMILIES or len(fits) < 2:
        assert len(set(charged)) == 1, "charges of one table differ"
        return
    first, last = fits[0], fits[-1]
    if not declared.fused:
        assert len(set(charged)) == 1, "charges differ, and no table uses the ones before"
    earlier = {"number": last.context.number, "earlier": _earlier(first)}
    for announced, name, given in (
        (declared.fused, "tables before", earlier),
        (kind.data_set.learns, "panels", {"known": _known()}),
    ):
        alone, told = (_sample(last, **context) for context in ({}, given))
        if announced:
            assert alone != told, f"announces that it uses {name}; a fit does not"
        else:
            assert alone == told, f"a fit uses {name}, which is not announced"


def _earlier(fit: Any) -> tuple[Any, ...]:
    from stream_dp.batch.synthesizer import EarlierTable

    return (EarlierTable(fit.context.number, fit.release, tuple(fit.rounds)),)


def _known() -> tuple[Known, ...]:
    return (Known((0, 1), np.array([[9.0, -9.0], [-9.0, 9.0]]), 1e-6),)


def _sample(fit: Any, **context: Any) -> bytes:
    release = fit.release.model_copy(update={"rho": Fraction(1, 50)})
    return pickle.dumps(deed(fit, release, deaf=False, **context).model.sample(7))


def check_keys(kind: Kind, fits: Any) -> None:
    """A study file may have the settings and no other key, and each of them changes something."""
    settings = kind.data_set.settings  # type: ignore[union-attr]
    for key in optional_keys(kind):
        assert key in CHANGES, f"give `{key}` another value in CHANGES"
        besides, value = _change(kind, key)
        if key not in settings:
            assert refused(kind, key), f"accepts `{key}`, which is none of its settings"
        elif key not in ELSEWHERE and (kind, key) != LOCATED:
            usual = changed(kind, **{k: v for k, v in besides.items() if v is not None})
            other = changed(kind, **besides, **{key: value})
            assert outcome(usual, fits[-1]) != outcome(other, fits[-1]), f"`{key}` changes nothing"


def _change(kind: Kind, key: str) -> Any:
    """What a key stands beside, and another value of it."""
    return ({}, "locations") if (kind, key) == LOCATED else CHANGES[key]


def refused(kind: Kind, key: str) -> bool:
    """Whether a study file cannot have a key."""
    besides, value = _change(kind, key)
    try:
        changed(kind, **besides, **{key: value})
    except UserError as error:
        return any(f".{key}: " in line for line in error.lines)
    return False


def outcome(study: Study, fit: Any) -> Any:
    """Costs, columns and what is measured."""
    (declared,) = study.batches or ()
    release = declared.model_copy(update={"rho": Fraction(1, 2)})
    tables = declared.family in TABLE_FAMILIES
    columns = column_values(study, declared) if tables else None
    done = deed(replace(fit, study=study), release, models=True)
    return declared.costs(3), columns, done.models, done.rounds


DEEDS: dict[str, Callable[[Kind, Any], None]] = {
    "titles, done": check_titles,
    "phases, done": check_phases,
    "charges, done": check_fusion,
    "keys, done": check_keys,
}
