"""Published releases of panels: the certificate and the bytes.

A release is a message (log/message.py): its manifest is the certificate, its parts are Arrow
IPC streams, `panel/i` with slices of the panel's new columns (a uint8 code column for each
period), `measurements/i` with the noisy answers (query, value, variance, standard_error) and
`estimates/i` with unbiased answers computed from them (query, value, standard_error).
Everything in it is a function of noisy values and of the study's declaration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from stream_dp.continual.mechanism_interface import PanelError, Step
from stream_dp.panel import Panel, Symbols
from stream_dp.study import Periods, Release, Study

from .arrow_parts import NamedParts, measurement_table, read_table, sliced, sliced_answers
from .certificate import (
    Certificate,
    Charged,
    Exact,
    NumberDetails,
    Text,
    WholeNumber,
    base_certificate,
    gaussian_words,
)

if TYPE_CHECKING:
    from stream_dp.continual.mechanisms import AnyMechanism


STUDY_TYPE = "stream-dp.study"
RELEASE_TYPE = "stream-dp.release"

ESTIMATES = pa.schema({"query": pa.string(), "value": pa.float64(), "standard_error": pa.float64()})


class StatedPanelError(BaseModel):
    """The error to expect of a query that the panel itself answers, in people, simulated.

    query: the query.
    error: the root mean square error.
    bias: the mean error; 0 where chance explains it, or below a twentieth of the error.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    query: Text
    error: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    bias: Annotated[float, Field(allow_inf_nan=False)]


class PanelCertificate(Certificate):
    """The certificate of a release of a panel.

    type: `stream-dp.release`.
    attribute: the name of the attribute, or the names of a product joined by '&'.
    columns: the labels of the panel's new columns.
    rows: the number of the panel's rows.
    values: the value of each code.
    padding: the rows that were added to every count.
    noise_variance: the largest variance of a noisy answer.
    notes: public numbers about the step.
    panel_bias: how the panel's own answers are biased, in words.
    panel_errors: the errors of example queries, simulated on people of a public prior.
    """

    type: Literal["stream-dp.release"] = "stream-dp.release"
    attribute: Text
    columns: tuple[str, ...]
    rows: WholeNumber
    values: tuple[int | str, ...]
    padding: WholeNumber
    noise_variance: Exact
    notes: NumberDetails
    panel_bias: Text
    panel_errors: Annotated[tuple[StatedPanelError, ...], Field(max_length=100)] = ()

    @property
    def published_rows(self) -> int:
        """The rows of the table that is published."""
        return self.rows

    @property
    def synthetic_rows(self) -> tuple[int | None, int | None]:
        """The synthetic people of the panel, and no groups."""
        return self.rows, None


ADVICE = (
    "count in the panel if you like; 'estimate' answers the same question with less error and an"
    " interval"
)


def bias_words(study: Study, declared: Release, mechanism: AnyMechanism) -> str:
    """The bias of a panel's direct answers, in a line."""
    late = (
        f"; no {study.unit} that first reports after the first release has a row, because the noisy"
        " number of the first release is the number of rows"
    )
    return f"{mechanism.bias}{late * study.admits_late_entry(declared)}; {ADVICE}"


def panel_noise(mechanism: AnyMechanism) -> str:
    """The noise of all steps of a mechanism, with the samplers that draw it."""
    return gaussian_words(
        vector for t in range(1, mechanism.horizon + 1) for vector in mechanism.demand(t)
    )


def panel_certificate(
    study: Study,
    declared: Release,
    *,
    mechanism: AnyMechanism,
    step: Step,
    errors: Sequence[PanelError] = (),
    **charged: Unpack[Charged],
) -> PanelCertificate:
    """The certificate of a step of a mechanism. errors: to expect of the panel's own answers."""
    labels = study.periods.labels[: charged["number"]]
    base = base_certificate(study, declared, mechanism=mechanism.title, **charged)
    noise = base.noise if charged["simulated"] else panel_noise(mechanism)
    return PanelCertificate(
        **{**dict(base), "noise": noise},
        attribute=study.alphabet(declared).name,
        columns=labels[len(labels) - step.columns.shape[1] :],
        rows=step.columns.shape[0],
        values=mechanism.values,
        padding=mechanism.padding,
        noise_variance=mechanism.worst_variance,
        notes=step.notes,
        panel_bias=bias_words(study, declared, mechanism),
        panel_errors=tuple(StatedPanelError(**error) for error in stated_errors(errors)),
    )


def stated_errors(errors: Sequence[PanelError]) -> list[dict[str, Any]]:
    """The errors to expect of a panel's own answers as JSON."""
    return [{"query": e.query, "error": e.error, "bias": e.bias} for e in errors]


def panel_parts(step: Step, columns: tuple[str, ...]) -> list[tuple[str, bytes]]:
    """The step's panel columns and answers as named Arrow streams, all within a record."""
    estimates = pa.table(
        {
            "query": step.estimates.queries,
            "value": step.estimates.values,
            "standard_error": step.estimates.errors,
        },
        ESTIMATES,
    )

    def new_columns(start: int, count: int) -> pa.Table:
        # Not a slice of one table: Arrow would pad its buffers with the rows that follow.
        return _code_columns(step.columns[start : start + count], columns)

    return [
        *sliced("panel", step.columns.shape[0], len(columns), new_columns),
        *sliced_answers("measurements", measurement_table(step.measurements)),
        *sliced_answers("estimates", estimates),
    ]


def _code_columns(symbols: Symbols, labels: tuple[str, ...]) -> pa.Table:
    return pa.table({label: pa.array(symbols[:, i], pa.uint8()) for i, label in enumerate(labels)})


def read_columns(parts: NamedParts) -> tuple[Symbols, tuple[str, ...]]:
    """The panel's new columns in a release's parts, (rows, new periods), and their labels.

    Raises ValueError.
    """
    table = read_panel(parts)
    columns: list[NDArray[np.uint8]] = [column.to_numpy() for column in table.columns]
    return np.stack(columns, axis=1), tuple(table.column_names)


def read_panel(parts: NamedParts) -> pa.Table:
    """The panel's new columns in a release's parts, by label. Raises ValueError."""
    return read_table(parts, "panel", _are_codes)


def _are_codes(schema: pa.Schema) -> bool:
    return len(schema) > 0 and set(schema.types) == {pa.uint8()}


def read_estimates(parts: NamedParts) -> pa.Table:
    """The unbiased answers in a release's parts: query, value, standard_error.

    Raises ValueError.
    """
    return read_table(parts, "estimates", ESTIMATES.equals)


def long_tables(periods: Periods, panel: Panel, day: pa.DataType) -> Iterator[pa.Table]:
    """The columns row, period, first_day, last_day, and a column per attribute.

    A step is a whole number. The days are null if periods are steps without dates.

    periods: of the study.
    day: the type of days: a timestamp in files for programs, which pandas reads as a date.
    """
    steps = periods.every == "step"
    for index, label in enumerate(panel.periods):
        column = Panel(panel.symbols[:, index : index + 1], (label,), panel.values)
        days = periods.days(periods.numbers[label]) or (None, None)
        for table in column.tables():
            names = [name.removeprefix(label).strip() or "value" for name in table.column_names[1:]]
            period = pa.scalar(int(label), pa.int64()) if steps else pa.scalar(label)
            cells = [period, *(pa.scalar(each, pa.date32()).cast(day) for each in days)]
            repeated = [pa.repeat(cell, table.num_rows) for cell in cells]
            yield pa.table(
                [table.column(0), *repeated, *table.columns[1:]],
                names=["row", "period", "first_day", "last_day", *names],
            )


def long_table(periods: Periods, panel: Panel) -> pa.Table:
    """The columns row, period and the attributes.

    A period is a step's number, or the first moment of any other period.
    """
    table = pa.concat_tables(long_tables(periods, panel, pa.timestamp("ms")))
    if periods.every != "step":
        starts = [periods.start(periods.numbers[label]) for label in panel.periods]
        from pyarrow import compute as pc  # takes long, and steps do without it

        numbers = pc.index_in(table["period"], value_set=pa.array(panel.periods))
        moments = pa.array(starts, pa.timestamp("ms")).take(numbers.combine_chunks())
        table = table.set_column(1, "period", moments)
    return table.drop_columns(["first_day", "last_day"])
