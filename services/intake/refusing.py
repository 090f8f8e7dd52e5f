"""Dead letters for what is refused: written for records, or for cells by their positions."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable

from stream_dp.log.log import MAX_BATCH, Batch, Log, OutOfRange, Record, Stored, memory_bytes
from stream_dp.population.cells import Cells
from stream_dp.population.rejection_reasons import Reason
from stream_dp.study.topics import REPORTS

from .dead_letters import dead_letter
from .following import READ_AT_ONCE


def refuse_records(log: Log, records: Iterable[tuple[Stored, dict[Reason, int]]]) -> None:
    """Appends dead letters for records and their rejected cells, in writes of bounded size."""
    topic, letters, room = log.name(REPORTS), list[Record](), MAX_BATCH
    for record, cells in records:
        letters.append(dead_letter(record, cells, topic))
        room -= memory_bytes(letters[-1].key, letters[-1].value, letters[-1].headers)
        if room <= 0:
            log.append(letters)
            letters, room = [], MAX_BATCH
    log.append(letters)


def refuse_cells(log: Log, refused: Cells, reason: Reason) -> None:
    """Appends dead letters for cells that a close could not use, with their records."""
    counted = Tally(zip(refused.partition.tolist(), refused.offset.tolist(), strict=True))
    places = sorted(counted)
    while places:
        part, first = places[0]
        try:
            batch = log.read(REPORTS, {part: first}, READ_AT_ONCE, 0)
        except OutOfRange:
            # The report itself has expired; its position and the reason are still known.
            batch = Batch(
                [Stored(partition=part, offset=first, time=0, key=None, value=None, headers=())],
                {part: first + 1},
                False,
            )
        records = {(part, record.offset): record for record in batch.records}
        readable = [place for place in places if place in records]
        refuse_records(log, ((records[p], {reason: counted[p]}) for p in readable))
        places = [p for p in places if p[0] != part or p[1] >= max(batch.next[part], first + 1)]
