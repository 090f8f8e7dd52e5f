"""The first half of a close: the reports of an order are decoded, in tasks.

Where reports have schemas, which of them are known is decided once for an order, as a record that
everybody who works on it keeps to. So a schema that a registry learns meanwhile, or that only some
tasks knew, makes no difference between two aggregators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from stream_dp.errors import Inconsistent
from stream_dp.population.reports import ReadAs, SchemaUse
from stream_dp.population.shapes.schemas import check_number

from ..parts.orders import Order, OrderBoard, reading_record
from .pool import Pool
from .spill import Spilled, spill
from .tasks import Decoded, Range, Source


def read_reports(
    order: Order, source: Source, board: OrderBoard, pool: Pool, most: int
) -> tuple[list[Spilled], ReadAs | None]:
    """What is in the ranges of an order, and how it was read; None for plain reports.

    most: reports of one task at most.

    Raises Inconsistent where records are gone, schemas are others, or `[run.input]` is not the
    releaser's; Unavailable where a schema cannot be had now; UserError for too many schemas.
    """
    ranges, (read_as, settled) = ranges_of(order, most), first_reading(order, board)
    tasks = [replace(r, read_as=read_as, only=settled) for r in ranges]
    decoded = pool.map(partial(spill, source), tasks)
    if not settled:
        read_as, again = settle(order, source, board, [d.decoded for d in decoded])
        tasks = [replace(ranges[i], read_as=read_as, only=True) for i in again]
        for i, one in zip(again, pool.map(partial(spill, source), tasks), strict=True):
            decoded[i] = one
    return decoded, read_as


def first_reading(order: Order, board: OrderBoard) -> tuple[ReadAs | None, bool]:
    """How to read an order at first, and whether that is settled."""
    if order.read_as is None or not order.letters:
        return order.read_as, True
    settled = board.reading(order)
    return (order.read_as, False) if settled is None else (settled, True)


def settle(
    order: Order, source: Source, board: OrderBoard, decoded: Sequence[Decoded]
) -> tuple[ReadAs, list[int]]:
    """How an order is read from now on, and the places of what is to be decoded again.

    That is what was decoded in another way, and where dead letters waited, see `decode_reports`.
    """
    assert order.read_as is not None
    read_as = _together(order.read_as.mapping, decoded)
    if not read_as.schemas and not any(d.unknown for d in decoded):
        return read_as, []
    source.at("schemas")
    board.log.append([reading_record(order, read_as)])
    board.refresh()
    settled = board.reading(order)
    assert settled is not None
    return settled, [i for i, d in enumerate(decoded) if d.unknown or not agrees(d, settled)]


def ranges_of(order: Order, most: int) -> list[Range]:
    """The reports of an order, a task for at most so many."""
    return [
        Range(partition, start, min(start + most, end), order.number, order.parts, order.letters)
        for partition, (begin, end) in sorted(order.ranges.items())
        for start in range(begin, end, most)
    ]


def _together(mapping: str, decoded: Sequence[Decoded]) -> ReadAs:
    """All schemas that tasks have read with. Raises Inconsistent for two of the same id."""
    schemas = dict[int, SchemaUse]()
    for one in decoded:
        assert one.read_as is not None
        for number, use in one.read_as.schemas.items():
            known = schemas.setdefault(number, SchemaUse(use.sha256))
            if known.sha256 != use.sha256:
                raise Inconsistent(
                    f"schema {number}: it was another one for some of the reports of a period;"
                    " an id never changes its schema: mend the registry or the folder of schemas"
                )
    check_number(len(schemas))
    return ReadAs(mapping, schemas)


def agrees(decoded: Decoded, settled: ReadAs) -> bool:
    """Whether a range was read as is settled: with the same schemas, and all of them known."""
    assert decoded.read_as is not None
    return not decoded.unknown & settled.schemas.keys() and all(
        settled.schemas.get(number) == use for number, use in decoded.read_as.schemas.items()
    )
