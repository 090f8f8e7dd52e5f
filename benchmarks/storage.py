"""Bytes on disk and on the network that a study takes, by person, report and release.

    python benchmarks/storage.py [--people N N] [--kafka]

Everybody reports in each of three periods; two releases, a window of 2 and a total. What a close
writes grows with the people: the figures are the growth from the smaller number to the larger, per
person, of the last close, in which everybody is known. `journal` and `releases` are of both
releases together. With `--kafka` also what a consumer receives for a report of the topic at
STREAM_DP_TEST_KAFKA, as it is sent, without compression.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import uuid
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from latency import BROKER, PARTITIONS, SQLITE, STUDY, close, send

PERIODS = 3
_BYTES = """
SELECT topic, SUM(LENGTH(key)), SUM(LENGTH(value)), SUM(LENGTH(headers)) FROM records GROUP BY topic
"""


def by_topic(path: Path) -> dict[str, int]:
    """Bytes of keys, values and headers."""
    with closing(sqlite3.connect(path)) as db:
        return {topic: sum(n or 0 for n in several) for topic, *several in db.execute(_BYTES)}


def measured(people: int) -> dict[str, float]:
    """Bytes by what they are for."""
    from stream_dp.services.storage.deployment import Deployment

    with TemporaryDirectory() as name:
        folder, figures = Path(name), dict[str, float]()
        file, before = folder / "latency.toml", dict[str, int]()
        file.write_text(
            STUDY.format(people=people, periods=PERIODS, partitions=PARTITIONS, logs=SQLITE)
        )
        for period in range(1, PERIODS + 1):
            with closing(Deployment.load(file).log()) as log:
                log.create({"reports": PARTITIONS})
                sent = (folder / "latency.db").stat().st_size
                send(log, people, period)
                close(log, period)
            with closing(sqlite3.connect(folder / "latency.db")) as db:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            figures["report, in the file"] = (folder / "latency.db").stat().st_size - sent
            words = [sys.executable, "-m", "stream_dp.services.commands.cli", "run", "--until-idle"]
            subprocess.run([*words, str(file)], check=True, stdout=subprocess.DEVNULL)
            topics = by_topic(folder / "latency.db") | by_topic(folder / "latency-public.db")
            for topic in ("reports", "journal", "releases"):
                figures[topic] = topics[topic] - before.get(topic, 0)
            before = topics
            figures["snapshot"] = max(
                path.stat().st_size for path in folder.rglob("*.npz") if path.is_file()
            )
    return figures


def received(address: str, people: int) -> float:
    """Bytes from the brokers for each report."""
    from confluent_kafka import Consumer, TopicPartition

    from stream_dp.log.kafka import KafkaLog

    prefix, seen = f"bytes-{uuid.uuid4().hex[:8]}", [0]
    with closing(KafkaLog(prefix, {"bootstrap.servers": address}, replication=1)) as log:
        log.create({"reports": PARTITIONS})
        send(log, people, 1)

    def noted(text: str) -> None:
        seen[0] = json.loads(text)["rx_bytes"]

    settings: dict[str, Any] = {"bootstrap.servers": address, "group.id": prefix}
    consumer = Consumer({**settings, "statistics.interval.ms": 100, "stats_cb": noted})
    consumer.assign([TopicPartition(f"{prefix}.reports", p, 0) for p in range(PARTITIONS)])
    left = people
    while left:
        left -= sum(message.error() is None for message in consumer.consume(1000, 1))
    consumer.poll(1)
    consumer.close()
    return seen[0] / people


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, nargs=2, default=[50_000, 150_000])
    parser.add_argument("--kafka", action="store_true")
    options = parser.parse_args()
    few, many = sorted(options.people)
    less, more = measured(few), measured(many)
    print(f"bytes a person and period, from {few} to {many} people")
    for name, value in more.items():
        growth = (value - less[name]) / (many - few)
        print(f"{name:<22}{growth:>9.1f}   {value:>14,.0f} in all")
    if options.kafka:
        print(f"{'report, received':<22}{received(os.environ[BROKER], many):>9.1f}")


if __name__ == "__main__":
    main()
