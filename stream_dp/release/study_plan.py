"""The plan in message 0: by release, the charges by period and the statements of certificates.

A certificate repeats its release's statements, so that everybody can compare both as texts. The
plan follows from the study; `checked_plan` computes it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from stream_dp.continual.mechanism_interface import PanelError
from stream_dp.continual.mechanisms import AnyMechanism, mechanism
from stream_dp.log.message import Message, canonical, split_part
from stream_dp.privacy.gaussian_epsilon import gaussian_epsilon
from stream_dp.study import DataSetRelease, Family, Release, SizesRelease, Study, TableRelease
from stream_dp.study.families import PANEL_FAMILIES, TABLE_FAMILIES, Registry
from stream_dp.study.noisy_gate import noisy_gate

from .certificate import Exact, base_certificate, refusal
from .published_panels import bias_words, panel_noise, stated_errors
from .published_sizes import noise_words
from .published_tables import ColumnValues, column_values

PLAN = "plan"  # the part of message 0
# What a release adds to its plan; and the version that wrote it.
_OF_A_RELEASE = {
    "period",
    "number",
    "rho",
    "rho_spent",
    "epsilon_spent",
    "least_epsilon_spent",
    "gate",
    "fused_with",
    "code_version",
}
# The factors of a mechanism are computed in floating point, with other last digits elsewhere.
_CLOSE = Fraction(1, 10**6)
_NUMBERS = {"noise_variance", "padding", "least_variance", "least_epsilon_total"}
_SIMULATED = "panel_errors"
LEAST_VARIANCE = "least_variance"
_MOST_VARIANCE = 10**30


class ReleasePlan(BaseModel):
    """The plan of a release.

    charges: rho by the label of the period, of periods that have a charge.
    mechanisms: the possible titles; noisy numbers may choose.
    states: fields of every certificate with their values, in JSON.
    fused: whether each table may use the measurements of the tables before it.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    charges: dict[str, Exact]
    mechanisms: tuple[str, ...]
    states: dict[str, Any]
    fused: Annotated[bool, Field(strict=True)] = False


StudyPlan = Mapping[str, ReleasePlan]  # by release
_PLAN = TypeAdapter(dict[str, ReleasePlan])
_COLUMNS = TypeAdapter(ColumnValues)


def plan_parts(plan: StudyPlan) -> list[tuple[str, bytes]]:
    """The parts of message 0."""
    return split_part(PLAN, canonical(_PLAN.dump_python(dict(plan), mode="json")))


def read_plan(first: Message) -> StudyPlan:
    """The plan in message 0. Raises Inconsistent."""
    try:
        return _PLAN.validate_python(json.loads(first.part(PLAN)))
    except (ValidationError, ValueError, RecursionError):
        raise refusal(first, "its plan cannot be read") from None


def study_plan(
    study: Study,
    mechanisms: Mapping[str, AnyMechanism],
    errors: Mapping[str, Sequence[PanelError]],
    least_variance: Fraction | None,
) -> StudyPlan:
    """The plan that follows from a study.

    mechanisms: of the panels, by release
    errors: to expect of the panels' own answers, by release
    least_variance: of the certificates
    """
    panels = {
        declared.name: _panel(
            study, declared, mechanisms[declared.name], errors.get(declared.name, ())
        )
        for declared in study.releases
    }
    plans = panels | {d.name: _DATA_SETS[d.family](study, d) for d in study.batches or ()}
    if least_variance is None:
        return plans
    proved = {
        LEAST_VARIANCE: str(least_variance),
        "least_epsilon_total": str(gaussian_epsilon(study.rho, study.delta, least_variance)),
    }
    return {
        name: one.model_copy(update={"states": {**one.states, **proved}})
        for name, one in plans.items()
    }


def checked_plan(study: Study, first: Message) -> StudyPlan:
    """The plan in message 0. Raises Inconsistent unless it follows from the study.

    The simulated errors of panels are taken as they are stated; all certificates repeat them. So is
    the least variance of a study with data sets, which `verify` compares with the operator's plan.
    """
    stated = read_plan(first)
    mechanisms = {r.name: mechanism(study, r) for r in study.releases}
    least = (
        _stated_variance(stated)
        if study.batches
        else min(panel_variances(study, mechanisms), default=None)
    )
    expected = study_plan(study, mechanisms, {}, least)
    if {*stated} != {*expected}:
        raise refusal(first, "its plan has not the releases of its study")
    for name, plan in expected.items():
        fault = _difference(stated[name], plan)
        if fault is not None:
            raise refusal(first, f"its plan of {name}: {fault} is not what follows from the study")
    return stated


def panel_variances(study: Study, mechanisms: Mapping[str, AnyMechanism]) -> Iterator[Fraction]:
    """The variances of all noise of panels and gates in counts that somebody changes."""
    for chosen in mechanisms.values():
        for t in range(1, chosen.horizon + 1):
            yield from (variance for variance, size in chosen.demand(t) if size)
    if (gate := noisy_gate(study)) is not None:
        yield gate.variance


def least_variances(plan: StudyPlan) -> set[object]:
    """The statements of a plan's releases about the least variance; None for no statement."""
    return {
        str(one.states[LEAST_VARIANCE]) if LEAST_VARIANCE in one.states else None
        for one in plan.values()
    }


def _stated_variance(plan: StudyPlan) -> Fraction | None:
    """A possible least variance, or None."""
    stated = map(_number, least_variances(plan))
    return min((number for number in stated if 0 < number < _MOST_VARIANCE), default=None)


def _difference(stated: ReleasePlan, expected: ReleasePlan) -> str | None:
    """The name of a differing field, or None."""
    if {*stated.charges} != {*expected.charges} or not all(
        _close(stated.charges[label], rho) for label, rho in expected.charges.items()
    ):
        return "charges"
    for name in ("mechanisms", "fused"):
        if getattr(stated, name) != getattr(expected, name):
            return name
    for name in {**expected.states, **stated.states}.keys() - {_SIMULATED}:
        if name not in stated.states or name not in expected.states:
            return name
        pair = stated.states[name], expected.states[name]
        if pair[0] != pair[1] and not (name in _NUMBERS and _close(*map(_number, pair))):
            return name
    return None


def _number(value: object) -> Fraction:
    try:
        return Fraction(str(value)[:2002])
    except (ValueError, ZeroDivisionError):
        return Fraction(-1)


def _close(stated: Fraction, expected: Fraction) -> bool:
    return abs(stated - expected) <= _CLOSE * expected


def _states(study: Study, declared: Release | DataSetRelease, **own: object) -> dict[str, object]:
    """The statements of all certificates of a release. own: those of its family."""
    base = base_certificate(
        study, declared, mechanism="", number=1, rho=Fraction(0), spent=Fraction(0), simulated=False
    )
    fields = base.model_dump(mode="json", exclude={*_OF_A_RELEASE, "mechanism"})
    return {**fields, **own}


def _panel(
    study: Study, declared: Release, chosen: AnyMechanism, errors: Sequence[PanelError]
) -> ReleasePlan:
    labels, (first, _) = study.periods.labels, study.span(declared)
    return ReleasePlan(
        charges={labels[i]: rho for i, rho in enumerate(chosen.charges, first - 1) if rho},
        mechanisms=(chosen.title,),
        states=_states(
            study,
            declared,
            attribute=study.alphabet(declared).name,
            values=list(chosen.values),
            padding=chosen.padding,
            noise_variance=str(chosen.worst_variance),
            noise=panel_noise(chosen),
            panel_bias=bias_words(study, declared, chosen),
            panel_errors=stated_errors(errors),
        ),
    )


def _data_sets(study: Study, declared: DataSetRelease, **own: object) -> ReleasePlan:
    """Every data set is charged at the close of its period."""
    labels = study.periods.labels
    return ReleasePlan(
        charges={labels[n - 1]: data_set.rho for n, data_set in study.schedule(declared).items()},
        mechanisms=declared.titles,
        states=_states(study, declared, **own),
        fused=declared.fused,
    )


def _table(study: Study, declared: TableRelease) -> ReleasePlan:
    columns = _COLUMNS.dump_python(column_values(study, declared), mode="json")
    return _data_sets(study, declared, columns=columns)


def _sizes(study: Study, declared: SizesRelease) -> ReleasePlan:
    assert study.places is not None  # a study with sizes and without places contradicts itself
    noise = noise_words(declared, simulated=False)
    regions = list(study.places.regions)
    return _data_sets(study, declared, regions=regions, largest=declared.largest, noise=noise)


_DATA_SETS: Registry[Family, Callable[..., ReleasePlan]] = Registry(
    "plans of data sets",
    tuple(family for family in Family if family not in PANEL_FAMILIES),
    {**dict.fromkeys(TABLE_FAMILIES, _table), Family.SIZES: _sizes},
)
