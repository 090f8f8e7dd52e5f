"""The study behind a call in a notebook: its budget, and a table's columns as its attributes.

The values of columns are declared, or come from a public table, which is checked and whose content
is hashed: never from the protected table. The faults of the study are those of the call's
arguments.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_dp.batch.fit_tables import exact_budget
from stream_dp.errors import UserError, visible
from stream_dp.population.arrow_tables import ArrowStream, arrow_table
from stream_dp.population.celltext import cell_text
from stream_dp.release.published_tables import number_cells
from stream_dp.study import Numbers, Scale, Study
from stream_dp.study.call_arguments import Number, exact_delta
from stream_dp.study.field_types import ABSENT, NAME_PATTERN, is_formula
from stream_dp.study.scale import code_notice, round_bins
from stream_dp.studyfile import parse_study

# By the beginning of a key of a study file, the argument of a call.
_ARGUMENTS = (
    (re.compile(r"^attributes\.([^:]+)\.missing\b"), r"missing['\1']"),
    (re.compile(r"^attributes\.([^:]+)\.special\b"), r"special['\1']"),
    (re.compile(r"^attributes\.([^:]+)\.missing_codes\b"), r"special['\1']"),
    (re.compile(r"^attributes\.([^:]+)\.(number|bins)\b"), r"bins['\1']"),
    (re.compile(r"^attributes\.([^:.]+)(\.values)?"), r"values['\1']"),
    (re.compile(r"^releases\[\d+\]\.?"), ""),
    (re.compile(r"^study\.(periods\.|population\.)?"), ""),
)


def budget(rho: Number | None, epsilon: Number | None, delta: Number) -> tuple[Fraction, Fraction]:
    """rho, and delta. Raises UserError unless one of rho and epsilon is given, and sound."""
    exact = exact_delta(delta)
    return exact_budget(rho, epsilon, exact)[0], exact


def one_study(
    attributes: Mapping[str, object],
    releases: Sequence[Mapping[str, object]],
    *,
    unit: str,
    neighbours: str,
    rho: Fraction,
    delta: Fraction,
    size: int | None,
    periods: Mapping[str, object],
) -> Study:
    """A study with these releases, which share rho equally. Raises UserError."""
    head = {
        "name": "notebook",
        "unit": unit,
        "neighbours": neighbours,
        "rho": str(rho),
        "delta": str(delta),
        "periods": dict(periods),
        "population": {} if size is None else {"size": size},
    }
    share = str(rho / max(1, len(releases)))
    try:
        return parse_study(
            {
                "study": head,
                "attributes": dict(attributes),
                "releases": [{**release, "rho": share} for release in releases],
            }
        )
    except UserError as error:
        raise UserError(map(_argument, error.lines)) from None


def _argument(line: str) -> str:
    for pattern, name in _ARGUMENTS:
        line = pattern.sub(name, line)
    return line


Values = Sequence[Any] | range  # of a column; None among them allows empty cells
MOST_LISTED = 64  # whole numbers that are values of their own; more are cut into bins
BINS = 20  # about, of a column whose edges are not declared
LONGEST_ANSWER = 64


_MOST_WORDS = 6  # values of a column that are shown


@dataclass(frozen=True)
class DeclaredColumn:
    """A column with its public values.

    values: as the table has them, without None; of a range that is cut, the range.
    empty: whether a cell may be empty.
    edges: of the bins of a range that is cut; empty for listed values.
    special: the codes beside a range that is cut; None if nothing is said about codes.
    points: the declared range: numbers between its numbers are rounded. None without a range.
    source: the hash of the public table that the values were taken from; None if declared.
    """

    name: str
    values: Values
    empty: bool = False
    edges: tuple[int, ...] = ()
    special: tuple[int, ...] | None = None
    points: range | None = None
    source: str | None = None

    @staticmethod
    def of(
        name: str,
        values: object,
        edges: Sequence[int] | None = None,
        special: Sequence[int] | None = None,
    ) -> DeclaredColumn:
        """The column of an argument `values`. Raises UserError for what is no list of values."""
        given = listed_values(values)
        ranges = [value for value in given or () if isinstance(value, range) and value]
        if not given or len(ranges) < sum(isinstance(value, range) for value in given):
            raise UserError(
                f"values: '{name}' needs a list of its possible values, or a range of whole numbers"
            )
        if len(ranges) > 1:
            raise UserError(
                f"values: '{name}' has several ranges; declare one, and codes beside it"
            )
        if edges is not None and not ranges:
            raise UserError(f"bins: '{name}' needs values = range(least, most + 1, step)")
        present = [value for value in given if value is not None]
        present += [code for code in special or () if code not in present]
        empty = len(given) > sum(value is not None for value in given)
        if not ranges:
            return _checked(DeclaredColumn(name, present, empty))
        points = ranges[0] if ranges[0].step > 0 else ranges[0][::-1]
        if edges is None and len(points) + len(present) - 1 <= MOST_LISTED:
            values = [v for value in present for v in (points if value is ranges[0] else (value,))]
            return _checked(DeclaredColumn(name, values, empty, points=points))
        codes = tuple(value for value in present if value is not ranges[0])
        if any(type(code) is not int for code in codes):
            raise UserError(
                f"values: beside its range '{name}' may have whole numbers as codes, and None"
            )
        bins = round_bins(points, BINS) if edges is None else tuple(edges)
        told = codes if codes or special is not None else None
        return DeclaredColumn(name, points, empty, bins, told, points)

    @cached_property
    def texts(self) -> list[str]:
        """The listed values as text. Raises UserError for values that a table cannot hold."""
        try:
            return list(cell_text(pa.array(self.values), self.name).to_pylist())
        except (pa.ArrowException, TypeError, OverflowError, UserError):
            raise UserError(
                f"values: those of '{self.name}' must all be text, numbers or dates"
            ) from None

    @property
    def notice(self) -> str | None:
        """A line about a range with possible codes; None for columns without a suspicion."""
        if self.points is None or not self.edges or self.special is not None:
            return None
        notice = code_notice(_scale(self.points))
        return None if notice is None else f"values: '{self.name}' {notice}"

    @property
    def words(self) -> str:
        """The values in words."""
        if self.edges and self.points is not None:
            codes = f"; {', '.join(map(str, self.special))} are no numbers" if self.special else ""
            words = f"numbers from {self.points[0]} to {self.points[-1]}{codes}"
        else:
            more = f" and {len(self.texts) - _MOST_WORDS} more" if self.texts[_MOST_WORDS:] else ""
            words = f"{', '.join(self.texts[:_MOST_WORDS])}{more}"
        return f"{words}; or empty" if self.empty else words

    def declaration(self, missing: object = None) -> dict[str, object]:
        """The attribute as a study declares it. missing: its rule; by default from `empty`."""
        source = {} if self.source is None else {"values_from": self.source}
        if self.edges and self.points is not None:
            points = self.points
            scale = {"least": points[0], "most": points[-1], "step": points.step}
            return {
                "number": scale,
                "bins": list(self.edges),
                **({} if self.special is None else {"special": list(self.special)}),
                "missing": missing or (ABSENT if self.empty else points[0]),
                **source,
            }
        whole = all(type(value) is int for value in self.values)
        values = list(self.values if whole else self.texts)
        rule = ABSENT if self.empty or not values else values[0]
        return {"values": values, "missing": rule if missing is None else missing, **source}

    def cells(self, codes: NDArray[np.integer]) -> pa.Array:
        """The cells of codes, in the type of the values; null for empty ones."""
        if self.edges and self.points is not None:
            special, scale = self.special or (), _scale(self.points)
            return number_cells(Numbers(scale, self.edges, self.empty, special), codes)
        return pa.array([*self.values, None]).take(pa.array(codes.astype(np.int64)))


def listed_values(values: object) -> list[Any] | None:
    """The values of a list, a range, an array or a column; None for anything else.

    Cells without a value, such as NaN, are None.
    """
    if isinstance(values, range):
        return [values]
    if isinstance(values, str | bytes | Mapping):
        return None
    if callable(to_list := getattr(values, "tolist", None)):
        values = to_list()
    if not isinstance(values, Sequence):
        return None
    plain = (value.item() if isinstance(value, np.generic) else value for value in values)
    return [None if _is_nothing(value) else value for value in plain]


def _is_nothing(value: object) -> bool:
    """Whether a value stands for an empty cell: None, NaN, or the ones of pandas."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or type(value).__name__ in {"NAType", "NaTType"}


def _scale(points: range) -> Scale:
    return Scale(least=points[0], most=points[-1], step=points.step)


def _checked(column: DeclaredColumn) -> DeclaredColumn:
    """The column. Raises UserError for an answer that a study cannot have."""
    for text in column.texts if any(isinstance(v, str) for v in column.values) else ():
        fault = None
        if len(text) > LONGEST_ANSWER:
            fault = f"has {len(text)} characters, at most {LONGEST_ANSWER}: write a shorter one"
        elif signs := re.findall("[|?=&\x00-\x1f]", text):
            fault = f"has {visible(signs[0])!r} in it: write it without"
        elif is_formula(text):
            fault = "begins like a formula of a spreadsheet: write it without the first sign"
        elif text == ABSENT:
            fault = "stands for empty cells: write None among the values, or another word"
        elif not text:
            fault = "is an empty cell: write None among the values"
        if fault is not None:
            shown = visible(text[:20]) + ("..." if text[20:] else "")
            raise UserError(
                f"values: '{shown}' of '{column.name}' {fault}; change it in the table, too, in"
                f" pandas with .replace"
            )
    return column


def declared_columns(
    values: Mapping[str, Values] | None,
    public: pa.Table | None,
    bins: Mapping[str, Sequence[int]] | None,
    special: Mapping[str, Sequence[int]] | None = None,
) -> tuple[DeclaredColumn, ...]:
    """The columns of `values`, and the other columns of a public table, `domain_from`.

    Raises UserError.
    """
    declared, edges = named(values, "values"), named(bins, "bins")
    codes = checked_codes(named(special, "special"))
    if values is None and public is None:
        raise UserError(
            "values: declare the possible values of each column, or domain_from = a public table;"
            " they are public, so never take them from the protected table"
        )
    columns = [
        DeclaredColumn.of(name, v, edges.pop(name, None), codes.pop(name, None))
        for name, v in declared.items()
    ]
    if public is not None:
        taken, source = {column.name for column in columns}, content_hash(public)
        columns += [
            replace(_public_column(public, name, codes.pop(name, None)), source=source)
            for name in public.column_names
            if name not in taken
        ]
    for argument, unused in (("bins", edges), ("special", codes)):
        if unused:
            raise UserError(f"{argument}: '{next(iter(unused))}' is none of the columns in values")
    for column in columns:
        if not re.fullmatch(NAME_PATTERN, column.name):
            sound = re.sub("[^A-Za-z0-9._-]+", "_", column.name).lstrip("._-")[:64] or "column"
            raise UserError(
                f"values: '{visible(column.name)}' is no name of a column here: names have letters,"
                " digits, '.', '_' and '-', at most 64; rename it, in pandas with"
                f" .rename(columns={{{column.name!r}: {sound!r}}})"
            )
    return tuple(columns)


def named(mapping: Mapping[Any, Any] | None, argument: str) -> dict[str, Any]:
    """The entries of an argument by the text of a column's name, which may be a whole number.

    Raises UserError for anything but a dict, and for other names.
    """
    if mapping is None:
        return {}
    if not isinstance(mapping, Mapping):
        raise UserError(f"{argument}: must be a dict with an entry for each column")
    return {column_name(name, argument): entry for name, entry in mapping.items()}


def column_name(name: object, argument: str) -> str:
    """The text of a column's name. Raises UserError for a name that is no text and no number."""
    if isinstance(name, str):
        return name
    if isinstance(name, int | np.integer) and not isinstance(name, bool):
        return str(name)
    raise UserError(
        f"{argument}: {name!r} is no name of a column; names are text: rename the column"
    )


def checked_codes(codes: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The codes of the argument `special`. Raises UserError."""
    listed = {name: listed_values(several) for name, several in codes.items()}
    for name, several in listed.items():
        if several is None or any(type(code) is not int for code in several):
            raise UserError(f"special: '{name}' needs a list of whole numbers, such as [-9, -8]")
    return {name: tuple(several or ()) for name, several in listed.items()}


def _public_column(
    public: pa.Table, name: str, special: tuple[int, ...] | None = None
) -> DeclaredColumn:
    """The column with the values that a public table has. Raises UserError.

    special: numbers of the table that are codes.
    """
    cells = public[name].combine_chunks()
    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    if pa.types.is_floating(cells.type):
        cells = pc.if_else(pc.is_nan(cells), None, cells)
        try:
            cells = cells.cast(pa.int64())
        except pa.ArrowException:
            raise UserError(
                f"domain_from: '{name}' has fractions; round its numbers, or declare it in values"
            ) from None
    distinct = pc.unique(cells).drop_null()
    if not len(distinct):
        raise UserError(f"domain_from: '{name}' has no values")
    empty = bool(cells.null_count)
    if not pa.types.is_integer(distinct.type) or len(distinct) <= MOST_LISTED:
        listed = sorted(distinct.to_pylist())
        return DeclaredColumn(
            name, [*listed, *(code for code in special or () if code not in listed)], empty
        )
    numbers = np.setdiff1d(distinct.to_numpy().astype(np.int64), np.array(special or (), np.int64))
    step = math.gcd(*numbers.tolist())
    points = range(int(numbers[0]), int(numbers[-1]) + 1, step)
    shares = np.arange(1, BINS) / BINS
    present = cells.drop_null().to_numpy()
    edges = np.unique(
        np.quantile(present[np.isin(present, numbers)], shares, method="higher")
    ).tolist()
    bins = tuple(int(e) for e in edges if e > points[0])
    return DeclaredColumn(name, points, empty, bins, special, points)


_REMEDY = (
    "its values would be published exactly: declare the values, or give a table that is public"
)


def public_domain(
    domain_from: ArrowStream, protected: pa.Table, ids: Collection[str] = ()
) -> pa.Table:
    """The public table of the argument `domain_from`.

    protected: the table whose people are protected. Confidential.
    ids: its columns that name people, and when they answer.

    Raises UserError for the protected table itself: for equal rows in any order, in the columns
    that both tables have; and for a row of a person of the protected table, where both tables have
    all of `ids`.
    """
    public = arrow_table(domain_from, "domain_from")
    shared = sorted({*public.column_names} & {*protected.column_names})
    if not shared:
        return public
    ours, theirs = _rows(public, shared), _rows(protected, shared)
    if len(ours) == len(theirs) and _sorted(ours).equals(_sorted(theirs)):
        raise UserError(f"domain_from: has the rows of the protected table; {_REMEDY}")
    if ids and {*ids} <= {*shared} and pc.any(pc.is_in(ours, theirs)).as_py():
        raise UserError(f"domain_from: has rows of people of the protected table; {_REMEDY}")
    return public


def content_hash(table: pa.Table) -> str:
    """The SHA-256 of a table's content, `sha256:...`, whatever the order of rows and columns.

    It is taken of the columns' names, sorted, as a JSON list in UTF-8, and of the rows' texts,
    sorted by their bytes. A row's text has for each cell, in the order of the names, the length of
    its text in bytes, a colon and the text; of an empty cell a hyphen alone.
    """
    names = sorted(table.column_names)
    digest = hashlib.sha256(json.dumps(names, ensure_ascii=False).encode())
    for text in _sorted(_rows(table, names)).to_pylist():
        digest.update(text)
    return f"sha256:{digest.hexdigest()}"


def _rows(table: pa.Table, names: Sequence[str]) -> pa.Array:
    """The text of every row in these columns."""
    cells = []
    for name in names:
        text = cell_text(table[name], f"domain_from: {name}", "\ufffd")
        text = pc.cast(pc.cast(text, pa.large_string()), pa.large_binary())
        length = pc.cast(pc.cast(pc.binary_length(text), pa.string()), pa.large_binary())
        cell = pc.binary_join_element_wise(length, text, pa.scalar(b":", pa.large_binary()))
        cells.append(pc.fill_null(cell, pa.scalar(b"-", pa.large_binary())))
    rows = pc.binary_join_element_wise(*cells, pa.scalar(b"", pa.large_binary()))
    return rows.combine_chunks() if isinstance(rows, pa.ChunkedArray) else rows


def _sorted(rows: pa.Array) -> pa.Array:
    return rows.take(pc.sort_indices(rows))
