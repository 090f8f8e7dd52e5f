"""Judges a table's cells by the rules of the decoder before the table is sent.

Each cell is judged alone: no row affects the result of another.

Notices name the repeated cells of a table, of which only the last counts, and the people who may
come too late for a closed cohort. A table alone cannot tell whether an earlier one has a value of
theirs: the result is a notice and decides nothing. People are compared by a hash of 64 bits that
holds for this process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_dp.study import Study
from stream_dp.study.id_forms import IdForm

from ..arrow_tables import TableSource
from ..cells import Reason
from ..celltext import DAMAGED
from ..id_index import LONGEST, Fingerprints
from ..report_decoding import LARGEST_REPORT
from ..report_judging import LONGEST_ID
from .column_layout import Header, TableLayout
from .id_shapes import IdShapes, ShapeFault
from .reading import Reading, ReportColumns
from .table_reading import is_too_large, read_columns, report_record, reports_of

_MOST_TEXTS = 99  # distinct faulty texts that are looked at for the remedy
_MOST_NOBODIES = 99  # different ids
_SPREAD = np.int64(0x1E3779B97F4A7C15)  # odd, for multiplicative hashing


@dataclass
class Occurrences:
    """Cells of a column with the same fault: the number of cells, and the first row, from 1."""

    cells: int = 0
    first_row: int = 0

    def add(self, cells: int, first_row: int) -> None:
        """Counts cells in rows after all rows that were counted before."""
        self.first_row = self.first_row or first_row
        self.cells += cells


class Repeats:
    """Finds cells of the same person and period in a column, at 16 bytes a cell.

    Cells are compared by a hash of 64 bits that holds for this process; the result is a notice
    and decides nothing.
    """

    def __init__(self) -> None:
        key = str(hash("repeats")).encode()  # of this process
        self._fingerprints = Fingerprints(key)
        self._cells: dict[str, list[tuple[NDArray[np.int64], NDArray[np.int64]]]] = {}

    def add(
        self,
        persons: pa.Array,
        periods: pa.Array | None,
        rows: NDArray[np.int64],
        usable: Mapping[str, NDArray[np.bool_]],
    ) -> None:
        """Adds rows of a table.

        persons: ids without nulls.
        periods: None if every column is a period's.
        rows: their numbers.
        usable: by column, which of the rows have a usable cell.
        """
        hashes = self._ids(persons.cast(pa.large_binary()))
        if periods is not None:
            coded = pc.fill_null(periods, "").dictionary_encode()
            of_periods = [hash(period) for period in coded.dictionary.to_pylist()]
            hashes += np.array(of_periods, np.int64)[coded.indices.to_numpy()] * _SPREAD
        for column, mask in usable.items():
            self._cells.setdefault(column, []).append((hashes[mask], rows[mask]))

    def _ids(self, ids: pa.Array) -> NDArray[np.int64]:
        """Returns a hash of every id. The length of an id alone decides the method."""
        short = pc.binary_length(ids).to_numpy() <= LONGEST
        if short.all():
            return self._fingerprints.of(ids)[:, 0].view(np.int64).copy()
        hashes = np.empty(len(ids), np.int64)
        hashes[short] = self._fingerprints.of(ids.filter(pa.array(short)))[:, 0].view(np.int64)
        hashes[~short] = [hash(text) for text in ids.filter(pa.array(~short)).to_pylist()]
        return hashes

    def places(self) -> dict[str, Occurrences]:
        """Counts, by column, cells that repeat an earlier cell, and finds the first row."""
        repeated_cells = {}
        for column, chunks in self._cells.items():
            hashes, rows = (np.concatenate(arrays) for arrays in zip(*chunks, strict=True))
            _, first = np.unique(hashes, return_index=True)
            repeated = np.ones(len(hashes), bool)
            repeated[first] = False
            if repeated.any():
                repeated_cells[column] = Occurrences(int(repeated.sum()), int(rows[repeated].min()))
        return repeated_cells


@dataclass(frozen=True)
class LatePeople:
    """The people of a table without a usable value in the periods of entry.

    people: how many they are.
    first_row: of them, from 1.
    all_late: whether nobody in the table has a value in the periods of entry.
    """

    people: int
    first_row: int
    all_late: bool


class CohortEntries:
    """The people of a table by when they have values, at 16 bytes a cell.

    last_entry: the number of the last period in which people may enter.
    """

    def __init__(self, last_entry: int) -> None:
        self._last_entry = last_entry
        self._entering: list[NDArray[np.int64]] = []
        self._later: list[NDArray[np.int64]] = []
        self._later_rows: list[NDArray[np.int64]] = []

    def add(
        self,
        persons: pa.Array,
        rows: NDArray[np.int64],
        periods: NDArray[np.int64],
        *,
        usable: NDArray[np.bool_],
    ) -> None:
        """Adds the cells of a column: persons, rows and numbers of periods, (n,) each."""
        hashes = np.fromiter(map(hash, persons.to_pylist()), np.int64, len(rows))
        entering = usable & (periods <= self._last_entry)
        self._entering.append(np.unique(hashes[entering]))
        later = usable & ~entering
        self._later.append(hashes[later])
        self._later_rows.append(rows[later])

    def late(self) -> LatePeople | None:
        """The people with a first value after the periods of entry. None without such people."""
        entering = np.concatenate([np.zeros(0, np.int64), *self._entering])
        later = np.concatenate([np.zeros(0, np.int64), *self._later])
        late = ~np.isin(later, entering)
        if not late.any():
            return None
        rows = np.concatenate(self._later_rows)[late]
        return LatePeople(np.unique(later[late]).size, int(rows.min()), not entering.size)


WHOLE_ROW = ""  # the column of a fault that concerns all of a row
Mask = NDArray[np.bool_]
# Called for each faulty cell with its row (from 1 below the header), column, reason and text.
FaultListener = Callable[[int, str, Reason, str], object]


@dataclass
class Judgement:
    """The fate of a table's cells if the table were sent.

    cells: the number of cells; a row that makes no report at all counts as one cell.
    faults: by column of the file and reason, the cells that would be rejected.
    reading: how its columns are understood; None before the first row.
    undeclared: by column, distinct texts that are no answers of its attribute, at most 99; also
        those of cells with other faults.
    periods: the distinct texts in the column of periods that name no period of the study, at most
    99.
    shapes: of the ids.
    strange: ids whose shape differs from the known shapes, which are accepted as new people.
    answered: by column, the cells with an answer that count; codes of no answer are none.
    repeated: by column, cells that replace an earlier cell of the same person and period.
    over_lines: the rows that have line ends in a cell.
    zoneless: the times with an offset, or in UTC, without a zone whose days count.
    late_people: of a closed cohort, the people with values after the periods of entry alone.
    id_forms: by form, the cells of ids that need a look.
    nobodies: the cells of ids that may be nobody's, by id, at most 99 ids.
    nobody: the rows of nobody, which are left out.
    unread: whether a faulty cell could not be read.
    """

    cells: int = 0
    faults: dict[tuple[str, Reason], Occurrences] = field(default_factory=dict)
    reading: Reading | None = None
    undeclared: dict[str, set[str]] = field(default_factory=dict)
    periods: set[str] = field(default_factory=set)
    shapes: IdShapes = field(default_factory=IdShapes)
    strange: list[ShapeFault] = field(default_factory=list)
    answered: Counter[str] = field(default_factory=Counter)
    repeated: dict[str, Occurrences] = field(default_factory=dict)
    over_lines: Occurrences = field(default_factory=Occurrences)
    zoneless: Occurrences = field(default_factory=Occurrences)
    late_people: LatePeople | None = None
    id_forms: dict[IdForm, Occurrences] = field(default_factory=dict)
    nobodies: Counter[str] = field(default_factory=Counter)
    nobody: int = 0
    unread: bool = False

    @property
    def header(self) -> Header:
        """The meaning of its columns."""
        return Header({}, (), ()) if self.reading is None else self.reading.header

    @property
    def faulty(self) -> int:
        """The number of rejected cells."""
        return sum(occurrences.cells for occurrences in self.faults.values())

    @property
    def rejected(self) -> Counter[Reason]:
        """The number of cells that the decoder would reject, by reason."""
        counts: Counter[Reason] = Counter()
        for (_, reason), occurrences in self.faults.items():
            counts[reason] += occurrences.cells
        return counts

    def note(self, column: str, reason: Reason, cells: int, first_row: int) -> None:
        """Counts cells with a fault. The rows come after all rows that were counted before."""
        if cells:
            self.faults.setdefault((column, reason), Occurrences()).add(cells, first_row)


def judge_table(
    path: TableSource,
    study: Study,
    layout: TableLayout,
    *,
    closed: int = 0,
    known_shapes: IdShapes | None = None,
    overhead: int = 0,
    tell: FaultListener | None = None,
    progress: Callable[[int], object] = lambda rows: None,
) -> Judgement:
    """Judges every cell of a table like the decoder.

    closed: the last closed period, 0 if unknown.
    known_shapes: the shapes of ids in earlier files.
    overhead: bytes of a record beside its key and its value.
    tell: called for each faulty cell.
    progress: called with the number of rows of each batch.

    Raises UserError if the table cannot be read.
    """
    judgement = Judgement()
    judge = _Judge(study, layout, closed, judgement, overhead, tell)
    with closing(read_columns(path, study, layout)) as source:
        for columns in source:
            judge.add(columns)
            progress(len(columns))
    judgement.strange = judgement.shapes.faults(known_shapes or IdShapes())
    judgement.repeated = judge.repeats.places()
    if judge.entries is not None:
        judgement.late_people = judge.entries.late()
    return judgement


class _Judge:
    """Counts the cells of a table by column and reason, batch by batch."""

    def __init__(
        self,
        study: Study,
        layout: TableLayout,
        closed: int,
        judgement: Judgement,
        overhead: int,
        tell: FaultListener | None,
    ) -> None:
        self._layout, self._closed, self._judgement = layout, closed, judgement
        self._study, self._overhead, self._tell = study, overhead, tell
        self.repeats = Repeats()
        last = study.last_entry
        self.entries = None if last is None else CohortEntries(last)
        self._labels = pa.array(study.periods.labels, pa.string())
        self._numbers = study.periods.numbers
        self._rule = study.id_rule
        self._attributes = study.attributes
        self._values = {
            name: pa.array(
                [t for t in (*attribute.codes, *attribute.no_answers) if isinstance(t, str)],
                pa.string(),
            )
            for name, attribute in study.attributes.items()
        }
        self._no_answers = {
            name: pa.array([t for t in attribute.no_answers if isinstance(t, str)], pa.string())
            for name, attribute in study.attributes.items()
        }

    def add(self, columns: ReportColumns) -> None:
        judgement, header = self._judgement, columns.header
        judgement.reading = columns.reading
        for row, text in columns.unreadable:
            self._note_row(row, text)
        if columns.over_lines:
            judgement.over_lines.add(len(columns.over_lines), columns.over_lines[0])
        if columns.zoneless is not None and len(at := np.flatnonzero(_mask(columns.zoneless))):
            judgement.zoneless.add(len(at), int(columns.rows[at[0]]))
        judgement.nobody += columns.nobody
        if not len(columns):
            return
        rows = columns.rows
        persons = pc.fill_null(columns.persons, "")
        if not self._rule.leaves_usual:
            persons = pa.array(self._rule.normals(persons.to_pylist()), pa.string())
        elif (
            self._rule.refuses_words and (words := columns.id_forms.get(IdForm.NOBODY)) is not None
        ):
            persons = pc.if_else(pa.array(words), "", persons)
        lengths = pc.utf8_length(persons).to_numpy()
        sound: Mask = (lengths > 0) & (lengths <= LONGEST_ID)
        large = _too_large(columns, self._study, self._overhead)
        present = {
            name: _mask(pc.is_valid(column)) & ~large[name]
            for name, column in columns.values.items()
        }
        for index in self._large_rows(columns, large):
            self._note_row(int(rows[index]), f"a report of over {LARGEST_REPORT} bytes")
        cells = np.sum(list(present.values()), axis=0)
        self._note_forms(columns, cells)
        judged = sound & (cells > 0)
        judgement.shapes.add(persons.filter(pa.array(judged)), rows[judged], cells[judged])
        usable, id_column = {}, "+".join(self._layout.ids)
        for name, cells_present in present.items():
            judgement.cells += int(cells_present.sum())
            column, attribute = columns.values[name], header.sources[name][1]
            self._note(id_column, "person", cells_present & ~sound, rows, columns.persons)
            numbers = self._period_numbers(columns, name)
            named, late = numbers > 0, (numbers > 0) & (numbers <= self._closed)
            period_column = name if columns.periods is None else self._layout.period
            self._note(
                period_column, "period", cells_present & sound & ~named, rows, columns.periods
            )
            self._note(period_column, "late", cells_present & sound & late, rows, columns.periods)
            sayable = cells_present & sound & named & ~late
            good = np.ones(len(columns), bool)
            for reason, bad in self._bad(column, attribute):
                good &= ~bad
                if (cells_present & bad).any():
                    texts = judgement.undeclared.setdefault(name, set())
                    if len(texts) < _MOST_TEXTS:
                        distinct = pc.unique(column.filter(pa.array(cells_present & bad)))
                        texts.update(distinct[:_MOST_TEXTS].to_pylist())
                self._note(name, reason, sayable & bad, rows, column)
            usable[name] = sayable & good
            codes = _mask(pc.is_in(column, value_set=self._no_answers[attribute]))
            judgement.answered[name] += int((usable[name] & ~codes).sum())
            if self.entries is not None:
                self.entries.add(persons, rows, numbers, usable=usable[name])
        self.repeats.add(persons, columns.periods, rows, usable)

    def _note_forms(self, columns: ReportColumns, cells: NDArray[np.int64]) -> None:
        """Counts the cells of ids that need a look. cells: (rows,) of every row."""
        judgement = self._judgement
        for form, has_form in columns.id_forms.items():
            told = has_form & (cells > 0)
            if not told.any():
                continue
            counted = judgement.id_forms.setdefault(form, Occurrences())
            counted.add(int(cells[told].sum()), int(columns.rows[np.argmax(told)]))
            if form in (IdForm.NOBODY, IdForm.NUMBER):
                ids = columns.persons.filter(pa.array(told)).to_pylist()
                for text, count in zip(ids, cells[told].tolist(), strict=True):
                    if text and (
                        text in judgement.nobodies or len(judgement.nobodies) < _MOST_NOBODIES
                    ):
                        judgement.nobodies[text] += count

    @staticmethod
    def _large_rows(columns: ReportColumns, large: Mapping[str, Mask]) -> Iterator[int]:
        """Yields the index of a row once for every report of the row that is too large.

        A row of a wide table has a report in each column. A row of a long table is one report, so
        the masks of its columns are equal, and the first mask alone is read.

        large: by column, (rows,) whether the report of the cell is too large.
        """
        masks = list(large.values())
        for mask in masks if columns.periods is None else masks[:1]:
            yield from np.flatnonzero(mask).tolist()

    def _note_row(self, row: int, text: str) -> None:
        """Counts a row without a report."""
        self._judgement.cells += 1
        self._judgement.note(WHOLE_ROW, "unreadable", 1, row)
        if self._tell is not None:
            self._tell(row, WHOLE_ROW, "unreadable", text)

    def _bad(self, column: pa.Array, attribute: str) -> Iterator[tuple[Reason, Mask]]:
        """Yields the reasons of an attribute with masks of the faulty cells of a column."""
        if not self._attributes[attribute].values_known:
            return
        declared = _mask(pc.is_in(column, value_set=self._values[attribute]))
        scale = self._attributes[attribute].number
        if scale is None:
            yield "value", ~declared
            return
        # Cell by cell, like the decoder.
        read = [
            None if k else scale.read(v or "")
            for v, k in zip(column.to_pylist(), declared, strict=True)
        ]
        reasons: tuple[Reason, ...] = ("value", "range", "step")
        for reason in reasons:
            yield reason, np.array([fault == reason for fault in read], bool)

    def _note(
        self,
        column: str,
        reason: Reason,
        faulty: Mask,
        rows: NDArray[np.int64],
        texts: pa.Array | None,
    ) -> None:
        """Counts faulty cells. texts: the cells' texts; None for the column's name."""
        if not faulty.any():
            return
        first = int(rows[np.argmax(faulty)])
        self._judgement.note(column, reason, int(faulty.sum()), first)
        if texts is not None and not self._judgement.unread:
            unread = pc.match_substring(texts.filter(pa.array(faulty)), DAMAGED)
            self._judgement.unread = bool(pc.any(unread).as_py())
        if self._tell is not None:
            for index in np.flatnonzero(faulty).tolist():
                text = None if texts is None else texts[index].as_py()
                self._tell(int(rows[index]), column, reason, text or "")

    def _period_numbers(self, columns: ReportColumns, name: str) -> NDArray[np.int64]:
        """Returns the number of every row's period, 0 for a period outside of the study."""
        if columns.periods is None:
            return np.full(len(columns), self._numbers[columns.header.sources[name][0]])
        numbers = pc.fill_null(pc.index_in(columns.periods, value_set=self._labels), -1)
        number_of: NDArray[np.int64] = numbers.to_numpy().astype(np.int64) + 1
        named = number_of > 0
        if not named.all() and len(self._judgement.periods) < _MOST_TEXTS:
            unknown = pc.unique(columns.periods.filter(pa.array(~named))).to_pylist()
            self._judgement.periods.update(text for text in unknown[:_MOST_TEXTS] if text)
        return number_of


def _too_large(columns: ReportColumns, study: Study, overhead: int) -> dict[str, Mask]:
    """Marks, by column, the cells whose report is over the largest size.

    overhead: bytes of a record beside its key and its value.
    """
    # A character of one byte is at most six in JSON. Names and punctuation are bounded by 64 each.
    texts = [columns.persons, *columns.values.values()]
    if columns.periods is not None:
        texts.append(columns.periods)
    sizes = sum(
        pc.fill_null(pc.binary_length(text), 0).to_numpy().astype(np.int64) for text in texts
    )
    names = sum(64 + 6 * len(name.encode()) for name in study.attributes)
    large = {name: np.zeros(len(columns), bool) for name in columns.values}
    # A report has all cells of a long table's row, or one cell of a wide table's row.
    together = [list(large)] if columns.periods is not None else [[name] for name in large]
    for index in np.flatnonzero(np.asarray(8 * sizes + names + overhead + 256 > LARGEST_REPORT)):
        row = columns.slice(int(index), 1)
        for cells, reports in zip(together, reports_of(row), strict=True):
            if any(is_too_large(report_record(r, study.id_rule), overhead) for r in reports):
                for name in cells:
                    large[name][index] = True
    return large


def _mask(column: pa.Array) -> Mask:
    mask: Mask = column.to_numpy(zero_copy_only=False)
    return mask
