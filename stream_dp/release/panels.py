"""Releases: the certificate and the bytes that are published, decided once.

A release is a message (log/message.py): its manifest is the certificate, its parts are Arrow
IPC streams, `panel/i` with slices of the panel's new columns (a uint8 code column for each
period), `measurements/i` with the noisy answers (query, value, variance, standard_error) and
`estimates/i` with unbiased answers computed from them (query, value, standard_error).
Everything in it is a function of noisy values and of the study's declaration.
"""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from stream_dp import __version__
from stream_dp.continual import AnyMechanism, Step
from stream_dp.log.message import MAX_PART
from stream_dp.panel import Symbols
from stream_dp.privacy.zcdp import epsilon
from stream_dp.study import Release, Study

from .arrow import NamedParts, ipc_stream, read_table

TOPIC = "releases"
STUDY_TYPE = "stream-dp.study"
RELEASE_TYPE = "stream-dp.release"


MEASUREMENTS = pa.schema(
    {
        "query": pa.string(),
        "value": pa.int64(),
        "variance": pa.string(),
        "standard_error": pa.float64(),
    }
)
ESTIMATES = pa.schema({"query": pa.string(), "value": pa.float64(), "standard_error": pa.float64()})


def _fraction(value: Any) -> Fraction:
    """What `str` makes of a Fraction. Of few digits: 1e99999999 would fill the memory."""
    if isinstance(value, Fraction):
        return value
    if not re.fullmatch(r"[0-9]{1,1000}(/[0-9]{1,1000})?", str(value)[:2002]):
        raise ValueError("not a number")
    try:
        found = Fraction(str(value))
    except ZeroDivisionError:
        raise ValueError("not a number") from None
    if found > 10**30:
        raise ValueError("not a number")
    return found


def _small(value: Any) -> Any:
    """Details, as they stand in a manifest: no more than can be looked at."""
    if len(json.dumps(value)) > 20_000:
        raise ValueError("too long")
    return value


Exact = Annotated[Fraction, BeforeValidator(_fraction), PlainSerializer(str, return_type=str)]
Details = Annotated[dict[str, Any], BeforeValidator(_small)]
Text = Annotated[str, Field(max_length=10_000)]
Epsilon = Annotated[str, Field(pattern=r"^[0-9]{1,30}(\.[0-9]{1,12})?$")]
WholeNumber = Annotated[int, Field(ge=0, le=10**12, strict=True)]

_RELATION = {
    "add_remove": "one {unit}, with its whole history, is added or removed",
    "replace_one": "one {unit}'s whole history is replaced by any other",
    "replace_in_place": "one {unit}'s own attributes change, over the whole history; groups, their"
    " sizes and their attributes do not",
}
_IN_CERTIFICATE = {"name", "kind", "attribute", "rho"}  # stand in the certificate itself
SYSTEM_NOISE = "exact discrete Gaussian (OpenDP) from the operating system's entropy"
SEEDED_NOISE = "SEEDED SIMULATION: repeatable, NOT PRIVATE"


class PanelCertificate(BaseModel):
    """What a release guarantees, and how it was made. rho: of this release at this period.

    panel_bias: how the panel's own answers are biased, in words; not in releases of older versions.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    type: Literal["stream-dp.release"] = "stream-dp.release"
    study: Text
    study_hash: Text
    release: Text
    kind: Text
    attribute: Text
    period: Text
    number: WholeNumber
    horizon: WholeNumber
    columns: tuple[str, ...]
    rows: WholeNumber
    values: tuple[int | str, ...]
    mechanism: Text
    parameters: Details
    unit: Text
    neighbours: Text
    guarantee: Text
    invariants: Text
    rho: Exact
    rho_spent: Exact
    rho_total: Exact
    delta: Exact
    epsilon_spent: Epsilon
    epsilon_total: Epsilon
    padding: WholeNumber
    noise_variance: Exact
    noise: Text
    notes: Annotated[dict[str, int], BeforeValidator(_small)]
    code_version: Text
    panel_bias: Text | None = None


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


def bias_words(study: Study, declared: Release, mechanism: AnyMechanism) -> str:
    """How the panel's own answers are biased, in one line."""
    late = (
        f"; no {study.unit} that first reports after the first release has a row, so the number of"
        " rows is a noisy one of the first release"
    )
    return f"{mechanism.bias}{late * study.grows(declared)}; use 'estimate'"


def panel_certificate(
    study: Study,
    declared: Release,
    mechanism: AnyMechanism,
    number: int,
    step: Step,
    rho: Fraction,
    spent: Fraction,
    simulated: bool,
) -> PanelCertificate:
    """The certificate of a step at period `number` that cost `rho`, with `spent` after it."""
    labels = study.periods.labels[:number]
    return PanelCertificate(
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
        parameters=declared.model_dump(mode="json", exclude_none=True, exclude=_IN_CERTIFICATE),
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
        panel_bias=bias_words(study, declared, mechanism),
    )


def panel_parts(step: Step, columns: tuple[str, ...]) -> list[tuple[str, bytes]]:
    """The step's panel columns and measurements as named Arrow streams, each within a record."""
    rows = max(1, (MAX_PART - 65_536) // len(columns))
    measured, told = step.measurements, step.estimates
    raw = pa.table(
        {
            "query": measured.queries,
            "value": measured.values,
            "variance": [str(v) for v in measured.variances],
            "standard_error": measured.standard_errors(),
        },
        MEASUREMENTS,
    )
    answers = pa.table(
        {"query": told.queries, "value": told.values, "standard_error": told.errors}, ESTIMATES
    )
    return [
        *(
            (f"panel/{i}", ipc_stream(_columns(step.columns[start : start + rows], columns)))
            for i, start in enumerate(range(0, max(1, step.columns.shape[0]), rows))
        ),
        *_slices("measurements", raw),
        *_slices("estimates", answers),
    ]


def _slices(name: str, table: pa.Table) -> list[tuple[str, bytes]]:
    longest = max(len(query.encode()) for query in table["query"].to_pylist())
    some = max(1, (MAX_PART - 65_536) // (longest + 200))
    starts = range(0, max(1, table.num_rows), some)
    return [(f"{name}/{i}", ipc_stream(table.slice(start, some))) for i, start in enumerate(starts)]


def _columns(symbols: Symbols, labels: tuple[str, ...]) -> pa.Table:
    return pa.table({x: pa.array(symbols[:, i], pa.uint8()) for i, x in enumerate(labels)})


def read_columns(found: NamedParts) -> tuple[Symbols, tuple[str, ...]]:
    """The panel's new columns in a release's parts, (rows, new periods), and their labels.

    Raises ValueError.
    """
    table = read_panel(found)
    columns: list[NDArray[np.uint8]] = [c.to_numpy() for c in table.columns]
    return np.stack(columns, axis=1), tuple(table.column_names)


def read_panel(found: NamedParts) -> pa.Table:
    """The panel's new columns in a release's parts, by label. Raises ValueError."""
    return read_table(found, "panel", _codes)


def _codes(schema: pa.Schema) -> bool:
    return len(schema) > 0 and set(schema.types) == {pa.uint8()}


def read_measurements(found: NamedParts) -> pa.Table:
    """The noisy answers in a release's parts: query, value, variance, standard_error.

    Raises ValueError.
    """
    return read_table(found, "measurements", MEASUREMENTS.equals)


def read_estimates(found: NamedParts) -> pa.Table:
    """The unbiased answers in a release's parts: query, value, standard_error.

    Raises ValueError.
    """
    return read_table(found, "estimates", ESTIMATES.equals)
