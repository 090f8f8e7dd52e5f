"""Releases: the certificate and the bytes that are published, decided once.

A release is a message (log/message.py): its manifest is the certificate, its parts are Arrow
IPC streams, `panel/i` with slices of the panel's new columns (a uint8 code column for each
period), `measurements/i` with the noisy answers (query, value, variance, standard_error) and
`estimates/i` with unbiased answers computed from them (query, value, standard_error).
Everything in it is a function of noisy values and of the study's declaration.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from . import __version__
from .continual import AnyMechanism, Step
from .log.message import MOST_PART
from .panel import Symbols
from .privacy.zcdp import epsilon
from .study import Release, Study

TOPIC = "releases"
STUDY_TYPE = "stream-dp.study"
RELEASE_TYPE = "stream-dp.release"


def _fraction(value: Any) -> Fraction:
    try:
        return Fraction(value)
    except (TypeError, ArithmeticError):
        raise ValueError("not a number") from None


Exact = Annotated[Fraction, BeforeValidator(_fraction), PlainSerializer(str, return_type=str)]

_RELATION = {
    "add_remove": "one {unit}, with its whole history, is added or removed",
    "replace_one": "one {unit}'s whole history is replaced by any other",
    "replace_in_place": "one {unit}'s own attributes change, over the whole history; groups, their"
    " sizes and their attributes do not",
}
_STATED = {"name", "kind", "attribute", "rho"}  # stand in the certificate itself
SYSTEM_NOISE = "exact discrete Gaussian (OpenDP) from the operating system's entropy"
SEEDED_NOISE = "SEEDED SIMULATION: repeatable, NOT PRIVATE"


class Certificate(BaseModel):
    """What a release guarantees, and how it was made. rho: of this release at this period."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    type: Literal["stream-dp.release"] = "stream-dp.release"
    study: str
    study_hash: str
    release: str
    kind: str
    attribute: str
    period: str
    number: int
    horizon: int
    columns: tuple[str, ...]
    rows: int
    values: tuple[int | str, ...]
    mechanism: str
    parameters: dict[str, Any]
    unit: str
    neighbours: str
    guarantee: str
    invariants: str
    rho: Exact
    rho_spent: Exact
    rho_total: Exact
    delta: Exact
    epsilon_spent: str
    epsilon_total: str
    padding: int
    noise_variance: Exact
    noise: str
    notes: dict[str, int]
    code_version: str


def relation_words(study: Study) -> str:
    """The guarantee in a sentence."""
    change = _RELATION[study.neighbours].format(unit=study.unit)
    return (
        f"All releases of the study together are rho-zCDP where {change}. It holds for one "
        f"{study.unit} at a time, over all periods."
    )


def invariants_words(study: Study) -> str:
    """What is published exactly, and so not protected."""
    if study.neighbours == "add_remove":
        return "none"
    words = f"the number of {study.unit}s, declared as {study.size}"
    if study.groups is None:
        return words
    unit = study.groups.unit
    which = "which" if study.groups.roles is None else "which in which role"
    return (
        f"{words}; the {unit}s: how many there are, who belongs to {which}, their sizes and their"
        f" attributes, over the whole history. Of these only the number of {unit}s is published"
        " exactly"
    )


def certificate(
    study: Study,
    declared: Release,
    mechanism: AnyMechanism,
    number: int,
    step: Step,
    rho: Fraction,
    spent: Fraction,
    simulated: bool,
) -> Certificate:
    """The certificate of a step at period `number` that cost `rho`, with `spent` after it."""
    labels = study.periods.labels[:number]
    return Certificate(
        study=study.name,
        study_hash=study.hash,
        release=declared.name,
        kind=declared.kind,
        attribute=study.alphabet(declared).name,
        period=labels[-1],
        number=number,
        horizon=study.periods.count,
        columns=labels[len(labels) - step.columns.shape[1] :],
        rows=step.columns.shape[0],
        values=mechanism.values,
        mechanism=mechanism.title,
        parameters=declared.model_dump(mode="json", exclude_none=True, exclude=_STATED),
        unit=study.unit,
        neighbours=study.neighbours,
        guarantee=relation_words(study),
        invariants=invariants_words(study),
        rho=rho,
        rho_spent=spent,
        rho_total=study.rho,
        delta=study.delta,
        epsilon_spent=str(epsilon(spent, study.delta)),
        epsilon_total=str(epsilon(study.rho, study.delta)),
        padding=mechanism.padding,
        noise_variance=mechanism.worst_variance,
        noise=SEEDED_NOISE if simulated else SYSTEM_NOISE,
        notes=step.notes,
        code_version=__version__,
    )


def parts(step: Step, columns: tuple[str, ...]) -> list[tuple[str, bytes]]:
    """The step's panel columns and measurements as named Arrow streams, each within a record."""
    rows = max(1, (MOST_PART - 65_536) // len(columns))
    measured, told = step.measurements, step.estimates
    raw = pa.table(
        {
            "query": pa.array(measured.queries, pa.string()),
            "value": pa.array(measured.values, pa.int64()),
            "variance": pa.array([str(v) for v in measured.variances], pa.string()),
            "standard_error": pa.array(measured.standard_errors(), pa.float64()),
        }
    )
    answers = pa.table(
        {
            "query": pa.array(told.queries, pa.string()),
            "value": pa.array(told.values, pa.float64()),
            "standard_error": pa.array(told.errors, pa.float64()),
        }
    )
    return [
        *(
            (f"panel/{i}", _stream(_columns(step.columns[start : start + rows], columns)))
            for i, start in enumerate(range(0, max(1, step.columns.shape[0]), rows))
        ),
        *_slices("measurements", raw),
        *_slices("estimates", answers),
    ]


def _slices(name: str, table: pa.Table) -> list[tuple[str, bytes]]:
    longest = max(len(query.encode()) for query in table["query"].to_pylist())
    some = max(1, (MOST_PART - 65_536) // (longest + 200))
    starts = range(0, max(1, table.num_rows), some)
    return [(f"{name}/{i}", _stream(table.slice(start, some))) for i, start in enumerate(starts)]


def _columns(symbols: Symbols, labels: tuple[str, ...]) -> pa.Table:
    return pa.table({x: pa.array(symbols[:, i], pa.uint8()) for i, x in enumerate(labels)})


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def read_columns(found: tuple[tuple[str, bytes], ...]) -> tuple[Symbols, tuple[str, ...]]:
    """The panel's new columns in a release's parts, (rows, new periods), and their labels."""
    table = _table(found, "panel")
    columns: list[NDArray[np.uint8]] = [c.to_numpy() for c in table.columns]
    return np.stack(columns, axis=1), tuple(table.column_names)


def read_measurements(found: tuple[tuple[str, bytes], ...]) -> pa.Table:
    """The noisy answers in a release's parts: query, value, variance, standard_error."""
    return _table(found, "measurements")


def read_estimates(found: tuple[tuple[str, bytes], ...]) -> pa.Table:
    """The unbiased answers in a release's parts: query, value, standard_error."""
    return _table(found, "estimates")


def _table(found: tuple[tuple[str, bytes], ...], name: str) -> pa.Table:
    streams = [data for part, data in found if part.startswith(f"{name}/")]
    return pa.concat_tables([pa.ipc.open_stream(data).read_all() for data in streams])
