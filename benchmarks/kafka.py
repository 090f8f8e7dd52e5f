"""Reports per second from Kafka to counts, against Quix Streams and against a bare loop.

    python -m venv peer && peer/bin/pip install -r benchmarks/requirements.txt
    python benchmarks/kafka.py --peer peer/bin/python [--reports N] [--repeat N]

All read one topic of 8 partitions, keyed by person, in which people report nine months in turn.
`stream-dp` reads to the marker and closes the nine periods into counts. `Quix Streams` counts
the reports of every person in its state, without changelog topics. `bare loop` is consume(1000)
and msgspec, nothing counted, with librdkafka's defaults. `bare, tuned` and Quix Streams wait and
queue as stream-dp does; `bare, ours` has all settings of its reader, the bounds of a fetch among
them, with which no sender's batch can fill the memory. Every run is a process of its own that
measures itself, from its first client to its last result, imports left out; the least of the
repetitions is shown.

The broker is the one at STREAM_DP_TEST_KAFKA, or one that is started for this.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from result_file import record

PERIODS, PARTITIONS = 9, 8
REPORTS = "reports"
FETCHING = {
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 20,
    "queued.min.messages": 200_000,
}


def used() -> float:
    """CPU seconds of this process, all of its threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


@contextmanager
def measured() -> Iterator[None]:
    """Print wall and CPU seconds of what is done inside."""
    wall, cpu = time.perf_counter(), used()
    yield
    print(json.dumps({"wall": time.perf_counter() - wall, "cpu": used() - cpu}))


def log_at(address: str, prefix: str) -> Any:
    from stream_dp.log.kafka import KafkaLog

    settings = {"bootstrap.servers": address}
    return KafkaLog(prefix, settings, replication=1, timed=(REPORTS,))


def study(people: int) -> Any:
    from stream_dp.studyfile import parse_study

    periods = {"first": "2014-01", "every": "month", "count": PERIODS, "close": "marker"}
    head = {"name": "bench", "unit": "person", "neighbours": "replace_one", "delta": "1e-6"}
    window = {"kind": "window", "name": "quarters", "attribute": "submit", "width": 3}
    return parse_study(
        {
            "study": {
                **head,
                "rho": "0.01",
                "periods": periods,
                "population": {"size": people},
            },
            "attributes": {"submit": {"values": [0, 1, 2], "missing": 0}},
            "releases": [{**window, "rho": "0.01"}],
        }
    )


def fill(address: str, prefix: str, people: int) -> None:
    """Send every person's report of every month, then the markers."""
    from stream_dp.log.log import Record
    from stream_dp.services.intake.markers import close_marker

    log = log_at(address, prefix)
    log.create({REPORTS: PARTITIONS})
    text = '{"person":"person-%d","period":"2014-%02d","values":{"submit":%d}}'
    for month in range(1, PERIODS + 1):
        log.append(
            Record(
                REPORTS,
                (text % (i, month, (i * month) % 3)).encode(),
                b"person-%d" % i,
            )
            for i in range(people)
        )
    log.append(close_marker(PERIODS, part) for part in range(PARTITIONS))
    log.close()


def reader_settings() -> dict[str, object]:
    """Our reader's settings, without the ends of partitions, which would come among messages."""
    from stream_dp.log.kafka_reader import QUICK, READING

    return {**READING, **QUICK.settings, "enable.partition.eof": False}


def remove(address: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": address})
    admin.delete_topics([topic])[topic].result(30)


def ours(address: str, prefix: str, people: int) -> None:
    from stream_dp.population.population import Population
    from stream_dp.population.report_decoding import Decoder
    from stream_dp.services.intake.markers import FoundMarkers, MarkerReader
    from stream_dp.services.releaser.input_reading import Inputs
    from stream_dp.services.releaser.releaser_facts import Context

    declared = study(people)
    Decoder(declared, bytes(32)).decode([], 0)  # pyarrow imports pandas now, where there is one
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
        while inputs.markers.missing(PERIODS):
            inputs.read_to_marker(PERIODS, 1)
        for _ in range(PERIODS):
            counts = inputs.population.close().counts["quarters"]
    assert counts.sum() == people
    assert inputs.population.accounting.accepted == people * PERIODS
    log.close()


def bare(address: str, prefix: str, people: int, **settings: Any) -> None:
    import msgspec
    from confluent_kafka import Consumer, TopicPartition

    class Report(msgspec.Struct):
        person: str
        period: str
        values: dict[str, int]

    decode, left = msgspec.json.Decoder(Report).decode, people * PERIODS
    with measured():
        common = {"bootstrap.servers": address, "group.id": uuid.uuid4().hex}
        consumer = Consumer({**common, "enable.auto.commit": False, **settings})
        consumer.assign([TopicPartition(f"{prefix}.{REPORTS}", p, 0) for p in range(PARTITIONS)])
        while left > 0:
            for message in consumer.consume(1000, 0.05):
                value = message.value()
                if value is not None:
                    decode(value)
                    left -= 1
    consumer.close()


def tuned(address: str, prefix: str, people: int) -> None:
    bare(address, prefix, people, **FETCHING)


def same(address: str, prefix: str, people: int) -> None:
    bare(address, prefix, people, **reader_settings())


def quix(address: str, prefix: str, people: int) -> None:
    from quixstreams import Application

    def count(value: Any, state: Any) -> int:
        seen = state.get("reports", 0) + 1
        state.set("reports", seen)
        return int(seen)

    with tempfile.TemporaryDirectory() as folder, measured():
        app = Application(
            broker_address=address,
            consumer_group=uuid.uuid4().hex,
            auto_offset_reset="earliest",
            auto_create_topics=False,
            use_changelog_topics=False,
            state_dir=folder,
            loglevel="ERROR",
            consumer_extra_config=FETCHING,
            # The markers have no value and are no JSON: they are passed over.
            on_consumer_error=lambda error, message, logger: True,
        )
        reports = app.dataframe(app.topic(f"{prefix}.{REPORTS}", value_deserializer="json"))
        reports.apply(count, stateful=True)
        app.run(count=people * PERIODS, collect=False)


CONTENDERS = {
    "stream-dp": ours,
    "bare loop": bare,
    "bare, tuned": tuned,
    "bare, ours": same,
    "Quix Streams": quix,
}


def run(python: str, name: str, address: str, prefix: str, people: int) -> dict[str, float]:
    """The figures of a contender that runs in a new process."""
    done = subprocess.run(
        [
            *(python, "-W", "ignore", __file__, "--contender", name, "--address", address),
            *("--prefix", prefix, "--reports", str(people * PERIODS)),
        ],
        check=True,
        stdout=subprocess.PIPE,
    )
    return json.loads(done.stdout.splitlines()[-1])


def table(figures: dict[str, dict[str, float]], reports: int) -> str:
    own = figures["stream-dp"]
    lines = [
        f"{'':<14}{'wall, s':>9}{'reports/s':>12}{'CPU, s':>9}{'CPU us each':>13}"
        f"{'wall ratio':>12}{'CPU ratio':>11}"
    ]
    for name, row in figures.items():
        each = 1e6 * row["cpu"] / reports
        cells = (row["wall"], reports / row["wall"], row["cpu"], each, row["cpu"] / own["cpu"])
        record("kafka-ingest", name, *cells)
        lines.append(
            f"{name:<14}{row['wall']:>9.2f}{reports / row['wall']:>12,.0f}{row['cpu']:>9.2f}"
            f"{1e6 * row['cpu'] / reports:>13.2f}"
            f"{row['wall'] / own['wall']:>12.2f}{row['cpu'] / own['cpu']:>11.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reports", type=int, default=500_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--peer", default=sys.executable, help="the Python that has Quix Streams; none skips it"
    )
    for name in ("--contender", "--address", "--prefix"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    options = parser.parse_args()
    people = -(-options.reports // PERIODS)
    if options.contender:
        CONTENDERS[options.contender](options.address, options.prefix, people)
        return
    root = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(root / "tests"), str(root / "deploy" / "kafka")]
    from kit.brokers import running_broker

    with running_broker() as address:
        prefix = f"bench-{uuid.uuid4().hex[:8]}"
        fill(address, prefix, people)
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
        if options.peer == "none":
            del runs["Quix Streams"]
        try:
            for _ in range(options.repeat):
                for name, several in runs.items():
                    python = options.peer if name == "Quix Streams" else sys.executable
                    several.append(run(python, name, address, prefix, people))
        finally:
            remove(address, f"{prefix}.{REPORTS}")
    best = {
        name: {figure: min(one[figure] for one in several) for figure in ("wall", "cpu")}
        for name, several in runs.items()
    }
    print(f"{people * PERIODS} reports of {people} people, {PARTITIONS} partitions")
    print(f"least of {options.repeat}, wall and CPU each; ratios to stream-dp")
    print(table(best, people * PERIODS))


if __name__ == "__main__":
    main()
