"""What a kind of release owes, as checks that name the part that is missing or wrong.

Each check takes a kind. `CHECKS` has the checks by part, in the order in which `first_fault` runs
them.
"""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import study_keys

import stream_dp
from stream_dp.batch.kinds import load_synthesizer, planned_phases, planned_titles
from stream_dp.batch.synthesizer import FitContext, MemoryTranscript
from stream_dp.client import PublicLog
from stream_dp.log.memory import MemoryLog
from stream_dp.planning.plan import plan_study
from stream_dp.planning.study_summary import summary
from stream_dp.release.public_reader import READERS
from stream_dp.services.evaluate.table_evaluations import TABLE_JUDGES
from stream_dp.services.monitor.groups_figures import any_figures
from stream_dp.services.monitor.record_rows import certificate_rows
from stream_dp.services.monitor.release_figures import release_figures
from stream_dp.services.releaser import worker
from stream_dp.services.releaser.job_families import JOB_FAMILIES
from stream_dp.study import Study
from stream_dp.study.families import DATA_SET_FAMILIES, PANEL_FAMILIES, Family, Kind
from stream_dp.study.study_text import study_text
from stream_dp.studyfile import parse_study

from .kind_deeds import DEEDS
from .kinds_of_releases import run_to_its_end, study_of
from .small_groups import Never

FOLDER = Path(stream_dp.__file__).parent
NAME = "answers"


def is_data_set(kind: Kind) -> bool:
    return kind.family in DATA_SET_FAMILIES


def declared_study(kind: Kind) -> Study:
    return parse_study(study_of(kind))


@dataclass(frozen=True)
class Fit:
    """A fit as a worker made it: its arguments, the recorded rounds and what is published."""

    study: Study
    release: Any
    tables: Any
    context: FitContext
    rounds: list[bytes]
    parts: list[tuple[str, bytes]]


@cache
def run(kind: Kind) -> tuple[MemoryLog, tuple[Fit, ...]]:
    """The public log of a tiny study of this kind, and the fits of its data sets."""
    fits = []

    def fitted(study: Study, release: Any, tables: Any, context: FitContext) -> Any:
        family = JOB_FAMILIES[release.family]
        provenance, parts = family.fitted(study, release, tables, context)
        rounds = list(context.transcript.rounds())
        fits.append(Fit(study, release, tables, context, rounds, parts))
        return provenance, parts

    with pytest.MonkeyPatch.context() as patch:
        recording = dict.fromkeys(DATA_SET_FAMILIES, SimpleNamespace(fitted=fitted))
        patch.setattr(worker, "JOB_FAMILIES", recording)
        log = run_to_its_end(kind)
    return log, tuple(fits)


def check_about(kind: Kind) -> None:
    about = kind.about
    assert about[:1].isupper(), "a sentence for the reference"
    assert about.endswith("."), "a sentence for the reference"


def check_title(kind: Kind) -> None:
    assert kind.data_set is None or kind.data_set.mechanism, "the mechanism's name for certificates"


def check_fit(kind: Kind) -> None:
    if is_data_set(kind):
        assert callable(load_synthesizer(kind))


def check_study_file(kind: Kind) -> None:
    """A study file may have the kind, and says the same when it is written again."""
    study = declared_study(kind)
    if study.places is None:
        again = parse_study(tomllib.loads(study_text(study), parse_float=Decimal))
        assert again.hash == study.hash
    declared = study.declared(NAME)
    assert declared is not None
    assert declared.kind is kind
    assert declared.family is kind.family


def check_relations(kind: Kind) -> None:
    synthesizer = kind.data_set
    assert synthesizer is None or synthesizer.relations, "relations under which its cost is proved"


def check_settings(kind: Kind) -> None:
    if is_data_set(kind):
        (release,) = declared_study(kind).batches or ()
        keys = type(release).model_fields.keys()
        assert {*release.data_set.settings} <= keys, "settings are keys of its declaration"


def check_charges(kind: Kind) -> None:
    """The planned charges add up to rho exactly, and so do the phases of each data set."""
    study = declared_study(kind)
    (planned,) = plan_study(study).releases
    if not is_data_set(kind):
        assert sum(planned.charges) == planned.release.rho
        return
    tables = sum(charge > 0 for charge in planned.charges)
    assert sum(planned.charges) == tables * planned.release.rho
    phases = planned_phases(study, planned.release)
    assert sum((phase.rho for phase in phases), Fraction(0)) == planned.release.rho
    assert summary(plan_study(study)).text(long=True)


def check_certificate(kind: Kind) -> None:
    """What is published is read again, and says what was announced."""
    log, _ = run(kind)
    public = PublicLog(log)
    assert public.verify()
    for release in public.published:
        certificate, family = release.certificate, kind.family
        assert certificate.kind == kind
        assert isinstance(certificate, READERS[family].certificate)
        assert certificate.published_rows > 0
        assert any(certificate.synthetic_rows)
        if is_data_set(kind):
            (declared,) = public.study.batches or ()
            announced = planned_titles(public.study, declared)
            assert certificate.mechanism in announced
            assert {*announced} <= {*declared.titles}


def check_replay(kind: Kind) -> None:
    """A replayed transcript gives the same bytes and draws nothing; so do a panel's steps."""
    log, fits = run(kind)
    if not is_data_set(kind):
        assert PublicLog(run_to_its_end(kind)).head == PublicLog(log).head
        return
    assert fits
    for fit in fits:
        assert len(fit.rounds) > 1, "rounds are recorded before they are used"
        context = FitContext(
            Never(),
            MemoryTranscript(list(fit.rounds)),
            known=fit.context.known,
            number=fit.context.number,
            earlier=fit.context.earlier,
        )
        family = JOB_FAMILIES[fit.release.family]
        _, parts = family.fitted(fit.study, fit.release, fit.tables, context)
        assert context.transcript.rounds() == fit.rounds
        assert parts == fit.parts


def check_answers(kind: Kind) -> None:
    """Its examples of queries have answers with an error."""
    public = PublicLog(run(kind)[0])
    queries = public.queries(NAME)
    assert queries
    answers = []
    for query in queries:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answers.append(public.answer(NAME, query))
    errors = [answer.standard_error for answer in answers if answer.standard_error is not None]
    assert errors, "no answer has an error"
    assert min(errors) > 0, "an answer without noise: its measurements have another form"


def check_page(kind: Kind) -> None:
    """Its figures, and its certificate as a table."""
    public = PublicLog(run(kind)[0])
    if is_data_set(kind):
        assert any_figures(public, NAME, None).marginals
    else:
        figures = release_figures(public, NAME)
        assert figures.small or figures.large
    assert dict(certificate_rows(public, public.published[-1]))["Mechanism"]


def check_judge(kind: Kind) -> None:
    family = kind.family
    assert family in {*TABLE_JUDGES, *PANEL_FAMILIES, Family.SIZES}


def check_reference(kind: Kind) -> None:
    assert f"| `{kind}` | {kind.family} | {kind.about} |" in study_keys.kinds_table()


def check_deed(check: Callable[[Kind, Any], None], kind: Kind) -> None:
    """What is announced is what a fit does."""
    if is_data_set(kind):
        check(kind, run(kind)[1])


CHECKS: dict[str, Callable[[Kind], None]] = {
    "about": check_about,
    "title": check_title,
    "relations": check_relations,
    "fit": check_fit,
    "study file": check_study_file,
    "settings": check_settings,
    "planned": check_charges,
    "certificate": check_certificate,
    "replay": check_replay,
    "answers": check_answers,
    "page": check_page,
    "judge": check_judge,
    "reference": check_reference,
    **{part: partial(check_deed, check) for part, check in DEEDS.items()},
}


def first_fault(kind: Kind) -> tuple[str, str] | None:
    """The first part that is missing or wrong, and what its check says; None for a whole kind."""
    for part, check in CHECKS.items():
        try:
            check(kind)
        except Exception as error:  # whatever a missing part leads to
            return part, str(error)
    return None


def first_fault_of(name: str) -> tuple[str, str] | None:
    """The first fault of the kind with this name."""
    return first_fault(Kind(name))
