"""Every setting of a data set of groups: what it changes, and what a certificate says of it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from kit.small_groups import hierarchy as small

from stream_dp.batch import kinds
from stream_dp.batch.data.domain import Column, Domain, Hierarchy, Roles
from stream_dp.batch.groups.workload import groups_plan
from stream_dp.batch.rounds import adaptive_fit
from stream_dp.batch.rounds.phases import NoisyAnswers
from stream_dp.batch.synthesizer import FitContext, MemoryTranscript
from stream_dp.privacy.noise import SeededNoise
from stream_dp.study.families import Family, kinds_of
from stream_dp.study.group_releases import BatchRelease
from stream_dp.study.table_releases import TableRelease

BATCH_KINDS = kinds_of(Family.HOUSEHOLDS)

# Another value of every setting, which a kind that uses it cannot overlook.
CHANGES: dict[str, Any] = {
    "rounds": 2,
    "per_round": 2,
    "rows": 7,
    "ways": 2,
    "relations": Fraction(1, 3),
    "rules": ("head.a >= 1",),
}
# Changes fits of later months, not the one here: `tests/batch/test_household_months.py`.
LATER = {"fuse": False}
ROLES = Roles(column="role", head="head", spouse="spouse", child="child", children=1)
FAMILY = Domain(
    (Column("region", ("n", "s")),),
    (Column("role", ("head", "spouse", "child")), Column("a", (0, 1)), Column("b", ("x", "y"))),
    3,
    ROLES,
)
COUPLES = Hierarchy(
    FAMILY, np.array([[0, 1], [1, 0]]), np.array([[0, 0, 1], [1, 1, 0], [0, 1, 1]]), [0, 0, 1]
)
ROOMY = Domain(
    (Column("region", ("n", "s")),), (Column("a", (0, 1)), Column("b", (0, 1))), 3
)  # more candidates than rounds


def release(kind: str, **settings: Any) -> BatchRelease:
    return BatchRelease(
        name="r", kind=kind, attributes=("a", "b"), rho=Fraction(1), every=1, **settings
    )


class Begun(Exception):
    """A fit has begun, with this method; nothing is measured."""


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The function that says of a declaration what its fit begins with, as text."""

    def stop(data: Hierarchy, method: adaptive_fit.AdaptiveMethod, context: FitContext) -> None:
        raise Begun(method)

    def begun(declared: BatchRelease, data: Hierarchy) -> str:
        module = import_module(f"stream_dp.batch.{declared.data_set.fit.partition(':')[0]}")
        context = FitContext(SeededNoise(1), MemoryTranscript())
        for fitting in (module, groups_plan):
            monkeypatch.setattr(fitting, "fit_adaptively", stop, raising=False)
        try:
            fitted = kinds.load_synthesizer(declared.kind)(data, declared, context)
        except Begun as error:
            (method,) = error.args
            return "\n".join(first_state(method))
        return str((fitted.measurements, fitted.sample(3).people.tolist()))

    return begun


def first_state(method: adaptive_fit.AdaptiveMethod) -> Iterator[str]:
    """Phases, queries and the first model."""
    number = 0
    while (phase := method.phase(number, NoisyAnswers.none())) is not None:
        yield str(phase)
        number += 1
    yield str(method.workload.texts(np.arange(len(method.workload.queries))))
    yield str(method.workload.starts.tolist())
    model: Any = method.start(1)
    yield str({name: array.shape for name, array in getattr(model, "params", {}).items()})
    yield str((getattr(model, "settings", None), getattr(model, "passes", None)))
    yield str(np.shape(getattr(model, "weights", None)))


def test_every_setting_is_looked_at() -> None:
    looked_at = CHANGES.keys() | LATER.keys()
    assert looked_at == BatchRelease.model_fields.keys() - TableRelease.model_fields.keys()


LOOKED_AT = [(kind, small(domain=ROOMY)) for kind in BATCH_KINDS] + [
    (kind, COUPLES) for kind in BATCH_KINDS if kind != "independent"
]


@pytest.mark.parametrize(("kind", "data"), LOOKED_AT)
def test_a_certificate_states_what_a_kind_uses_and_nothing_else(
    kind: str, data: Hierarchy, begin: Any
) -> None:
    roles = data.domain.roles is not None
    plain = release(kind)
    default = begin(plain, data)
    stated = plain.settings(roles)
    for name, value in CHANGES.items():
        changed = release(kind, **{name: value})
        matters = begin(changed, data) != default
        assert matters == (name in stated), name
        assert changed.settings(roles).keys() == stated.keys()
        assert (changed.settings(roles) != stated) == matters, name
        if matters:
            as_json = {"relations": str, "rules": list}.get(name, type(value))
            assert changed.settings(roles)[name] == as_json(value)
    assert begin(release(kind, **stated), data) == default  # defaults are stated, as they are


@pytest.mark.parametrize("kind", BATCH_KINDS)
def test_a_kind_declares_the_settings_that_it_states(kind: str) -> None:
    declared = {*release(kind).data_set.settings}
    later = {name: value for name, value in LATER.items() if name in declared}
    assert declared == release(kind, **later).settings(True).keys()
