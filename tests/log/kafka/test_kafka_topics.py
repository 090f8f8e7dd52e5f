"""Topics of Kafka: their identity, and the faults of those that others made."""

import time

import pytest
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from stream_dp.log.log import Record
from stream_dp.services.commands.cli import main


def test_a_topic_that_was_created_again_is_another(opened, log, admin, prefix):
    before = log.describe("t").identity
    assert opened(prefix).describe("t").identity == before
    admin.delete_topics([f"{prefix}.t"])[f"{prefix}.t"].result(300)
    deadline = time.monotonic() + 120
    while f"{prefix}.t" in admin.list_topics(timeout=60).topics:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    log.create({"t": 1})
    assert log.describe("t").identity not in ("", before)


def make_topic(admin, name, partitions=1, **config):
    settings = {key.replace("_", "."): value for key, value in config.items()}
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
    admin.create_topics([topic])[name].result(300)
    deadline = time.monotonic() + 120
    while name not in admin.list_topics(timeout=60).topics:
        assert time.monotonic() < deadline
        time.sleep(0.05)


EVER = str((1 << 63) - 1)
SOUND = {
    "retention_ms": "-1",
    "retention_bytes": "-1",
    "unclean_leader_election_enable": "false",
    "message_timestamp_after_max_ms": EVER,
    "message_timestamp_before_max_ms": EVER,
}
WRONG = [
    ({"retention_ms": "604800000"}, "has retention.ms = 604800000, not -1"),
    ({"retention_bytes": "1000000"}, "has retention.bytes = 1000000, not -1"),
    ({"cleanup_policy": "compact"}, "has cleanup.policy = compact, not delete"),
    ({"max_message_bytes": "1000"}, "has max.message.bytes = 1000, not at least 1048588"),
    (
        {"message_timestamp_type": "LogAppendTime"},
        "has message.timestamp.type = LogAppendTime, not CreateTime",
    ),
    (
        {"unclean_leader_election_enable": "true"},
        "has unclean.leader.election.enable = true, not false",
    ),
    (
        {"min_insync_replicas": "2"},
        "has min.insync.replicas = 2 and 1 replicas, so nothing can be written to it",
    ),
    (
        {"message_timestamp_after_max_ms": "3600000"},
        f"has message.timestamp.after.max.ms = 3600000, not {EVER}",
    ),
    (
        {"message_timestamp_before_max_ms": "1000"},
        f"has message.timestamp.before.max.ms = 1000, not {EVER}",
    ),
    ({"partitions": 2}, "has 2 partitions, not 1"),
]


def test_a_topic_without_faults(log, opened, admin, prefix):
    assert log.faults({"t": 1}) == []
    make_topic(admin, f"{prefix}.bare")
    assert opened(prefix).faults({"none": 1}) == [f"kafka: no topic '{prefix}.none'"]
    make_topic(admin, f"{prefix}.sound", **SOUND)
    assert log.faults({"sound": 1}) == []
    assert [line.split()[3] for line in log.faults({"bare": 1})] == [
        "retention.ms",
        "message.timestamp.after.max.ms",
    ]


@pytest.mark.parametrize(("change", "line"), WRONG, ids=[line.split()[1] for _, line in WRONG])
def test_each_fault_of_a_topic(opened, admin, prefix, change, line):
    make_topic(admin, f"{prefix}.t", **{**SOUND, **change})
    assert opened(prefix).faults({"t": 1}) == [f"kafka: {prefix}.t {line}"]


def test_too_few_copies_of_a_topic(opened, log, prefix):
    assert opened(prefix, replication=3).faults({"t": 1}) == [
        f"kafka: {prefix}.t has 1 replicas, fewer than 3; say replication in [run] where that is"
        " meant",
        f"kafka: {prefix}.t has min.insync.replicas = 1, not at least 2",
    ]


def test_reports_may_expire_but_not_be_compacted(opened, admin, prefix):
    log = opened(prefix, timed=("reports",))
    make_topic(admin, f"{prefix}.reports", cleanup_policy="compact", retention_ms="1000")
    faults = log.faults({"reports": 1})
    assert not any("retention" in line for line in faults)
    assert any("cleanup.policy = compact, not delete" in line for line in faults)
    assert any("message.timestamp.type = CreateTime, not LogAppendTime" in line for line in faults)


def test_reports_may_not_expire_before_their_period_is_closed(opened, admin, prefix):
    log = opened(prefix, timed=("reports",), kept={"reports": 86400.0})
    log.create({"reports": 1})
    for milliseconds, lines in [("86400000", []), ("-1", []), ("86399999", [
        f"kafka: {prefix}.reports has retention.ms = 86399999, not -1 or at least 86400000:"
        " records are deleted before their period is closed"
    ])]:  # fmt: skip
        change = ConfigEntry(
            "retention.ms", milliseconds, incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource("topic", f"{prefix}.reports", incremental_configs=[change])
        admin.incremental_alter_configs([resource])[resource].result(300)
        assert log.faults({"reports": 1}) == log.hazards(["reports"]) == lines


def test_a_reader_learns_of_partitions_that_were_added(opened, log, admin, prefix):
    assert log.read("t", {0: 0}, 1, 0).records == []
    admin.create_partitions([NewPartitions(f"{prefix}.t", 2)])[f"{prefix}.t"].result(300)
    opened(prefix).append([Record("t", b"new", partition=1)])
    assert [r.value for r in log.read("t", {0: 0, 1: 0}, 9, 10).records] == [b"new"]


def test_the_command_makes_topics_and_names_faults(study, admin, prefix, capsys):
    make_topic(admin, f"{prefix}.journal", cleanup_policy="compact", **SOUND)
    fault = f"kafka: {prefix}.journal has cleanup.policy = compact, not delete"
    for code, line in [(2, fault), (4, "journal: has 2 partitions and must have 1")]:
        if code == 4:
            more = f"{prefix}.journal"
            admin.create_partitions([NewPartitions(more, 2)])[more].result(300)
        for command in ("topics", "run"):
            assert main([command, study()]) == code
            assert capsys.readouterr() == ("", f"stream-dp: {line}\n")
    admin.delete_topics([f"{prefix}.journal"])[f"{prefix}.journal"].result(300)
    deadline = time.monotonic() + 120
    while main(["topics", study()]) != 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    topics = admin.list_topics(timeout=60).topics
    names = ["journal", "reports", "dead-letters"]
    assert {n: len(topics[f"{prefix}.{n}"].partitions) for n in names} == {
        "journal": 1,
        "reports": 2,
        "dead-letters": 1,
    }
    assert len(topics[f"{prefix}-public.releases"].partitions) == 1
