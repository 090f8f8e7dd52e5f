"""The published weights of answers of least error about a panel.

A message of the type `WEIGHTS_TYPE` follows the releases of a period. Its head says how much of an
error the differences of a panel predict (`answers/error_weights.py`). Its parts are `counts/i`, the
panel's counts cell by cell, and `errors/i`, the errors of all reruns in steps, rerun by rerun.
Everything in it is post-processing of what was published before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stream_dp.log.message import Message
from stream_dp.study import Study

from .arrow_parts import NamedParts, read_table, sliced
from .certificate import Text, refusal

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
