"""The decided panels, which a start reads column by column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from stream_dp.log.chain import read_parts
from stream_dp.log.log import Log
from stream_dp.log.message import Message, parts_in_records
from stream_dp.panel import Symbols
from stream_dp.release.published_panels import RELEASE_TYPE, read_panel
from stream_dp.study import Study
from stream_dp.study.topics import RELEASES

from .journal import Entry

NewColumns = tuple[tuple[str, ...], Callable[[], pa.Table]]  # their labels, and how to read them


class ReleasedPanel:
    """A release's panel, with the columns of a single period in memory.

    releases: the new columns of every period, in order.
    """

    def __init__(self, releases: Sequence[NewColumns]) -> None:
        self.periods = tuple(label for labels, _ in releases for label in labels)
        self._columns = [(read, label) for labels, read in releases for label in labels]
        self._read, self._table = releases[-1][1], releases[-1][1]()
        self.rows: int = self._table.num_rows

    def column(self, index: int) -> Symbols:
        """The codes of a column, (rows,). Raises Inconsistent."""
        read, label = self._columns[index]
        if read is not self._read:
            self._read, self._table = read, read()
        return np.asarray(self._table[label].to_numpy(), np.uint8)


def released_panels(
    study: Study, public: Log, chain: Sequence[Message], waiting: Sequence[Entry]
) -> dict[str, ReleasedPanel]:
    """The panels of a study's releases, by name, without the empty ones.

    chain: the public log's messages, which the journal decided.
    waiting: the entries after them, whose records the public log may not show yet.
    """
    releases: dict[str, list[NewColumns]] = {release.name: [] for release in study.releases}
    for message in chain:
        if message.head.get("type") == RELEASE_TYPE:
            columns = tuple(message.head["columns"])
            releases[message.head["release"]].append((columns, partial(_table, public, message)))
    for entry in waiting:
        records = entry.public_records()
        for name, several in releases.items():
            parts = parts_in_records(
                [r for r in records if (r.key or b"").endswith(f"/{name}".encode())]
            )
            if parts:
                table = read_panel(parts)
                several.append((tuple(table.column_names), partial(_same, table)))
    return {name: ReleasedPanel(several) for name, several in releases.items() if several}


def _table(public: Log, message: Message) -> pa.Table:
    return read_panel(read_parts(public, RELEASES, message, "public log").parts)


def _same(table: pa.Table) -> pa.Table:
    return table
