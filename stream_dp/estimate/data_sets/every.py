"""All answers of a data set as rows of the tidy table that panels' answers have, too."""

from __future__ import annotations

import pyarrow as pa

from ..every import ANSWER_COLUMNS
from .answer import answering
from .published import PublishedTables


def every_data_set_estimate(published: PublishedTables, head: str) -> pa.Table:
    """Each value of each column, and of each two, as counts and shares.

    Without measurements behind it an answer is the records' own, and has neither error nor
    interval; it has an interval alone where its columns were measured, but not together. head: the
    hash of the message up to which they use what is published.
    """
    rows = list(answering(published).every(published))
    ends = [row.interval or (None, None) for row in rows]
    columns = {
        "query": [row.query for row in rows],
        "measure": [row.measure for row in rows],
        "value": [row.value for row in rows],
        "standard_error": [row.standard_error for row in rows],
        "low": [low for low, _ in ends],
        "high": [high for _, high in ends],
    }

    def same(word: str | None) -> pa.Array:
        return pa.array([word] * len(rows), pa.string())

    return pa.table(
        {
            "release": same(published.declared.name),
            "period": same(published.period),
            "stratum": same(None),
            **{name: pa.array(columns[name], kind) for name, kind in ANSWER_COLUMNS.items()},
            "head": same(head),
        }
    )
