"""CPU of ingest from Kafka: a bare loop, the reader in Python and the compiled reader.

    python benchmarks/ingest.py [--reports N] [--repeat N] [--people N,...] [--attributes N,...]

Each topic has 8 partitions and as many reports, keyed by person, whatever its number of people and
attributes. `bare` is consume(1000) with librdkafka's defaults: the loop only counts the messages
without an error. `bare, ours` has the settings of stream-dp's reader, the bounds of a fetch too.
`decoding` is `bare` with msgspec in place of the count. `Python` and `compiled` read to the marker,
decode, and fold the cells into the population; periods are not closed. Every
run is a process of its own that measures its CPU, all of its threads. The runs take turns, and the
least CPU of the repetitions is shown.

The broker is the one at STREAM_DP_TEST_KAFKA, or one that is started for this.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kafka import PARTITIONS, REPORTS, log_at, measured, reader_settings, remove
from result_file import record

MONTHS = 120  # the horizon: people report in turn until all reports are sent


def study(people: int, attributes: int) -> Any:
    from stream_dp.studyfile import parse_study

    periods = {"first": "2014-01", "every": "month", "count": MONTHS, "close": "marker"}
    head = {"name": "bench", "unit": "person", "neighbours": "replace_one", "delta": "1e-6"}
    window = {"kind": "window", "name": "quarters", "attribute": "a1", "width": 3, "rho": "0.01"}
    return parse_study(
        {
            "study": {**head, "rho": "0.01", "periods": periods, "population": {"size": people}},
            "attributes": {
                f"a{i}": {"values": [0, 1, 2], "missing": 0} for i in range(1, attributes + 1)
            },
            "releases": [window],
        }
    )


def months(people: int, reports: int) -> int:
    """The months in which all reports are sent."""
    return -(-reports // people)


def texts(people: int, attributes: int, reports: int) -> Iterator[tuple[int, bytes]]:
    """People and their reports, month by month, people in a random order."""
    draw, order = random.Random(1), list(range(people))
    for month in range(months(people, reports)):
        draw.shuffle(order)
        period = f"{2014 + month // 12}-{month % 12 + 1:02d}"
        for person in order[: reports - month * people]:
            values = ",".join(f'"a{i}":{draw.randrange(3)}' for i in range(1, attributes + 1))
            text = f'{{"person":"person-{person}","period":"{period}","values":{{{values}}}}}'
            yield person, text.encode()


def fill(address: str, prefix: str, people: int, attributes: int, reports: int) -> None:
    """Sends all reports, then the markers."""
    from stream_dp.log.log import Record
    from stream_dp.services.intake.markers import close_marker

    log = log_at(address, prefix)
    log.create({REPORTS: PARTITIONS})
    log.append(
        Record(REPORTS, text, b"%d" % person) for person, text in texts(people, attributes, reports)
    )
    number = months(people, reports)
    log.append(close_marker(number, partition) for partition in range(PARTITIONS))
    log.close()


def bare(address: str, prefix: str, reports: int, **settings: Any) -> None:
    from confluent_kafka import Consumer, TopicPartition

    count = 0
    with measured():
        common = {"bootstrap.servers": address, "group.id": uuid.uuid4().hex}
        consumer = Consumer({**common, "enable.auto.commit": False, **settings})
        consumer.assign([TopicPartition(f"{prefix}.{REPORTS}", p, 0) for p in range(PARTITIONS)])
        while count < reports + PARTITIONS:
            for message in consumer.consume(1000, 0.05):
                if message.error() is None:
                    count += 1
    consumer.close()


def decoding(address: str, prefix: str, reports: int) -> None:
    import msgspec
    from confluent_kafka import Consumer, TopicPartition

    class Report(msgspec.Struct):
        person: str
        period: str
        values: dict[str, int]

    decode, count = msgspec.json.Decoder(Report).decode, 0
    with measured():
        settings = {"bootstrap.servers": address, "group.id": uuid.uuid4().hex}
        consumer = Consumer({**settings, "enable.auto.commit": False})
        consumer.assign([TopicPartition(f"{prefix}.{REPORTS}", p, 0) for p in range(PARTITIONS)])
        while count < reports:
            for message in consumer.consume(1000, 0.05):
                value = message.value()
                if value is not None:
                    decode(value)
                    count += 1
    consumer.close()


def bare_ours(address: str, prefix: str, reports: int) -> None:
    bare(address, prefix, reports, **reader_settings())


def ingest(address: str, prefix: str, people: int, attributes: int, reports: int) -> None:
    import pyarrow as pa

    from stream_dp.population.population import Population
    from stream_dp.population.report_decoding import Decoder
    from stream_dp.services.intake.markers import FoundMarkers, MarkerReader
    from stream_dp.services.releaser.input_reading import Inputs
    from stream_dp.services.releaser.releaser_facts import Context

    declared = study(people, attributes)
    # The Kafka client is imported now, and pandas, if there is one, by Arrow's first conversion.
    log_at(address, prefix).close()
    pa.array([b""])
    with measured():
        log = log_at(address, prefix)
        inputs = Inputs(
            log,
            Decoder(declared, bytes(32)),
            Population(declared),
            markers=FoundMarkers(MarkerReader.of(declared), dict.fromkeys(range(PARTITIONS), 0)),
            positions=dict.fromkeys(range(PARTITIONS), 0),
            context=Context.of(declared),
        )
        while inputs.markers.missing(number := months(people, reports)):
            inputs.read_to_marker(number, 1)
    assert inputs.population.accounting.received == reports * attributes
    log.close()


def run(name: str, address: str, prefix: str, *numbers: int) -> float:
    """The CPU seconds of a contender that runs in a new process."""
    command = [sys.executable, "-W", "ignore", __file__, "--contender", name, address, prefix]
    done = subprocess.run(
        [*command, *map(str, numbers)], check=True, stdout=subprocess.PIPE, text=True
    )
    return float(json.loads(done.stdout.splitlines()[-1])["cpu"])


def contend(name: str, address: str, prefix: str, *numbers: str) -> None:
    people, attributes, reports = map(int, numbers)
    if name == "Python":
        sys.modules["stream_dp_native"] = None  # type: ignore[assignment]
    loops: dict[str, Callable[[str, str, int], None]] = {
        "bare": bare,
        "bare, ours": bare_ours,
        "decoding": decoding,
    }
    if name in loops:
        loops[name](address, prefix, reports)
    else:
        ingest(address, prefix, people, attributes, reports)


def main() -> None:
    if sys.argv[1:2] == ["--contender"]:
        contend(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reports", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    for name, default in (("--people", "100000,1000000"), ("--attributes", "1,5")):
        parser.add_argument(name, default=default)
    options = parser.parse_args()
    root = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(root / "tests"), str(root / "deploy" / "kafka")]
    from kit.brokers import running_broker

    contenders = ("bare", "bare, ours", "decoding", "Python", "compiled")
    print(f"{options.reports} reports; CPU us a report, least of {options.repeat}; bare / compiled")
    print("".join(f"{head:>12}" for head in ("people", "attributes", *contenders, "ratio")))
    with running_broker() as address:
        topics = {}
        try:
            for people in map(int, options.people.split(",")):
                for attributes in map(int, options.attributes.split(",")):
                    prefix = f"bench-{uuid.uuid4().hex[:8]}"
                    topics[people, attributes] = prefix
                    fill(address, prefix, people, attributes, options.reports)
            least = {(case, name): float("inf") for case in topics for name in contenders}
            for _ in range(options.repeat):
                for case, name in least:
                    cpu = run(name, address, topics[case], *case, options.reports)
                    least[case, name] = min(least[case, name], 1e6 * cpu / options.reports)
        finally:
            for prefix in topics.values():
                remove(address, f"{prefix}.{REPORTS}")
    for case in topics:
        row = [least[case, name] for name in contenders]
        cells = [f"{number:>12}" for number in case] + [f"{figure:>12.2f}" for figure in row]
        print("".join(cells) + f"{row[0] / row[-1]:>12.2f}")
        label = f"{case[0]:,} people, {case[1]} attribute{'s' * (case[1] > 1)}"
        record("kafka-readers", label, *row, row[0] / row[-1])


if __name__ == "__main__":
    main()
