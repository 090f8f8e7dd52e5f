"""Proposals for the columns of a table: what they are, from their names, and their values.

Values come from labels, a codebook, or a file that is public. Counts of repeated ids are for a
question to the operator, and decide nothing: an id that repeats within a period is often a number
within a household, a clinic or a school. CONFIDENTIAL.
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TypeVar
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.population.celltext import cell_text
from stream_dp.population.table_bounds import bounded_lines, readable
from stream_dp.population.tables import FileForm
from stream_dp.population.tables.column_layout import numbered_columns
from stream_dp.population.tables.column_order import ColumnOrder
from stream_dp.population.tables.labelled_files import file_labels, is_labelled
from stream_dp.population.tables.table_files import read_rows
from stream_dp.population.tables.value_texts import AmbiguousCoding, Coding, ValueTexts
from stream_dp.study.field_types import ABSENT
from stream_dp.study.period_texts import PeriodTexts, named_period
from stream_dp.study.periods import Periods

T = TypeVar("T")
MOST_VALUES = 60  # that are proposed for a column
_EMPTY = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", ".", "-")  # of no answer
_ANY = "{}"  # what differs in names of columns
_NAMES = ("column", "name", "variable", "attribute")
_VALUES = ("value", "code")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?", re.ASCII)
_SPECIAL = re.compile(r"-[0-9]+(?:\.0*)?|77+|88+|9+[0-9]?[6-9]", re.ASCII)
_NO_ANSWER = re.compile(
    r"^(missing|unknown|n/?a)\b|refus|no answer|don.?t know|applicable|not (asked|stated|known)",
    re.IGNORECASE,
)
_PLAIN_LABEL = re.compile(r"[^\W_][^,|?&\"']{0,59}")  # that a list of answers can have


def labelled_values(labels: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """By column, its labels; its codes where a label has a comma, or stands there twice.

    A column has no entry if only codes of no answer have a label, such as -9 beside ages.

    labels: by column, the labels by code.
    """
    values = {}
    for column, named in labels.items():
        if not _lists_answers(named):
            continue
        texts = list(named.values())
        plain = all(_PLAIN_LABEL.fullmatch(text) and text != ABSENT for text in texts)
        values[column] = texts if plain and len(set(texts)) == len(texts) else list(named)
    return values


def _is_answer(code: str, label: str) -> bool:
    """Whether a code is an answer by its number and its label; -9, 77 and 998 are none."""
    return not (_SPECIAL.fullmatch(code) or _NO_ANSWER.search(label))


def _lists_answers(labels: Mapping[str, str]) -> bool:
    """Whether labels list answers. Beside a number only its codes of no answer have labels."""
    return sum(_is_answer(code, label) for code, label in labels.items()) > 1


def labelled_example(labels: Mapping[str, str]) -> str:
    """An example of values beside labelled codes, with the labels."""
    shown = ", ".join(f"{code} = {label}" for code, label in islice(labels.items(), 6))
    return f"{next(iter(labels))},0 to 10; labels: {shown}"


def value_to_show(values: Sequence[int | str], labels: Mapping[str, str]) -> int | str:
    """The value that figures show: of texts the first, of numbers the last, and an answer."""
    silent = {text for pair in labels.items() if not _is_answer(*pair) for text in pair}
    answers = [v for v in values if str(v) not in silent] if silent else values
    shown = answers or values
    return shown[-1 if isinstance(shown[-1], int) else 0]


def known_coding(
    labels: Mapping[str, str], proposed: Sequence[str], values: Sequence[str]
) -> Coding | None:
    """What a column holds if its declared values are the proposed ones, and may be either.

    labels: of the column, by code.
    proposed: values for the column: its labels, or codes.
    values: the declared values.

    Returns None where `send` knows by itself, or must ask.
    """
    try:
        ValueTexts.of(labels, {}, set(values).__contains__)
    except AmbiguousCoding:
        if [*values] == [*proposed] == [*labels.values()]:
            return Coding.LABELS
        if [*values] == [*proposed] and {*proposed} <= {*labels}:
            return Coding.CODES
    return None


def codebook_values(path: Path) -> dict[str, list[str]]:
    """By column, the values in a codebook. Raises UserError.

    A codebook is a CSV with a row for each value, DDI, or a file of SPSS or Stata with labels.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    if is_labelled(path):
        named = file_labels(path).values
        return {column: [*codes] for column, codes in named.items() if _lists_answers(codes)}
    if path.suffix.lower() == ".xml":
        return _documented_values(path)
    with readable(path), path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(bounded_lines(path, file))
        header = {(name or "").strip().casefold(): name for name in rows.fieldnames or ()}
        column = next((header[name] for name in _NAMES if name in header), None)
        value = next((header[name] for name in _VALUES if name in header), None)
        if column is None or value is None:
            raise UserError(f"{path}: a codebook has a column 'column' and a column 'value'")
        values: dict[str, list[str]] = {}
        for row in islice(rows, 100_000):
            text = (row[value] or "").strip()
            listed = values.setdefault((row[column] or "").strip(), [])
            if text and text not in listed:
                listed.append(text)
    return values


def _documented_values(path: Path) -> dict[str, list[str]]:
    """By variable, the values of its categories in DDI, without those that mean missing."""
    values: dict[str, list[str]] = {}
    try:
        for _, element in ElementTree.iterparse(path):
            if element.tag.rpartition("}")[2] != "var":
                continue
            found = [
                (category.findtext("{*}catValu") or "").strip()
                for category in element.iterfind("{*}catgry")
                if category.get("missing") != "Y"
            ]
            values[element.get("name", "")] = list(dict.fromkeys(filter(None, found)))
            element.clear()
    except (ElementTree.ParseError, LookupError, OSError):
        raise UserError(f"{path}: cannot be read as a codebook in DDI") from None
    return values


@lru_cache(maxsize=1)  # a page repeats the interview with every answer
def public_values(path: Path, form: FileForm, columns: tuple[str, ...]) -> Mapping[str, list[str]]:
    """By column, the texts in the cells of a file that is public, sorted. Raises UserError.

    Columns of more than `MOST_VALUES` texts are left out.
    """
    seen: dict[str, set[str]] = {column: set() for column in columns}
    with readable(path):
        for rows in read_rows(path, form):
            for column in list(seen):
                cells = rows.batch.column(rows.batch.schema.get_field_index(column))
                texts = cell_text(cells, column, "").to_pylist()
                seen[column] |= {text for text in texts if text}
                if len(seen[column]) > MOST_VALUES:
                    del seen[column]
    return {column: sorted(texts, key=_order) for column, texts in seen.items() if len(texts) > 1}


@lru_cache(maxsize=8)
def has_every_cell(
    path: Path, form: FileForm, ids: tuple[str, ...], period: str, columns: tuple[str, ...]
) -> bool:
    """Whether every person has a row in every period of a file, without an empty cell.

    ids, period, columns: of ids, of the period, and of answers; without ids each row is a person.
    The values of cells are not looked at. Raises UserError.
    """
    keys: list[pa.Array] = []
    people: list[pa.Array] = []
    with readable(path):
        for rows in read_rows(path, form):
            texts = {}
            for name in (*ids, *([period] if period else []), *columns):
                cells = rows.batch.column(rows.batch.schema.get_field_index(name))
                texts[name] = pc.fill_null(cell_text(cells, name, ""), "")
            if any(pc.any(pc.is_in(texts[name], pa.array(_EMPTY))).as_py() for name in texts):
                return False
            if ids:
                people.append(pc.binary_join_element_wise(*(texts[name] for name in ids), "\n"))
                keys.append(texts[period] if period else pa.repeat("", len(people[-1])))
    if not keys:
        return not period
    person, when = pa.chunked_array(people), pa.chunked_array(keys)
    together = pc.binary_join_element_wise(person, when, "\n")
    expected = pc.count_distinct(person).as_py() * pc.count_distinct(when).as_py()
    return bool(pc.count_distinct(together).as_py() == expected)


def _order(text: str) -> tuple[int, float, str]:
    return (0, float(text), "") if _NUMBER.fullmatch(text) else (1, 0, text)


_PERSON = re.compile(
    r"(p|person|pers|member|household|hh|resp|respondent|participant|subject|case|unit)?"
    r"_?(id|idcode|key|nr|no|num|number)?"
)
# Ids in large panel studies, which are a person's own in all waves.
_PANEL_IDS = ("pidp", "persnr", "xwaveid", "mergeid", "nomem_encr", "hhidpn")
_ID = re.compile(r"(id|idcode|key|nr|no|num|number)$")
_GROUP = re.compile(r"(household|hh|family|hogar)_?(id|key|nr|no|num)?")
_MEMBER = re.compile(r"(p|per|pers|person|member|line)_?(nr|no|num|number)|member")
_GROUP_ID = re.compile(r"(household|hh|family|hogar)_?(id|key|nr|no|num)|hidp?|hhrhid")
# Names of design weights. A column "weight" may as well be an answer, in kilograms.
_WEIGHT = re.compile(
    r"(\w+_)?(p|f|fnl)?_?wgh?t|(p|f|fnl)wt"
    r"|(p|f|survey|svy|design|sampling|sample|person|final)_?(weights?|wt)"
)
PAIR = "+"  # between the columns of a group's key and a member's number
_PERIOD = (
    *("period", "month", "quarter", "year", "syear", "svyyear", "week", "date", "day"),
    *("wave", "time", "visit"),
)
_BEFORE = re.compile(r"(survey|reference|ref|interview|report|reporting|observation)_")
_YEARS = ("year", "syear", "svyyear")
_WITHIN = ("month", "quarter", "week", "day")
_PAIR = (_GROUP, _MEMBER)


def _folded(name: str) -> str:
    """A column's name in small letters, with `_` for blanks and signs."""
    return re.sub(r"[\W_]+", "_", name.casefold()).strip("_")


@dataclass(frozen=True)
class TableHeader:
    """The names of a table's columns, in order."""

    names: tuple[str, ...]

    @property
    def person(self) -> str:
        """The column that looks like ids, or a group's key and a member's number; else empty."""
        if own := next((n for n in self.names if _folded(n) in _PANEL_IDS), ""):
            return own
        pair = [next((n for n in self.names if p.fullmatch(_folded(n))), "") for p in _PAIR]
        if all(pair):
            return PAIR.join(pair)
        named = [n for n in self.names if n and _PERSON.fullmatch(_folded(n))]
        # A column "resp" may as well be an answer.
        return next((n for n in named if _ID.search(_folded(n))), next(iter(named), ""))

    @property
    def period(self) -> str:
        """The column that looks like periods; empty if none does."""
        folded = {_BEFORE.sub("", _folded(name)): name for name in reversed(self.names)}
        # Beside a year, a month or a quarter is only its number within the year.
        by_year = any(year in folded for year in _YEARS)
        words = [word for word in _PERIOD if not (by_year and word in _WITHIN)]
        return next((folded[word] for word in words if word in folded), "")

    def answers(self, columns: Sequence[str]) -> list[str]:
        """Those of the columns that are not named as a household's key or as a design weight."""
        other = (_GROUP_ID, _WEIGHT)
        return [n for n in columns if not any(p.fullmatch(_folded(n)) for p in other)]

    @property
    def wide(self) -> str:
        """The most frequent pattern of numbered columns, like `m{}`; empty without a pattern.

        `{}` are the columns that are named as periods.
        """
        return _ANY if len(self.matching(_ANY)) > 1 else numbered_columns(self.names)

    def matching(self, pattern: str) -> list[str]:
        """The columns that a pattern with `{}` fits."""
        if pattern == _ANY:
            named = ((name, named_period(name)) for name in self.names)
            return [name for name, period in named if period and period[0] != "step"]
        prefix, _, suffix = pattern.partition("{}")
        fits = re.compile(re.escape(prefix) + ".*" + re.escape(suffix), re.DOTALL).fullmatch
        return [name for name in self.names if fits(name)]

    def horizon(self, pattern: str) -> str:
        """The first period and the number of periods of a pattern's columns, as an answer."""
        prefix, _, suffix = pattern.partition("{}")
        columns = self.matching(pattern)
        named = [
            named_period(c) or named_period(c[len(prefix) : len(c) - len(suffix)]) for c in columns
        ]
        found = [period for period in named if period is not None]
        units = {unit for unit, _ in found}
        if len(found) == len(columns) and len(units) == 1 and units != {"step"}:
            first = min(label for _, label in found)
            (every,) = units
            labels = Periods(every=every, first=first, count=len(columns)).labels
            if {*labels} == {label for _, label in found}:
                return f"{first}, {len(columns)}"
        return f"1, {len(columns)}"

    def of_column(self, facts: Mapping[str, T], column: str) -> T | None:
        """What is known about a column, or about all columns of a pattern alike; else None.

        facts: by column.
        """
        columns = [column] if column in self.names else self.matching(column)
        known = [facts.get(name) for name in columns]
        return known[0] if known and all(fact == known[0] for fact in known) else None

    def period_columns(self, pattern: str, periods: Periods) -> dict[str, str]:
        """The `--columns` of `send` for the columns of a pattern: their periods.

        Columns whose names do not tell their periods have the periods in the order of their
        numbers if periods are steps, and else the period that ends in their number. Raises
        UserError for a column without a period.
        """
        columns, labels = self.matching(pattern), periods.labels
        if pattern == _ANY and {PeriodTexts(periods).label(c) for c in columns} <= {*labels}:
            return {}  # `send` knows them by their names
        prefix, _, suffix = pattern.partition("{}")
        texts = {column: column[len(prefix) : len(column) - len(suffix)] for column in columns}
        try:
            ColumnOrder(periods, PeriodTexts(periods)).assign(pattern, texts, "")
        except UserError as error:
            refusal = error
        else:
            return {pattern: "..."}
        found: dict[str, str] = {}
        if periods.every == "step" and all(re.fullmatch("[0-9]{1,9}", t) for t in texts.values()):
            ordered = sorted(columns, key=lambda column: int(texts[column]))
            found = dict(zip(ordered, labels, strict=False))
        for column, text in texts.items() if periods.every != "step" else ():
            ending = [label for label in labels if text and label.endswith(text)]
            found |= {column: ending[0]} if len(ending) == 1 else {}
        if missing := [column for column in columns if column not in found]:
            if any(not re.fullmatch("[0-9]+", text) for text in texts.values()):
                raise refusal
            raise UserError(
                f"column '{missing[0]}' has no period of its own from {labels[0]} to {labels[-1]};"
                " give more periods, or begin again with periods of length 'step'"
            )
        return found


def study_name(text: str) -> str:
    """A name that a study file accepts: letters, digits, '.', '_' and '-'.

    >>> study_name("Beschäftigung in der Straße"), study_name("%")
    ('Beschaftigung-in-der-Strasse', 'study')
    """
    letters = unicodedata.normalize("NFKD", text.replace("ß", "ss"))
    text = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:64] or "study"


def attribute_names(columns: Sequence[str]) -> dict[str, str]:
    """By column, a name of an attribute that a study file accepts, each once."""
    named: dict[str, str] = {}
    for column in columns:
        name = study_name(column.casefold())
        while name in named.values():
            name = f"{name[:60]}-{len(named) + 1}"
        named[column] = name
    return named


_SPREAD = np.int64(0x1E3779B97F4A7C15)  # odd, for multiplicative hashing
_NO_CELL = np.int64(0)
Hashes = NDArray[np.int64]


@dataclass(frozen=True)
class RepeatedIds:
    """Rows whose id and period stand in an earlier row.

    rows: how many.
    beside: the column that makes an id of its own of each, together with the id; empty if none
        does.
    """

    rows: int
    beside: str


NO_REPEATED_IDS = RepeatedIds(0, "")


def repeated_ids(
    path: Path, form: FileForm, person: str, period: str | None, others: Sequence[str]
) -> RepeatedIds:
    """Counts the rows of a file that repeat an id, and looks for the column beside it.

    period: the column of periods; None if all rows are of one, or each column is.
    others: the columns that may stand beside the id, in order.

    Raises UserError.
    """
    columns = dict.fromkeys([person, *([] if period is None else [period]), *others])
    cells = _hashes(path.resolve(), form, tuple(columns))
    told = cells[person] != _NO_CELL
    within = [] if period is None else [cells[period][told]]
    ids, rows = cells[person][told], int(told.sum())
    repeated = rows - _distinct(ids, *within)
    beside = dict[str, int]()
    for name in others if repeated else ():
        further = cells[name][told]
        pairs = _distinct(further, ids)
        # An answer tells rows apart, too. Ids of people come again in other periods, or, where
        # there are none, are fewer than the rows in one of their parts.
        sound = pairs < rows if within and _distinct(*within) > 1 else _distinct(further) < rows
        if sound and _distinct(further, ids, *within) == rows and (further != _NO_CELL).all():
            beside[name] = pairs
    return RepeatedIds(repeated, min(beside, key=beside.__getitem__, default=""))


def _distinct(*columns: Hashes) -> int:
    """The number of different rows."""
    joined = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        joined = joined * _SPREAD + column
    return int(np.unique(joined).size)


@lru_cache(maxsize=1)  # a page repeats the interview with every answer
def _hashes(path: Path, form: FileForm, columns: tuple[str, ...]) -> Mapping[str, Hashes]:
    """By column, a hash of every cell that holds for this process; `_NO_CELL` of an empty cell."""
    chunks: dict[str, list[Hashes]] = {column: [] for column in columns}
    with readable(path):
        for rows in read_rows(path, form):
            for column, hashes in chunks.items():
                cells = rows.batch.column(rows.batch.schema.get_field_index(column))
                coded = pc.fill_null(cell_text(cells, column, ""), "").dictionary_encode()
                texts = coded.dictionary.to_pylist()
                of_text = np.array([hash(text) if text else _NO_CELL for text in texts], np.int64)
                hashes.append(of_text[coded.indices.to_numpy()])
    return {column: np.concatenate(hashes) for column, hashes in chunks.items()}
