"""Published releases of panels: the certificate and the bytes, and the weights of their answers.

A release is a message (log/message.py): its manifest is the certificate, its parts are Arrow
IPC streams, `panel/i` with slices of the panel's new columns (a uint8 code column for each
period), `measurements/i` with the noisy answers (query, value, variance, standard_error) and
`estimates/i` with unbiased answers computed from them (query, value, standard_error).
Everything in it is a function of noisy values and of the study's declaration.

A message of the type `WEIGHTS_TYPE` follows the releases of a period, with the weights of answers
of least error about the panels. Its head says how much of an error the differences of a panel
predict (`answers/error_weights.py`). Its parts are `counts/i`, the panel's counts cell by cell, and
`errors/i`, the errors of all reruns in steps, rerun by rerun. Everything in it is post-processing
of what was published before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stream_dp.continual.mechanism_interface import PanelError, Step
from stream_dp.log.message import Message
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
    refusal,
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


WEIGHTS_TYPE = "stream-dp.weights"
FEATURES = 9  # of a cell, from which its error is predicted
COUNTS = pa.schema({"count": pa.int64()})
ERRORS = pa.schema({"panel": pa.int16(), "unbiased": pa.int16()})
_MOST_RERUNS = 1000

SeriesFamily = Literal["pattern", "union", "total"]
_Number = Annotated[float, Field(allow_inf_nan=False)]
_Positive = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Neighbours = Annotated[int, Field(ge=0, le=2)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class GroupWeights(_Model):
    """How the errors of a group of cells are predicted.

    family, past, future, large: which cells: of queries of a family, with so many periods before
        and after them (2 for more), and whether the panel's error is above half of the estimate's
    beta: of the features
    roughness: the variance of what the prediction takes for an error and is none, in panel errors
    inflation: of the mean square of what is left, for the fit of beta
    """

    family: SeriesFamily
    past: _Neighbours
    future: _Neighbours
    large: bool
    beta: Annotated[tuple[_Number, ...], Field(min_length=FEATURES, max_length=FEATURES)]
    roughness: _Positive
    inflation: _Positive


class FamilyWeights(_Model):
    """The intervals of a family of queries.

    factor: standard errors to each side
    guard: what is added to the mean square error, as a part of it, because the published panel
        is farther from the estimates than the panels of reruns
    """

    family: SeriesFamily
    factor: _Positive
    guard: _Positive


class WeightsStatement(_Model):
    """The head of the message.

    release, period, number: the last release of the panel that the weights use
    reruns: the number of reruns
    panel_step, unbiased_step: of the errors, in people
    """

    type: Literal["stream-dp.weights"] = "stream-dp.weights"
    study_hash: Text
    release: Text
    period: Text
    number: Annotated[int, Field(ge=1)]
    reruns: Annotated[int, Field(ge=1, le=_MOST_RERUNS)]
    panel_step: _Positive
    unbiased_step: _Positive
    groups: Annotated[tuple[GroupWeights, ...], Field(max_length=54)]
    families: Annotated[tuple[FamilyWeights, ...], Field(max_length=3)]
    code_version: Text


Weights = tuple[WeightsStatement, list[tuple[str, bytes]]]  # the head and the parts of a message


@dataclass(frozen=True)
class PublishedWeights:
    """A message with weights, read and checked."""

    head: WeightsStatement
    message: Message

    @property
    def counts(self) -> NDArray[np.int64]:
        """The panel's counts without padding, (cells,)."""
        return np.asarray(read_table(self.message.parts, "counts", COUNTS.equals)["count"])

    @property
    def errors(self) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
        """The errors of panels and of unbiased estimates in steps, (reruns, cells) each."""
        table = read_table(self.message.parts, "errors", ERRORS.equals)
        panel, unbiased = (np.asarray(table[name]) for name in ERRORS.names)
        shape = self.head.reruns, -1
        return panel.reshape(shape), unbiased.reshape(shape)


def weights_parts(
    counts: NDArray[np.int64], panel: NDArray[np.int16], unbiased: NDArray[np.int16]
) -> list[tuple[str, bytes]]:
    """The parts of a message. panel, unbiased: (reruns, cells)."""

    def table(schema: pa.Schema, *columns: NDArray[Any]) -> list[tuple[str, bytes]]:
        name = "counts" if schema is COUNTS else "errors"

        def rows(start: int, count: int) -> pa.Table:
            return pa.table([pa.array(c[start : start + count]) for c in columns], schema=schema)

        return sliced(name, columns[0].size, 8, rows)

    return [*table(COUNTS, counts), *table(ERRORS, panel.ravel(), unbiased.ravel())]


def checked_weights(study: Study, message: Message) -> PublishedWeights:
    """The weights in a message. Raises Inconsistent."""
    try:
        head = WeightsStatement.model_validate(message.head)
    except ValidationError:
        raise refusal(message, "its weights cannot be read") from None
    declared = study.declared(head.release)
    keys = [(g.family, g.past, g.future, g.large) for g in head.groups]
    families = [f.family for f in head.families]
    if (
        head.study_hash != study.hash
        or declared is None
        or study.batch(head.release) is not None
        or study.periods.numbers.get(head.period) != head.number
        or len({*keys}) < len(keys)
        or len({*families}) < len(families)
        or not {family for family, *_ in keys} <= {*families}
        or 0 in (head.panel_step, head.unbiased_step)
    ):
        raise refusal(message, "its weights are not what the study declares")
    weights = PublishedWeights(head, message)
    try:
        cells = weights.counts.size
        fits = _rows(message.parts) == cells * head.reruns
    except ValueError:
        fits = False
    if not fits:
        raise refusal(message, "its weights do not have an error for each count and rerun")
    return weights


def _rows(parts: NamedParts) -> int:
    return int(read_table(parts, "errors", ERRORS.equals).num_rows)
