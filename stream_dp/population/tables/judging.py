"""What becomes of a table's cells, judged before any is sent, by the rules of the decoder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.population.rejected import Reason
from stream_dp.population.reports import LARGEST_REPORT, LONGEST_ID
from stream_dp.study import Study

from .id_shapes import IdShapes, ShapeFault
from .layout import Header, TableLayout
from .reading import ReportColumns, read_columns, rows_of
from .repeats import Place, Repeats

Fault = Reason | Literal["shape"]
Mask = NDArray[np.bool_]


@dataclass
class Judgement:
    """What would become of a table's cells.

    cells: how many it has.
    faults: by column of the file and reason, where the cells are that would be rejected.
    header: what its columns are.
    undeclared: columns in which a value is none of its attribute's, whatever else is wrong there.
    periods: the distinct texts in the column of periods that name none of the study's, at most 99.
    shapes: of the ids.
    strange: ids of another shape than those known, which would be accepted as new people.
    repeated: by column, cells that replace an earlier one of the same person and period.
    """

    cells: int = 0
    faults: dict[tuple[str, Fault], Place] = field(default_factory=dict)
    header: Header = field(default_factory=lambda: Header({}, (), ()))
    undeclared: set[str] = field(default_factory=set)
    periods: set[str] = field(default_factory=set)
    shapes: IdShapes = field(default_factory=IdShapes)
    strange: list[ShapeFault] = field(default_factory=list)
    repeated: dict[str, Place] = field(default_factory=dict)

    @property
    def rejected(self) -> Counter[Reason]:
        """The cells that the decoder would reject, by reason."""
        counts: Counter[Reason] = Counter()
        for (_, reason), place in self.faults.items():
            if reason != "shape":
                counts[reason] += place.cells
        return counts

    def note(self, column: str, reason: Fault, cells: int, first_row: int) -> None:
        """Counts cells with a fault, of rows that come after those counted before."""
        if cells:
            self.faults.setdefault((column, reason), Place(0, first_row)).cells += cells


def judge_table(
    path: Path,
    study: Study,
    layout: TableLayout,
    *,
    closed: int = 0,
    known: IdShapes | None = None,
    overhead: int = 0,
    progress: Callable[[int], object] = lambda rows: None,
) -> Judgement:
    """Judges every cell of a table as the decoder would.

    closed: the last closed period, where that is known.
    known: the shapes of ids that were sent before.
    overhead: bytes of a record beside its key and its value.
    progress: called with the number of rows of each batch.

    Raises UserError where the table cannot be read, or a row makes a report that is too large.
    """
    judgement = Judgement()
    judge = _Judge(study, layout, closed, judgement)
    for columns in read_columns(path, study, layout):
        judge.add(columns)
        if row := _too_large(columns, study, overhead):
            raise UserError(
                f"{path}: row {row} below the header makes a report of over {LARGEST_REPORT} bytes"
            )
        progress(len(columns))
    judgement.strange = judgement.shapes.faults(known or IdShapes())
    for fault in judgement.strange:
        judgement.note(layout.person, "shape", fault.count, fault.first_row)
    judgement.repeated = judge.repeats.places()
    return judgement


class _Judge:
    """Counts the cells of one table by column and reason, batch by batch."""

    def __init__(
        self, study: Study, layout: TableLayout, closed: int, judgement: Judgement
    ) -> None:
        self._layout, self._closed, self._judgement = layout, closed, judgement
        self.repeats = Repeats()
        self._labels = pa.array(study.periods.labels, pa.string())
        self._numbers = study.periods.numbers
        self._normal = None if study.ids is None else study.ids.normal
        self._attributes = study.attributes
        self._values = {
            name: pa.array([text for text in attribute.codes if isinstance(text, str)], pa.string())
            for name, attribute in study.attributes.items()
        }

    def add(self, columns: ReportColumns) -> None:
        judgement, header = self._judgement, columns.header
        judgement.header = header
        if not len(columns):
            return
        rows = np.arange(columns.first_row, columns.first_row + len(columns))
        persons = pc.fill_null(columns.persons, "")
        if self._normal is not None:
            persons = pa.array([self._normal(p) for p in persons.to_pylist()], pa.string())
        lengths = pc.utf8_length(persons).to_numpy()
        sound: Mask = (lengths > 0) & (lengths <= LONGEST_ID)
        present = {name: _mask(pc.is_valid(column)) for name, column in columns.values.items()}
        cells = np.sum(list(present.values()), axis=0)
        judged = sound & (cells > 0)
        judgement.shapes.add(persons.filter(pa.array(judged)), rows[judged], cells[judged])
        usable = {}
        for name, here in present.items():
            judgement.cells += int(here.sum())
            self._note(self._layout.person, "person", here & ~sound, rows)
            named, late = self._periods(columns, name)
            period_column = name if columns.periods is None else self._layout.period
            self._note(period_column, "period", here & sound & ~named, rows)
            self._note(period_column, "late", here & sound & late, rows)
            column, attribute = columns.values[name], header.sources[name][1]
            sayable = here & sound & named & ~late
            good = np.ones(len(columns), bool)
            for reason, bad in self._bad(column, attribute):
                good &= ~bad
                if (here & bad).any():
                    judgement.undeclared.add(name)
                self._note(name, reason, sayable & bad, rows)
            usable[name] = sayable & good
        periods = None if columns.periods is None else columns.periods.to_pylist()
        self.repeats.add(persons.to_pylist(), periods, rows, usable)

    def _bad(self, column: pa.Array, attribute: str) -> Iterator[tuple[Reason, Mask]]:
        """By reason, which cells of a column are no answers of an attribute."""
        if not self._attributes[attribute].values_known:
            return
        known = _mask(pc.is_in(column, value_set=self._values[attribute]))
        scale = self._attributes[attribute].number
        if scale is None:
            yield "value", ~known
            return
        # One cell at a time, as the decoder reads them.
        read = [
            None if k else scale.read(v or "")
            for v, k in zip(column.to_pylist(), known, strict=True)
        ]
        reasons: tuple[Reason, ...] = ("value", "range", "step")
        for reason in reasons:
            yield reason, np.array([fault == reason for fault in read], bool)

    def _note(self, column: str, reason: Reason, faulty: Mask, rows: NDArray[np.int64]) -> None:
        if faulty.any():
            first = int(rows[np.argmax(faulty)])
            self._judgement.note(column, reason, int(faulty.sum()), first)

    def _periods(self, columns: ReportColumns, name: str) -> tuple[Mask, Mask]:
        """Which rows name a period of the study in that column, and which a closed one."""
        if columns.periods is None:
            number = self._numbers[columns.header.sources[name][0]]
            named = np.ones(len(columns), bool)
            return named, named & (number <= self._closed)
        numbers = pc.fill_null(pc.index_in(columns.periods, value_set=self._labels), -1)
        number_of = numbers.to_numpy().astype(np.int64) + 1
        named = number_of > 0
        if not named.all() and len(self._judgement.periods) < 99:
            unknown = pc.unique(columns.periods.filter(pa.array(~named))).to_pylist()
            self._judgement.periods.update(text for text in unknown[:99] if text)
        return named, named & (number_of <= self._closed)


def _too_large(columns: ReportColumns, study: Study, overhead: int) -> int:
    """The first row that makes a report over the largest size; 0 where none does."""
    # A character of one byte is at most six in JSON. Names and punctuation are bounded by 64 each.
    texts = [columns.persons, *columns.values.values()]
    if columns.periods is not None:
        texts.append(columns.periods)
    sizes = sum(
        pc.fill_null(pc.binary_length(text), 0).to_numpy().astype(np.int64) for text in texts
    )
    names = sum(64 + 6 * len(name.encode()) for name in study.attributes)
    normal = str if study.ids is None else study.ids.normal
    for place in np.flatnonzero(np.asarray(8 * sizes + names + overhead + 256 > LARGEST_REPORT)):
        for person, period, values in rows_of(columns.slice(int(place), 1)):
            value = msgspec.json.encode({"person": person, "period": period, "values": values})
            if len(value) + len(normal(person).encode()) + overhead > LARGEST_REPORT:
                return columns.first_row + int(place)
    return 0


def _mask(column: pa.Array) -> Mask:
    mask: Mask = column.to_numpy(zero_copy_only=False)
    return mask
