"""Three brokers with three replicas, whose leaders die."""

from __future__ import annotations

import base64
import random
import shutil
import signal
import subprocess
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from broker import _PROPERTIES, Broker, free_port
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from stream_dp.study.topics import RELEASES

NODES = 3
_MORE = """\
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
"""


class Cluster:
    """Several brokers with the methods of a `Broker`.

    `stop` with SIGKILL ends one broker, with another signal all; `start` starts what is down.
    """

    replication = NODES
    down = (0.5, 8.0)  # seconds; longer than the session, so that others must lead

    def __init__(self, folder: Path, libs: Path) -> None:
        self.folder = folder.resolve()
        self._nodes = [Broker(self.folder / str(i), libs) for i in range(NODES)]
        self._up = [False] * NODES
        self._deaths, self._rng = 0, random.Random(1)

    @property
    def address(self) -> str:
        return ",".join(node.address for node in self._nodes)

    def start(self) -> str:
        for node in self._nodes:
            node.fetch()
        if not self.folder.joinpath("0", "port").exists():
            self._format()
        todo = [i for i in range(NODES) if not self._up[i]]
        with ThreadPoolExecutor(NODES) as pool:  # none answers before most are there
            list(pool.map(lambda i: self._nodes[i].start(), todo))
        self._up = [True] * NODES
        return self.address

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if how != signal.SIGKILL:
            for node in self._nodes:
                node.stop(signal.SIGKILL)
            return
        dies = self._leader([".journal", f".{RELEASES}", None][self._deaths % 3])
        self._nodes[dies].stop(how)
        self._up[dies] = False
        self._deaths += 1
        if self._deaths % 2 == 0:
            for topic in (self.folder / str(dies) / "data").glob("*-[0-9]*"):
                if not topic.name.startswith("__cluster_metadata"):
                    shutil.rmtree(topic)

    def _leader(self, ending: str | None) -> int:
        """The index of the broker that leads the topic `*ending`, or of any broker for None."""
        if ending is None:
            return self._rng.randrange(NODES)
        topics = AdminClient({"bootstrap.servers": self.address}).list_topics(timeout=60).topics
        (metadata,) = (topic for name, topic in topics.items() if name.endswith(ending))
        return metadata.partitions[0].leader - 1

    def kill(self, *dies: int) -> None:
        """Kills brokers. dies: their indexes."""
        for index in dies:
            self._nodes[index].stop(signal.SIGKILL)
            self._up[index] = False

    def leader_of(self, topic: str) -> int | None:
        """The index of the broker that leads a topic's first partition, as any broker knows it."""
        client = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        try:
            metadata = client.list_topics(topic, timeout=1).topics[topic]
        except KafkaException:
            return None
        leader = metadata.partitions[0].leader if metadata.partitions else -1
        return leader - 1 if leader > 0 else None

    def settle(self, topic: str, patience: float = 300) -> None:
        """Waits until every replica of a topic is in sync."""
        deadline = time.monotonic() + patience
        while True:
            client = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
            partitions = client.list_topics(topic, timeout=60).topics[topic].partitions.values()
            if all(len(p.isrs) == NODES for p in partitions):
                return
            assert time.monotonic() < deadline
            time.sleep(0.2)

    def _format(self) -> None:
        name = "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        ports = [(free_port(), free_port()) for _ in range(NODES)]
        voters = ",".join(f"{i}@127.0.0.1:{port}" for i, (_, port) in enumerate(ports, 1))
        for node, (number, (port, controller)) in zip(
            self._nodes, enumerate(ports, 1), strict=True
        ):
            text = _PROPERTIES.format(port=port, controller=controller, data=node.folder / "data")
            text = text.replace(f"1@127.0.0.1:{controller}", voters)
            text = text.replace("node.id=1", f"node.id={number}")
            text = text.replace("replication.factor=1", f"replication.factor={NODES}")
            text = text.replace("min.isr=1", f"min.isr={NODES - 1}")
            node.folder.mkdir(parents=True, exist_ok=True)
            properties = node.folder / "server.properties"
            properties.write_text(text + _MORE)
            tool = ["java", "-cp", f"{node.libs}/*", "kafka.tools.StorageTool", "format"]
            subprocess.run(
                [*tool, "-t", name, "-c", str(properties)], check=True, stdout=subprocess.DEVNULL
            )
            (node.folder / "port").write_text(str(port))
