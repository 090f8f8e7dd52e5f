"""The reading of a table: how its columns are understood, and its rows as columns of reports.

A reading follows from the header, the file's own labels, the study and the operator's options. No
cell changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.study import Study
from stream_dp.study.attribute import Attribute
from stream_dp.study.field_types import ABSENT
from stream_dp.study.id_forms import IdForm
from stream_dp.study.number_texts import WholeNumbers
from stream_dp.study.period_texts import PeriodTexts

from ..arrow_tables import TableSource
from ..celltext import DAMAGED, bytes_of, cell_text, has_byte, id_text, paired_ids
from .column_layout import Header, TableLayout, read_header
from .id_shapes import Mask, ReadIds, read_ids
from .labelled_files import file_labels
from .period_columns import PERIOD, period_column, texts_of_periods
from .row_batches import TableRows, UnreadableRow
from .table_files import is_text
from .value_texts import AmbiguousCoding, ValueTexts

_LONGEST_NAME = 100  # characters of a file's name in an id
_NO_ID = pa.scalar(None, pa.string())
_BLANKS = bytes_of("\t\n\v\f\r\x1c\x1d\x1e\x1f ", beyond_ascii=True)  # of every blank of Unicode


@dataclass(frozen=True)
class ReportColumns:
    """A batch of rows of a table.

    A row of a long table is a report; a row of a wide table is a report for each column.

    reading: of the file, the same for all of its rows.
    rows: the row numbers, from 1 below the header.
    persons: ids, null for a cell that is empty or no id.
    periods: of a long table, null for an empty cell; None for a wide table.
    values: by column of the file, null for an empty cell.
    unreadable: rows beside these that do not fit the header.
    over_lines: the numbers of rows that have line ends in a cell.
    zoneless: of a long table, which rows have a time with an offset and no zone decides its day;
        None without such a row.
    id_forms: by form, which of the ids need a look.
    nobody: the number of rows of nobody, which are left out.
    """

    reading: Reading
    rows: NDArray[np.int64]
    persons: pa.Array
    periods: pa.Array | None
    values: Mapping[str, pa.Array]
    unreadable: Sequence[UnreadableRow] = ()
    over_lines: Sequence[int] = ()
    zoneless: pa.Array | None = None
    id_forms: Mapping[IdForm, Mask] = field(default_factory=dict)
    nobody: int = 0

    def __len__(self) -> int:
        return len(self.persons)

    @property
    def header(self) -> Header:
        """The meaning of the file's columns."""
        return self.reading.header

    def slice(self, start: int, count: int) -> ReportColumns:
        """Selects a range of the rows with as many cells as the header."""
        return ReportColumns(
            reading=self.reading,
            rows=self.rows[start : start + count],
            persons=self.persons.slice(start, count),
            periods=self.periods if self.periods is None else self.periods.slice(start, count),
            values={name: column.slice(start, count) for name, column in self.values.items()},
        )


@dataclass(frozen=True)
class Reading:
    """How the columns of a file are understood, and how its rows become columns of reports.

    texts: of periods.
    header: the meaning of each column.
    values: by source of the header, how texts become values.
    periods: how codes with labels in the column of periods become texts of periods.
    numbers: by source of the header, its whole numbers; None for a source without any.
    """

    path: TableSource
    study: Study
    layout: TableLayout
    texts: PeriodTexts
    header: Header = field(default_factory=lambda: Header({}, (), ()))
    values: Mapping[str, ValueTexts] = field(default_factory=dict)
    periods: ValueTexts = field(default_factory=ValueTexts)
    numbers: Mapping[str, WholeNumbers | None] = field(default_factory=dict)

    @classmethod
    def of(
        cls, path: TableSource, names: Sequence[str], study: Study, layout: TableLayout
    ) -> Reading:
        """The reading of a file with columns of these names. Raises UserError, with every fault."""
        about = file_labels(path, layout.form.encoding)
        texts = texts_of_periods(study, layout, about.formats.get(layout.period))
        header = read_header(path=path, names=names, study=study, layout=layout, texts=texts)
        values, faults = {}, dict[str, str]()
        declared = {*study.attributes, *map(header.attribute, header.sources), PERIOD}
        declared |= {*(() if study.groups is None else study.groups.value_columns)}
        for name in layout.codings.named - declared:
            line = f"attribute '{name}' is not declared; there are {', '.join(study.attributes)}"
            faults[name] = f"--labels, --codes: {line}"
        for source, (_, name) in header.sources.items():
            column = header.column(source)
            try:
                values[source] = ValueTexts.of(
                    about.values.get(column, {}),
                    layout.values.get(name, {}),
                    _values_of(study.attributes[name]),
                    layout.codings.of(header.attribute(source)),
                )
            except AmbiguousCoding as ambiguous:
                line = ambiguous.line(column, header.attribute(source))
                faults.setdefault(header.attribute(source), f"{path}: {line}")
        periods = ValueTexts()
        if layout.attribute is None and layout.period in names:
            try:
                periods = ValueTexts.of(
                    about.values.get(layout.period, {}),
                    {},
                    lambda text: texts.label(text) in study.periods.numbers,
                    layout.codings.of(PERIOD),
                )
            except AmbiguousCoding as ambiguous:
                faults[PERIOD] = f"{path}: {ambiguous.line(layout.period, PERIOD)}"
        if faults:
            raise UserError(sorted(faults.values()))
        numbers = {
            source: WholeNumbers.of(layout.numbers, study.attributes[name], values[source].meanings)
            for source, (_, name) in header.sources.items()
        }
        return cls(path, study, layout, texts, header, values, periods, numbers)

    def columns(self, table_rows: TableRows) -> ReportColumns:
        """A batch of rows as columns of reports."""
        batch, rows = table_rows.batch, table_rows.numbers
        unreadable, events = table_rows.unreadable, None
        ids, of_nobody = self._ids(batch, rows)
        if nobody := int(np.count_nonzero(of_nobody)):
            batch, rows = batch.filter(pa.array(~of_nobody)), rows[~of_nobody]
            ids = ids.filter(~of_nobody)
        if self.header.slots and self.layout.event is not None:
            has_event, events = self._events(batch, self.layout.event)
            unreadable = (*unreadable, *_without_an_event(batch, rows, has_event))
            kept: Mask = has_event.to_numpy(zero_copy_only=False)
            batch, rows, ids = batch.filter(has_event), rows[kept], ids.filter(kept)
        periods, zoneless = self._periods(batch)
        return ReportColumns(
            reading=self,
            rows=rows,
            values={name: self._values(batch, name, events) for name in self.header.sources},
            periods=periods,
            zoneless=zoneless,
            persons=ids.texts,
            unreadable=unreadable,
            over_lines=table_rows.over_lines,
            id_forms=ids.forms,
            nobody=nobody,
        )

    def _text(
        self, batch: pa.RecordBatch, name: str, as_text: Callable[[pa.Array, pa.Field], pa.Array]
    ) -> pa.Array:
        """Converts a column of a batch to text. Raises UserError with the file's name."""
        index = batch.schema.names.index(name)
        try:
            return as_text(batch.column(index), batch.schema.field(index))
        except UserError as error:
            raise UserError(f"{self.path}: {line}" for line in error.lines) from None

    def _events(self, batch: pa.RecordBatch, column: str) -> tuple[pa.Array, pa.Array]:
        """Which rows have the number of an event, and the numbers of these rows, from 1."""
        texts = pc.utf8_trim_whitespace(self._text(batch, column, _cells))
        numbers = [str(number) for number in range(1, self.header.most_events + 1)]
        plain = pc.replace_substring_regex(texts, r"^0+|\.0$", "")
        index = pc.index_in(plain, value_set=pa.array(numbers, pa.string()))
        has_event = pc.is_valid(index)
        return has_event, pc.add(index.filter(has_event), 1)

    def _values(self, batch: pa.RecordBatch, name: str, events: pa.Array | None) -> pa.Array:
        """The answers of one source of the header: texts of the study, null for an empty cell.

        events: by row, the number of its event. A source that is a slot has those of one event.
        """
        in_file, event = self.header.slots.get(name, (name, None))
        column = self._text(batch, in_file, _cells)
        if event is not None:
            column = pc.if_else(pc.equal(events, event), column, pa.scalar(None, pa.string()))
        texts = self.values[name]
        column = self._without_blanks(column, name)
        if (numbers := self.numbers[name]) is not None:
            column = _plain_numbers(column, numbers)
        return rewritten(column, texts.value) if texts.meanings else column

    def _without_blanks(self, column: pa.Array, name: str) -> pa.Array:
        """Removes blanks at the ends of texts, except of texts equal to a value."""
        if not has_byte(column, _BLANKS):
            return column
        trimmed = pc.utf8_trim_whitespace(column)
        padded = pc.fill_null(pc.not_equal(column, trimmed), False)
        rows = pc.indices_nonzero(padded)
        if not len(rows):
            return column
        meanings = self.values[name].meanings
        is_value = _values_of(self.study.attributes[self.header.sources[name][1]])
        pairs = zip(column.take(rows).to_pylist(), trimmed.take(rows).to_pylist(), strict=True)
        texts = [
            text if text in meanings or is_value(text) else plain or None for text, plain in pairs
        ]
        return pc.replace_with_mask(column, padded, pa.array(texts, column.type))

    def _periods(self, batch: pa.RecordBatch) -> tuple[pa.Array | None, pa.Array | None]:
        """The labels of the rows' periods, and the rows that lack a zone, see `ReportColumns`.

        Both are None for a wide table, whose columns have the periods.
        """
        if self.header.period:
            return pa.array([self.header.period] * len(batch), pa.string()), None
        if self.layout.attribute is not None:
            return None, None
        texts = self._text(batch, self.layout.period, period_column)
        if self.periods.meanings:
            texts = rewritten(texts, self.periods.value)
        coded = texts.dictionary_encode()
        distinct = coded.dictionary.to_pylist()
        labels, lacking = map(self.texts.label, distinct), [*map(self.texts.lacks_zone, distinct)]
        periods = pa.array(labels, pa.string()).take(coded.indices)
        return periods, pa.array(lacking).take(coded.indices) if any(lacking) else None

    def _ids(self, batch: pa.RecordBatch, rows: NDArray[np.int64]) -> tuple[ReadIds, Mask]:
        """The ids of the rows' persons, and which of them are nobody's.

        An id is of one column, or of a group and a member within it. Without a column of ids the
        rows of two files are never one person's.
        """
        if not self.layout.ids:
            numbers = pa.array(rows).cast(pa.string())
            name = pa.scalar(self.path.name[-_LONGEST_NAME:])
            ids = pc.binary_join_element_wise(name, numbers, "/")
            return ReadIds(ids), np.zeros(len(batch), bool)
        as_ids = _lined_ids if is_text(self.path) else _ids
        rule = self.study.id_rule
        read = ReadIds if rule.as_written else partial(read_ids, rule=rule)
        texts = [self._text(batch, name, as_ids) for name in self.layout.ids]
        ids, *of_members = map(read, texts)
        for column in of_members:
            ids = read(paired_ids(ids.texts, column.texts)).with_forms(ids.forms, column.forms)
            if rule.refuses_words and (words := ids.forms.get(IdForm.NOBODY)) is not None:
                ids = ids.with_texts(pc.if_else(pa.array(words), _NO_ID, ids.texts))
        ids = ids.with_texts(_padded(ids.texts, self.layout.id_width))
        if not (nobodies := self._nobodies()):
            return ids, np.zeros(len(batch), bool)
        return ids, np.any([self._are(column, nobodies) for column in (*texts, ids.texts)], axis=0)

    def _nobodies(self) -> set[str]:
        """The ids of no person, by the options or the study."""
        return {*self.layout.nobody, *self.study.id_rule.nobodies} - {""}

    def _are(self, ids: pa.Array, nobodies: set[str]) -> Mask:
        """Which of the ids are among these, by the study's rule."""
        if self.study.ids is not None:
            spelled = self.study.ids.spelled
            nobodies, ids = {spelled(i) for i in nobodies}, rewritten(ids, spelled)
        among: Mask = pc.is_in(ids, value_set=pa.array(sorted(nobodies), pa.string())).to_numpy(
            zero_copy_only=False
        )
        return among


def _plain_numbers(column: pa.Array, numbers: WholeNumbers) -> pa.Array:
    """Whole numbers without marks; a column without any mark stays as it is."""
    signs = numbers.texts.signs
    if not has_byte(column, bytes_of("".join(sign[0] for sign in signs))):
        return column
    if any(pc.any(pc.match_substring(column, sign)).as_py() for sign in signs):
        return rewritten(column, numbers.plain)
    return column


def _values_of(attribute: Attribute) -> Callable[[str], bool]:
    """Whether a text is a declared value of an attribute; 'absent' is none."""
    return lambda text: text != ABSENT and isinstance(attribute.read(text), int)


def _without_an_event(
    batch: pa.RecordBatch, rows: NDArray[np.int64], has_event: pa.Array
) -> list[UnreadableRow]:
    """The rows without the number of an event."""
    rest = batch.filter(pc.invert(has_event)).to_pylist()
    numbers = rows[~has_event.to_numpy(zero_copy_only=False)].tolist()
    texts = (",".join("" if v is None else str(v) for v in row.values()) for row in rest)
    return [UnreadableRow(number, text) for number, text in zip(numbers, texts, strict=True)]


def rewritten(column: pa.Array, rewrite: Callable[[str], str | None]) -> pa.Array:
    """Rewrites every text of a column, text by text."""
    coded = column.dictionary_encode()
    texts = coded.dictionary.to_pylist()
    new_texts = [rewrite(text) for text in texts]
    return column if new_texts == texts else pa.array(new_texts, pa.string()).take(coded.indices)


def _padded(ids: pa.Array, width: int | None) -> pa.Array:
    """Fills ids of digits with zeros in front, up to that width."""
    if width is None:
        return ids
    digits = pc.match_substring_regex(ids, "^[0-9]+$")
    return pc.if_else(digits, pc.utf8_lpad(ids, width, "0"), ids)


def _cells(column: pa.Array, field: pa.Field) -> pa.Array:
    return cell_text(column, field.name, DAMAGED)


def _ids(column: pa.Array, field: pa.Field) -> pa.Array:
    """Converts ids to text, damaged ids to null."""
    return _without(id_text(column, field.name, DAMAGED), DAMAGED)


def _lined_ids(column: pa.Array, field: pa.Field) -> pa.Array:
    """Converts ids of a text file; an id with a line end comes from an open quote and is null."""
    return _without(_ids(column, field), "\n")


def _without(column: pa.Array, text: str) -> pa.Array:
    return pc.if_else(pc.match_substring(column, text), pa.scalar(None, pa.string()), column)
