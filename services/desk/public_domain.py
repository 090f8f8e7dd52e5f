"""The public table that values are taken from: its check, and the hash of its content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from stream_dp.errors import UserError
from stream_dp.population.arrow_tables import ArrowStream, arrow_table
from stream_dp.population.celltext import cell_text

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
