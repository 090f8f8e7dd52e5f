"""Kafka as a log: the contract on a real broker, and what is Kafka's own."""

import os
import signal
import threading
import time
import uuid

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

pytest.register_assert_rewrite("contract")

from broker import FOLDER, Broker  # noqa: E402
from contract import LogContract, by_partition, drain, sent, values  # noqa: E402

from stream_dp.errors import UserError  # noqa: E402
from stream_dp.log import open_log  # noqa: E402
from stream_dp.log.base import (  # noqa: E402
    MAX_RECORD,
    Fenced,
    LogError,
    Record,
    Unavailable,
    UnknownCommit,
)
from stream_dp.log.kafka import KafkaLog  # noqa: E402
from stream_dp.log.message import START, build_message, message_records, read_messages, split_part  # noqa: E402
from stream_dp.services.cli import main  # noqa: E402


@pytest.fixture
def opened(kafka):
    """Opens logs on the broker and closes them at the end."""
    logs = []

    def opened(prefix, **options):
        options = {"replication": 1, "server": kafka, **options}
        server = options.pop("server")
        logs.append(KafkaLog(prefix, {"bootstrap.servers": server}, **options))
        return logs[-1]

    yield opened
    for log in logs:
        log.close()


@pytest.fixture
def prefix():
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def log(opened, prefix):
    """A log with a topic `t` of one partition."""
    log = opened(prefix)
    log.create({"t": 1})
    return log


@pytest.fixture
def admin(kafka):
    return AdminClient({"bootstrap.servers": kafka})


@pytest.fixture
def stranger(kafka, prefix):
    """Transactional producers of another program."""

    def begun(*several, partition=0, topic="t"):
        producer = Producer({"bootstrap.servers": kafka, "transactional.id": uuid.uuid4().hex})
        producer.init_transactions(30)
        producer.begin_transaction()
        for value in several:
            producer.produce(f"{prefix}.{topic}", value, partition=partition)
        assert producer.flush(30) == 0
        return producer

    return begun


class TestContract(LogContract):
    @pytest.fixture
    def opener(self, opened, prefix):
        return lambda: opened(prefix)

    @pytest.fixture
    def log(self, opener):
        return opener()


def uncommitted(server, topic):
    """Everything in partition 0, committed or not."""
    consumer = Consumer(
        {
            "bootstrap.servers": server,
            "group.id": "anyone",
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (read := consumer.poll(30)) is not None:
        if read.error() is None:
            found.append(read.value())
        elif read.error().code() == KafkaError._PARTITION_EOF:
            break
    consumer.close()
    return found


# Transactions


def test_open_and_aborted_transactions_are_not_read(log, kafka, prefix, stranger):
    producer = stranger(b"aborted")
    assert values(log, "t") == []
    producer.abort_transaction(30)
    assert values(log, "t") == []
    producer = stranger(b"open")
    log.append(sent("t", b"behind it"))
    assert values(log, "t") == []
    producer.commit_transaction(30)
    assert values(log, "t") == [b"open", b"behind it"]
    assert uncommitted(kafka, f"{prefix}.t") == [b"aborted", b"open", b"behind it"]


def test_the_end_is_right_although_control_records_take_positions(log, stranger):
    log.append(sent("t", b"a"))
    stranger(b"b").commit_transaction(30)
    stranger(b"gone").abort_transaction(30)
    found, end = drain(log, "t")
    assert [r.value for r in found] == [b"a", b"b"]
    assert end[0] > found[-1].offset + 1
    batch = log.read("t", end, 10, 0)
    assert (batch.records, batch.at_end, batch.next) == ([], True, end)
    log.append(sent("t", b"c"))
    assert values(log, "t", end) == [b"c"]
    assert log.cut("t", time.time() + 60) == drain(log, "t")[1]


def test_a_cut_does_not_depend_on_transactions_of_others(log, stranger):
    producer = stranger(b"open")
    log.append(sent("t", b"behind it"))
    time.sleep(0.03)
    cut = log.cut("t", time.time())
    assert cut == log.cut("t", time.time() + 3600)
    assert drain(log, "t")[1][0] < cut[0]
    producer.commit_transaction(30)
    found, _ = drain(log, "t")
    assert [r.value for r in found if r.offset < cut[0]] == [b"open", b"behind it"]


def test_a_fenced_writer_leaves_nothing(opened, log, prefix, kafka):
    other = opened(prefix)
    with log.own("role") as first:
        first.commit(sent("t", b"first"))
        with other.own("role") as second:
            for _ in range(2):
                with pytest.raises(Fenced, match=r"taken this role|is over"):
                    first.commit(sent("t", b"fenced"))
            second.commit(sent("t", b"second"))
    assert values(log, "t") == uncommitted(kafka, f"{prefix}.t") == [b"first", b"second"]


def test_who_owns_a_role_is_not_asked_before_the_commit(opened, log, prefix):
    """The first is fenced while its transaction is open: the whole of it is gone."""
    other = opened(prefix)
    with log.own("role") as first:
        produce = log._produce

        def slowly(producer, records):
            failed = produce(producer, records)
            producer.flush(30)
            with other.own("role") as second:
                second.commit(sent("t", b"second"))
            return failed

        log._produce = slowly
        with pytest.raises(Fenced):
            first.commit(sent("t", b"fenced", b"too"))
    assert values(log, "t") == [b"second"]


def test_fenced_before_the_last_record_is_handed_over(opened, log, prefix):
    other = opened(prefix)
    with log.own("role") as first:
        produce = log._produce

        def slowly(producer, records):
            with other.own("role") as second:
                second.commit(sent("t", b"second"))
            failed = produce(producer, records[:1])
            deadline = time.monotonic() + 30
            while not failed and time.monotonic() < deadline:
                failed = produce(producer, records[1:])
                time.sleep(0.1)
            return failed

        log._produce = slowly
        with pytest.raises(Fenced, match="another process has taken this role"):
            first.commit(sent("t", b"fenced", b"too"))
    assert values(log, "t") == [b"second"]


@pytest.mark.parametrize("other", [False, True])
def test_a_transaction_that_took_too_long_is_no_fencing(opened, prefix, kafka, other):
    """Brokers answer alike; who signed for the role last tells the two apart."""
    settings = {"bootstrap.servers": kafka, "transaction.timeout.ms": "2000"}
    log = KafkaLog(prefix, settings, replication=1)
    log.create({"t": 1})
    with log.own("role", "t") as first:
        produce = log._produce

        def slowly(producer, records):
            failed = produce(producer, records)
            producer.flush(30)
            if other:
                with opened(prefix).own("role", "t") as second:
                    second.commit(sent("t", b"second"))
            else:
                time.sleep(14)  # brokers look every ten seconds
            return failed

        log._produce = slowly
        error, words = (Fenced, "taken this role") if other else (UnknownCommit, "no other one has")
        with pytest.raises(error, match=words):
            first.commit(sent("t", b"late"))
    log._produce = produce
    with log.own("role", "t") as again:
        again.commit(sent("t", b"again"))
    assert values(log, "t") == [*[b"second"][:other], b"again"]
    log.close()


# Reading


@pytest.mark.parametrize("call", ["assign", "incremental_assign", "consume", "poll"])
@pytest.mark.parametrize(
    ("fault", "raised"),
    [
        (KafkaException(KafkaError(KafkaError._STATE, "torn")), Unavailable),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_after_a_fault_amid_a_read_nothing_is_missed(log, prefix, call, fault, raised):
    """Whatever was fetched before the fault is read again."""
    log.create({"two": 2})
    for part in (0, 1):
        log.append(sent("two", b"a", b"b", b"c", partition=part))
    first = log.read("two", {0: 0}, 1, 0)
    fetched = log._consumer

    class Torn:
        """Does what it is asked, and then fails."""

        def __getattr__(self, name):
            def torn(*given):
                done = getattr(fetched, name)(*given)
                if name == call and (name != "consume" or done):
                    raise fault
                return done

            return torn

    def reads():
        log.read("two", {**first.next, 1: 0}, 10, 1)
        log.read("two", {0: 3, 1: 3}, 10, 1)
        log.read("two", {0: 0}, 10, 1)

    log._consumer = Torn()
    with pytest.raises(raised) as error:
        reads()
    if raised is Unavailable:
        assert str(error.value) == f"kafka: {prefix}.two cannot be read: torn"
    log._consumer = fetched
    found, _ = drain(log, "two", {**first.next, 1: 0})
    assert by_partition(found) == {0: [b"b", b"c"], 1: [b"a", b"b", b"c"]}


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A broker that may be stopped."""
    broker = Broker(tmp_path_factory.mktemp("broker"), libs=FOLDER / "libs")
    broker.start()
    yield broker
    broker.stop()


def test_no_transaction_follows_one_of_unknown_result(opened, own, prefix, monkeypatch):
    log = opened(prefix, server=own.address)
    log.create({"t": 1})
    pid = int((own.folder / "pid").read_text())
    monkeypatch.setattr("stream_dp.log.kafka.TIMEOUT", 1.0)
    with log.own("role") as writer:
        writer.commit(sent("t", b"1"))
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(UnknownCommit, match="whether a commit took place is not known"):
                writer.commit(sent("t", b"2"))
        finally:
            os.kill(pid, signal.SIGCONT)
        with pytest.raises(Fenced, match="ownership is over"):
            writer.commit(sent("t", b"3"))
    monkeypatch.undo()
    with log.own("role") as writer:
        found = values(log, "t")
        assert found in ([b"1"], [b"1", b"2"])
        writer.commit(sent("t", b"4"))
    assert values(log, "t") == [*found, b"4"]


def test_a_broker_that_dies_and_comes_back(opened, own, prefix):
    log = opened(prefix, server=own.address)
    log.create({"t": 1})
    with log.own("role") as writer:
        writer.commit(sent("t", b"1"))
        _, end = drain(log, "t")
        own.stop(signal.SIGKILL)
        starting = threading.Timer(0.5, own.start)
        starting.start()
        assert log.read("t", end, 10, 0).at_end
        starting.join()
        assert values(log, "t") == [b"1"]
        writer.commit(sent("t", b"2"))
    log.append(sent("t", b"3"))
    assert values(log, "t") == [b"1", b"2", b"3"]


def test_a_message_of_many_records_in_one_transaction(log):
    large = os.urandom(3_000_000)
    written = build_message(0, START, {"number": 0}, split_part("state", large))
    how = {"kind": "k", "source": "s", "content": "c", "time": None}
    made = message_records(written, "t", **how)
    assert len(made) == 5
    with log.own("role") as writer:
        writer.commit(made)
    (found,) = read_messages(log, "t", "journal")
    assert found.part("state") == large
    assert found.hash == written.hash


# Times


def test_releases_keep_their_scheduled_times_and_reports_have_the_brokers(opened, prefix):
    log = opened(prefix, timed=("reports",))
    log.create({"reports": 1, "releases": 1})
    past, ahead, now = 1_609_459_200_000, 4_000_000_000_000, time.time() * 1000
    for topic in ("reports", "releases"):
        log.append([Record(topic, b"x", time=past), Record(topic, b"x", time=ahead)])
    releases, reports = drain(log, "releases")[0], drain(log, "reports")[0]
    assert [r.time for r in releases] == [past, ahead]
    assert all(abs(r.time - now) < 60_000 for r in reports)


def test_a_time_of_zero_is_not_the_present(log):
    log.append([Record("t", b"x", time=0)])
    (found,) = drain(log, "t")[0]
    assert found.time == 1


# Topics


def test_a_topic_that_was_made_again_is_another(opened, log, admin, prefix):
    before = log.describe("t").identity
    assert opened(prefix).describe("t").identity == before
    admin.delete_topics([f"{prefix}.t"])[f"{prefix}.t"].result(30)
    deadline = time.monotonic() + 30
    while f"{prefix}.t" in admin.list_topics(timeout=10).topics:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    log.create({"t": 1})
    assert log.describe("t").identity not in ("", before)


def made(admin, name, partitions=1, **config):
    held = {key.replace("_", "."): value for key, value in config.items()}
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=held)
    admin.create_topics([topic])[name].result(30)


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
    made(admin, f"{prefix}.bare")
    assert opened(prefix).faults({"none": 1}) == [f"kafka: no topic '{prefix}.none'"]
    made(admin, f"{prefix}.sound", **SOUND)
    assert log.faults({"sound": 1}) == []
    assert [line.split()[3] for line in log.faults({"bare": 1})] == [
        "retention.ms",
        "message.timestamp.after.max.ms",
    ]


@pytest.mark.parametrize(("change", "line"), WRONG, ids=[line.split()[1] for _, line in WRONG])
def test_each_fault_of_a_topic(opened, admin, prefix, change, line):
    made(admin, f"{prefix}.t", **{**SOUND, **change})
    assert opened(prefix).faults({"t": 1}) == [f"kafka: {prefix}.t {line}"]


def test_too_few_copies_of_a_topic(opened, log, prefix):
    assert opened(prefix, replication=3).faults({"t": 1}) == [
        f"kafka: {prefix}.t has 1 replicas, fewer than 3; say replication in [run] where that is"
        " meant",
        f"kafka: {prefix}.t has min.insync.replicas = 1, not at least 2",
    ]


def test_reports_may_expire_but_not_be_compacted(opened, admin, prefix):
    log = opened(prefix, timed=("reports",))
    made(admin, f"{prefix}.reports", cleanup_policy="compact", retention_ms="1000")
    found = log.faults({"reports": 1})
    assert not any("retention" in line for line in found)
    assert any("cleanup.policy = compact, not delete" in line for line in found)
    assert any("message.timestamp.type = CreateTime, not LogAppendTime" in line for line in found)


STUDY = """
[study]
name = "topics"
unit = "person"
neighbours = "replace_one"
rho = 1
delta = 1e-6
[study.periods]
first = 1
every = "step"
count = 2
close = "marker"
[study.population]
size = 5
[attributes.a]
values = [0, 1]
missing = 0
[[releases]]
name = "pairs"
kind = "window"
attribute = "a"
width = 2
rho = 1
[run]
log = "kafka://{server}/{prefix}"
public = "kafka://{server}/{prefix}-public"
partitions = 2
replication = 1
insecure = {insecure}
"""


@pytest.fixture
def study(tmp_path, kafka, prefix):
    def study(insecure="true", extra=""):
        path = tmp_path / "topics.toml"
        path.write_text(STUDY.format(server=kafka, prefix=prefix, insecure=insecure) + extra)
        return str(path)

    return study


def test_the_command_makes_topics_and_names_faults(study, admin, prefix, capsys):
    made(admin, f"{prefix}.journal", partitions=2, cleanup_policy="compact", **SOUND)
    for command in ("topics", "run"):
        assert main([command, study()]) == 2
        out, error = capsys.readouterr()
        assert out == ""
        assert error.splitlines() == [
            f"stream-dp: kafka: {prefix}.journal has 2 partitions, not 1",
            f"stream-dp: kafka: {prefix}.journal has cleanup.policy = compact, not delete",
        ]
    admin.delete_topics([f"{prefix}.journal"])[f"{prefix}.journal"].result(30)
    deadline = time.monotonic() + 30
    while main(["topics", study()]) != 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    held = admin.list_topics(timeout=10).topics
    names = ["journal", "reports", "dead-letters"]
    assert {n: len(held[f"{prefix}.{n}"].partitions) for n in names} == {
        "journal": 1,
        "reports": 2,
        "dead-letters": 1,
    }
    assert len(held[f"{prefix}-public.releases"].partitions) == 1


# Settings

SECRET = "hunter2.hunter2"


def test_a_broker_without_authentication_needs_a_word(study, capsys):
    assert main(["topics", study(insecure="false")]) == 2
    assert "say insecure = true" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ('"sasl.pass" = {env = "SECRET"}', "'sasl.pass'"),
        ('"security.protocol" = {env = "SECRET"}', "'security.protocol'"),
        ('"ssl.key.pem" = {file = "secret"}\n"security.protocol" = "ssl"', "ssl."),
        ('"sasl.mechanism" = {file = "secret"}\n"security.protocol" = "sasl_plaintext"', "sasl."),
        ('"socket.timeout.ms" = {env = "SECRET"}', "'socket.timeout.ms'"),
    ],
)
def test_secrets_are_not_printed(study, tmp_path, monkeypatch, capfd, extra, named):
    monkeypatch.setenv("SECRET", SECRET)
    (tmp_path / "secret").write_text(SECRET + "\n")
    assert main(["topics", study(extra=f"[run.kafka]\n{extra}\n")]) == 2
    out, error = capfd.readouterr()
    assert named in error
    assert "hunter2" not in out + error


@pytest.mark.parametrize(
    "url",
    [
        "kafka:",
        "kafka:host:9092/p",
        "kafka://",
        "kafka://host:9092",
        "kafka://host:9092/",
        "kafka:///prefix",
        "kafka://host:9092/a/b",
        "kafka://host:9092/a b",
        "kafka://host:9092/" + "p" * 101,
        "kafkas://host:9092/p",
    ],
)
def test_urls_that_are_not_understood(tmp_path, url):
    with pytest.raises(UserError, match="write it as sqlite:FILE or kafka://host:port/prefix"):
        open_log(url, tmp_path, insecure=True)


def test_several_servers(tmp_path, kafka, prefix):
    log = open_log(f"kafka://127.0.0.1:1,{kafka}/{prefix}", tmp_path, insecure=True, replication=1)
    try:
        log.create({"t": 1})
        log.append(sent("t", b"x"))
        assert values(log, "t") == [b"x"]
    finally:
        log.close()


def test_headers_and_keys_count_in_the_size_of_a_record(log):
    half = bytes(MAX_RECORD // 2)
    with pytest.raises(LogError, match="is over 1000000"):
        log.append([Record("t", half, half, (("h", b"1"),))])
    log.append([Record("t", half, half[:-100], (("h", bytes(100)),))])
    assert len(values(log, "t")) == 1
