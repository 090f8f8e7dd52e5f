"""Columns of a table as attributes of a study: their public values, and the codes of cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.population.celltext import cell_text
from stream_dp.study import Attribute
from stream_dp.study.alphabet import ABSENT

from .public_domain import content_hash

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
