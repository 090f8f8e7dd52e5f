"""The study behind a call in a notebook: its budget, and a table's columns as its attributes.

The values of columns are declared, or come from a public table: never from the protected table. The
faults of the study are those of the call's arguments.
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

from stream_dp.errors import UserError
from stream_dp.population.arrow_tables import ArrowStream, arrow_table
from stream_dp.population.celltext import cell_text
from stream_dp.privacy.zcdp import rho_within
from stream_dp.study import Attribute, Study
from stream_dp.study.alphabet import ABSENT
from stream_dp.study.call_arguments import Number, exact_delta, exact_rho
from stream_dp.studyfile import parse_study

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
    """The text of each row in these columns."""
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


# By the beginning of a key of a study file, the argument of a call.
_ARGUMENTS = (
    (re.compile(r"^attributes\.([^:]+)\.missing\b"), r"missing['\1']"),
    (re.compile(r"^attributes\.([^:]+)\.(number|bins)\b"), r"bins['\1']"),
    (re.compile(r"^attributes\.([^:.]+)(\.values)?"), r"values['\1']"),
    (re.compile(r"^releases\[\d+\]\.?"), ""),
    (re.compile(r"^study\.(periods\.|population\.)?"), ""),
)


def budget(rho: Number | None, epsilon: Number | None, delta: Number) -> tuple[Fraction, Fraction]:
    """rho, and delta. Raises UserError unless one of rho and epsilon is given, and sound."""
    exact = exact_delta(delta)
    if (rho is None) == (epsilon is None):
        raise UserError("rho, epsilon: give one of the two")
    if epsilon is None:
        return exact_rho("rho", rho), exact
    return rho_within(exact_rho("epsilon", epsilon), exact), exact


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
BINS = 20


@dataclass(frozen=True)
class DeclaredColumn:
    """A column with its public values.

    values: as the table has them, without None; a range of whole numbers.
    empty: whether a cell may be empty.
    edges: of the bins of a range that is cut; empty for listed values.
    source: the hash of the public table that the values were taken from; None if declared.
    """

    name: str
    values: Values
    empty: bool = False
    edges: tuple[int, ...] = ()
    source: str | None = None

    @staticmethod
    def of(name: str, values: object, edges: Sequence[int] | None = None) -> DeclaredColumn:
        """The column of an argument `values`. Raises UserError for what is no list of values."""
        if isinstance(values, str | bytes) or not isinstance(values, Sequence) or not len(values):
            raise UserError(
                f"values: '{name}' needs a list of its possible values, or a range of whole numbers"
            )
        if edges is not None:
            values = values if isinstance(values, range) else None
        if values is None:
            raise UserError(f"bins: '{name}' needs values = range(least, most + 1, step)")
        if isinstance(values, range) and (edges is not None or len(values) > MOST_LISTED):
            return DeclaredColumn(name, values, False, tuple(edges or _equal_bins(values)))
        present = [value for value in values if value is not None]
        return DeclaredColumn(name, present, len(present) < len(values))

    @cached_property
    def texts(self) -> list[str]:
        """The listed values as text. Raises UserError for values that a table cannot hold."""
        try:
            return list(cell_text(pa.array(self.values), self.name).to_pylist())
        except (pa.ArrowException, TypeError, OverflowError, UserError):
            raise UserError(
                f"values: those of '{self.name}' must all be text, numbers or dates"
            ) from None

    def declaration(self, missing: object = None) -> dict[str, object]:
        """The attribute as a study declares it. missing: its rule; by default from `empty`."""
        source = {} if self.source is None else {"values_from": self.source}
        if self.edges:
            points = self.values
            assert isinstance(points, range)
            scale = {"least": points[0], "most": points[-1], "step": points.step}
            return {
                "number": scale,
                "bins": list(self.edges),
                "missing": missing or (ABSENT if self.empty else points[0]),
                **source,
            }
        whole = all(type(value) is int for value in self.values)
        values = list(self.values if whole else self.texts)
        rule = ABSENT if self.empty or not values else values[0]
        return {"values": values, "missing": rule if missing is None else missing, **source}

    def codes(self, table: pa.Table, attribute: Attribute) -> NDArray[np.int64]:
        """(rows,) codes of the cells of a table; -1 for undeclared cells and forbidden empty ones.

        Confidential. A cell's code depends on that cell alone.
        """
        cells = cell_text(table[self.name], self.name).combine_chunks()
        coded = pc.if_else(pc.equal(cells, ""), None, cells).dictionary_encode()
        read = [attribute.read(text) for text in coded.dictionary.to_pylist()]
        # A text that spells the symbol of an empty cell is no declared value.
        absent = attribute.codes.get(ABSENT, -1)
        by_text = [code if isinstance(code, int) and code != absent else -1 for code in read]
        places = coded.indices.fill_null(len(by_text)).to_numpy(zero_copy_only=False)
        codes: NDArray[np.int64] = np.array([*by_text, absent], np.int64)[places]
        return codes

    def cells(self, codes: NDArray[np.integer]) -> pa.Array:
        """The cells of codes, in the type of the values; null for empty ones."""
        if self.edges:
            points = self.values
            assert isinstance(points, range)
            numbers = points.start + points.step * codes.astype(np.int64)
            return pa.array(numbers, mask=codes == len(points))
        return pa.array([*self.values, None]).take(pa.array(codes.astype(np.int64)))


def declared_columns(
    values: Mapping[str, Values] | None,
    public: pa.Table | None,
    bins: Mapping[str, Sequence[int]] | None,
) -> tuple[DeclaredColumn, ...]:
    """The columns of `values`, and the other columns of a public table, `domain_from`.

    Raises UserError.
    """
    for name, mapping in (("values", values), ("bins", bins)):
        if mapping is not None and not isinstance(mapping, Mapping):
            raise UserError(f"{name}: must be a dict with an entry for each column")
    if values is None and public is None:
        raise UserError(
            "values: declare the possible values of each column, or domain_from = a public table;"
            " they are public, so never take them from the protected table"
        )
    edges = dict(bins or {})
    columns = [
        DeclaredColumn.of(name, v, edges.pop(name, None)) for name, v in (values or {}).items()
    ]
    if edges:
        raise UserError(f"bins: '{next(iter(edges))}' is none of the columns in values")
    if public is not None:
        taken, source = {column.name for column in columns}, content_hash(public)
        columns += [
            replace(_public_column(public, name), source=source)
            for name in public.column_names
            if name not in taken
        ]
    return tuple(columns)


def _public_column(public: pa.Table, name: str) -> DeclaredColumn:
    """The column with the values that a public table has. Raises UserError."""
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
        return DeclaredColumn(name, sorted(distinct.to_pylist()), empty)
    numbers = np.sort(distinct.to_numpy().astype(np.int64))
    step = math.gcd(*numbers.tolist())
    points = range(int(numbers[0]), int(numbers[-1]) + 1, step)
    shares = np.arange(1, BINS) / BINS
    edges = np.unique(np.quantile(cells.drop_null().to_numpy(), shares, method="higher"))
    return DeclaredColumn(name, points, empty, tuple(int(e) for e in edges if e > points[0]))


def _equal_bins(points: range) -> tuple[int, ...]:
    """The edges of bins with about as many numbers each."""
    return tuple(points[len(points) * i // BINS] for i in range(1, BINS))
