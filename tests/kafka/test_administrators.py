"""Acts of an administrator of Kafka while a releaser runs: a part of `benchmarks/kafka_acts.py`."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from administrators import ACTS, Cluster, trial


@pytest.mark.parametrize(
    ("act", "moment", "engine"),
    [
        ("partitions added", "idle", "here"),
        ("journal made again", "unpublished", "here"),
        ("compaction of releases", "reading", "processes"),
    ],
)
def test_an_act_is_noticed_before_the_next_draw_and_the_study_goes_on(
    act: str, moment: str, engine: str, kafka: str, tmp_path: Path
) -> None:
    cluster = Cluster.with_study(kafka, tmp_path, f"act-{uuid.uuid4().hex[:12]}", engine)
    outcome = trial(cluster, act, moment, ask=0.5)
    assert outcome.sound(ACTS[act]), outcome
