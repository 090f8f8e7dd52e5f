"""Reports per second from bytes to counts, against json and a dict in the same run.

    python benchmarks/reports.py [PEOPLE]

Both sides read the same JSON reports of a closing period, find each person's place, keep the
last three symbols and the running total, and count both. Two periods: in the first everybody is
new, in the second everybody is known. Then the second period's reports as records of other shapes,
decoded and folded.
"""

from __future__ import annotations

import io
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import fastavro
import numpy as np
from result_file import record

from stream_dp.log.log import Stored
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import Decoder
from stream_dp.population.shapes.decoder import ShapedDecoder
from stream_dp.study import (
    Attribute,
    CumulativeRelease,
    DeclaredPopulation,
    Input,
    Study,
    WindowRelease,
)
from stream_dp.study.periods import Periods

BATCH = 10_000


def study(size: int) -> Study:
    return Study(
        name="bench",
        unit="person",
        neighbours="replace_one",
        rho=Fraction(1, 100),
        delta=Fraction(1, 10**6),
        periods=Periods(first="1", every="step", count=12),
        population=DeclaredPopulation(size=size),
        attributes={"poverty": Attribute(values=(0, 1), missing=0)},
        releases=(
            WindowRelease(
                kind="window", name="w", attribute="poverty", width=3, rho=Fraction(1, 200)
            ),
            CumulativeRelease(
                kind="cumulative", name="c", attribute="poverty", event=(1,), rho=Fraction(1, 200)
            ),
        ),
    )


def raw(size: int, period: int) -> list[Stored]:
    symbols = np.random.default_rng(period).integers(0, 2, size)
    order = np.random.default_rng(period).permutation(size)
    return [
        Stored(
            partition=0,
            offset=place,
            time=0,
            key=None,
            value=b'{"person":"p%d","period":%d,"values":{"poverty":%d}}' % (i, period, symbols[i]),
            headers=(),
        )
        for place, i in enumerate(order)
    ]


class Baseline:
    """The same work with json, a dict of people, and Counters."""

    def __init__(self) -> None:
        self.recent: dict[str, int] = {}
        self.totals: dict[str, int] = {}

    def period(self, records: list[Stored], size: int) -> tuple[list[int], list[int]]:
        symbols: dict[str, int] = {}
        for stored in records:
            report = json.loads(stored.value or b"")
            symbols[report["person"]] = report["values"]["poverty"]
        rises: Counter[int] = Counter()
        for person, symbol in symbols.items():
            self.recent[person] = (self.recent.get(person, 0) * 2 + symbol) % 8
            if symbol:
                self.totals[person] = self.totals.get(person, 0) + 1
                rises[self.totals[person]] += 1
        bins = Counter(self.recent.values())
        bins[0] += size - len(self.recent)
        return [bins[b] for b in range(8)], [rises[b] for b in range(1, 13)]


def _row(report: dict[str, Any]) -> dict[str, Any]:
    return {"person": report["person"], "period": report["period"], **report["values"]}


def _avro(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO(b"\0\0\0\0\1")
    stream.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(stream, schema, value)
    return stream.getvalue()


AVRO = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Row",
        "fields": [
            {"name": "person", "type": "string"},
            {"name": "period", "type": "long"},
            {"name": "poverty", "type": ["null", "long"]},
        ],
    }
)
Pack = Callable[[dict[str, Any]], bytes]
PACKS: dict[str, tuple[Input, Pack]] = {
    "flat": (Input(format="flat"), lambda r: json.dumps(_row(r)).encode()),
    "connect": (
        Input(format="connect"),
        lambda r: json.dumps({"schema": {"type": "struct"}, "payload": _row(r)}).encode(),
    ),
    "debezium": (
        Input(format="debezium"),
        lambda r: json.dumps({"op": "c", "before": None, "after": _row(r)}).encode(),
    ),
    "avro": (Input(format="avro", schemas="schemas"), lambda r: _avro(AVRO, _row(r))),
    "json-registry": (
        Input(format="json-registry"),
        lambda r: b"\0\0\0\0\1" + json.dumps(_row(r)).encode(),
    ),
    "cloudevents": (
        Input(format="cloudevents", rows="report"),
        lambda r: json.dumps(
            {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": r}
        ).encode(),
    ),
}


def folded(decoder: Decoder, population: Population, records: list[Stored]) -> float:
    """Records per second."""
    start = time.perf_counter()
    for first in range(0, len(records), BATCH):
        population.fold(*decoder.decode(records[first : first + BATCH], 0))
    return len(records) / (time.perf_counter() - start)


def shapes(declared: Study, size: int) -> None:
    """A row for each shape, against plain reports in the same run."""
    records = raw(size, 2)
    plain, key = Population(declared), bytes(32)
    speed = folded(Decoder(declared, key), plain, records)
    print(f"{'plain reports':<22}{speed:>12,.0f}{'':>14}{1:>8.2f}")
    for name, (mapping, pack) in PACKS.items():
        packed = [r._replace(value=pack(json.loads(r.value or b""))) for r in records]
        population = Population(declared)
        decoder = ShapedDecoder(declared, key, mapping, lambda number: (json.dumps(AVRO),))
        now = folded(decoder, population, packed)
        assert population.accounting == plain.accounting
        record("shapes", name, now, now / speed)
        print(f"{name:<22}{now:>12,.0f}{'':>14}{now / speed:>8.2f}")


def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    declared = study(size)
    decoder, population, baseline = Decoder(declared, bytes(32)), Population(declared), Baseline()
    print(f"{size} reports a period; reports per second")
    print(f"{'period':<22}{'stream-dp':>12}{'json + dict':>14}{'ratio':>8}")
    for period, words in ((1, "everybody is new"), (2, "everybody is known")):
        records = raw(size, period)
        start = time.perf_counter()
        for first in range(0, size, BATCH):
            population.fold(*decoder.decode(records[first : first + BATCH], period - 1))
        counts = population.close().counts
        ours = size / (time.perf_counter() - start)
        start = time.perf_counter()
        bins, rises = baseline.period(records, size)
        theirs = size / (time.perf_counter() - start)
        assert counts["w"].tolist() == bins
        assert counts["c"][:-1].tolist() == rises
        print(f"{words:<22}{ours:>12,.0f}{theirs:>14,.0f}{ours / theirs:>8.2f}")
    print("\nshape, decoded and folded; ratio to plain reports")
    shapes(declared, size)


if __name__ == "__main__":
    main()
