"""Reports per second from a broker at a distance, by round trip, batch and the topic's codec.

    python benchmarks/distance.py [--reports N] [--people N] [--codecs CODEC,...]
        [--batches N,...] [SECONDS ...]

A broker is started for this. A proxy on this machine delays every byte between the broker and its
clients by half of the round trip. The reports are sent uncompressed to topics of 8 partitions.
`producer` is a topic without a codec of its own; the broker compresses all batches of the other
topics. The readers are those of `ingest.py`: in Python, compiled, and a bare consumer with its own
settings, which counts messages.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

from kafka import PARTITIONS, REPORTS, log_at
from result_file import record

ROUND_TRIPS = (0.0, 0.001, 0.01, 0.05)
READERS = ("bare", "Python", "compiled")


def fill(address: str, prefix: str, codec: str, batch: int, people: int, reports: int) -> None:
    """Sends all reports in batches of so many, then the markers."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic
    from ingest import months, texts

    from stream_dp.services.intake.markers import close_marker

    topic = f"{prefix}.{REPORTS}"
    config = {"compression.type": codec, "message.timestamp.type": "LogAppendTime"}
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=config)])[topic].result(30)
    settings = {"batch.num.messages": batch, "linger.ms": 100}
    producer = Producer({"bootstrap.servers": address, **settings})
    for person, text in texts(people, 1, reports):
        producer.produce(topic, text, b"%d" % person)
        if len(producer) > 50_000:
            producer.flush(60)
    producer.flush(60)
    log = log_at(address, prefix)
    log.append(close_marker(months(people, reports), partition) for partition in range(PARTITIONS))
    log.close()


def read(reader: str, address: str, prefix: str, people: int, reports: int) -> dict[str, float]:
    """Wall and CPU seconds of a reader in a process of its own."""
    script = Path(__file__).with_name("ingest.py")
    numbers = map(str, (people, 1, reports))
    command = [sys.executable, "-W", "ignore", str(script), "--contender", reader]
    done = subprocess.run(
        [*command, address, prefix, *numbers], check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("round_trips", nargs="*", type=float, metavar="SECONDS")
    parser.add_argument("--reports", type=int, default=100_000)
    parser.add_argument("--people", type=int, default=12_500)
    parser.add_argument("--codecs", default="producer,zstd,lz4")
    parser.add_argument("--batches", default="100,1")
    options = parser.parse_args()
    root = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(root / "tests"), str(root / "deploy" / "kafka")]
    from distant_broker import distant_broker

    cases = list(itertools.product(options.codecs.split(","), map(int, options.batches.split(","))))
    people, reports = options.people, options.reports
    print(f"{'':<26}{'reports/s':>11}{'CPU us':>8}{'of bare':>9}{'in Python':>11}")
    for seconds in options.round_trips or ROUND_TRIPS:
        with tempfile.TemporaryDirectory() as folder:
            with distant_broker(Path(folder), seconds) as (near, far):
                for codec, batch in cases:
                    prefix = f"bench-{uuid.uuid4().hex[:8]}"
                    fill(near, prefix, codec, batch, people, reports)
                    used = {r: read(r, far, prefix, people, reports) for r in READERS}
                    rates = {reader: reports / how["wall"] for reader, how in used.items()}
                    rate, cpu = rates["compiled"], 1e6 * used["compiled"]["cpu"] / reports
                    ratios = [rates[reader] / rates["bare"] for reader in ("compiled", "Python")]
                    case = f"{1000 * seconds:g} ms, {codec}, {batch}"
                    record("distance", case, rate, cpu, *ratios)
                    figures = "".join(f"{ratio:>10.2f}" for ratio in ratios)
                    print(f"{case:<26}{rate:>11,.0f}{cpu:>8.2f}{figures}", flush=True)


if __name__ == "__main__":
    main()
