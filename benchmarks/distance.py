"""Reports per second from a broker at a distance, by round trip and by the topic's codec.

    python benchmarks/distance.py [--reports N] [--people N] [--codecs CODEC,...] [SECONDS ...]

A broker is started for this. A proxy on this machine delays every byte between the broker and its
clients by half of the round trip. The reports are sent uncompressed, in batches of 100, to topics
of 8 partitions. `producer` is a topic without a codec of its own, with an eighth of the reports:
each fetch has at most 16 KB. The broker compresses all batches of the other topics. The reader is
the one of `ingest.py`, compiled if the compiled reader is installed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

from kafka import PARTITIONS, REPORTS, log_at
from result_file import record

ROUND_TRIPS = (0.0, 0.001, 0.01, 0.05)
BATCH = 100


def fill(address: str, prefix: str, codec: str, people: int, reports: int) -> None:
    """Sends all reports in small batches, then the markers."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic
    from ingest import months, texts

    from stream_dp.services.intake.markers import close_marker

    topic = f"{prefix}.{REPORTS}"
    config = {"compression.type": codec, "message.timestamp.type": "LogAppendTime"}
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=config)])[topic].result(30)
    settings = {"batch.num.messages": BATCH, "linger.ms": 100}
    producer = Producer({"bootstrap.servers": address, **settings})
    for person, text in texts(people, 1, reports):
        producer.produce(topic, text, b"%d" % person)
        if len(producer) > 50_000:
            producer.flush(60)
    producer.flush(60)
    log = log_at(address, prefix)
    log.append(close_marker(months(people, reports), partition) for partition in range(PARTITIONS))
    log.close()


def read(address: str, prefix: str, people: int, reports: int) -> dict[str, float]:
    """Wall and CPU seconds of ingest in a process of its own."""
    script = Path(__file__).with_name("ingest.py")
    numbers = map(str, (people, 1, reports))
    command = [sys.executable, "-W", "ignore", str(script), "--contender", "compiled"]
    done = subprocess.run(
        [*command, address, prefix, *numbers], check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("round_trips", nargs="*", type=float, metavar="SECONDS")
    parser.add_argument("--reports", type=int, default=400_000)
    parser.add_argument("--people", type=int, default=50_000)
    parser.add_argument("--codecs", default="producer,zstd,lz4")
    options = parser.parse_args()
    root = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(root / "tests"), str(root / "deploy" / "kafka")]
    from kit.distance import distant_broker

    print(f"{'round trip':<12}{'codec':<14}{'reports/s':>10}{'CPU us':>8}")
    for seconds in options.round_trips or ROUND_TRIPS:
        with tempfile.TemporaryDirectory() as folder:
            with distant_broker(Path(folder), seconds) as (near, far):
                for codec in options.codecs.split(","):
                    prefix = f"bench-{uuid.uuid4().hex[:8]}"
                    reports = options.reports // (8 if codec == "producer" else 1)
                    fill(near, prefix, codec, options.people, reports)
                    used = read(far, prefix, options.people, reports)
                    rate, cpu = reports / used["wall"], 1e6 * used["cpu"] / reports
                    trip = f"{1000 * seconds:g} ms"
                    record("distance", f"{trip}, {codec}", rate, cpu)
                    print(f"{trip:<12}{codec:<14}{rate:>10,.0f}{cpu:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
