"""What every log must do. A test module of a log subclasses `LogContract` and gives `opener`.

Nothing here knows how a log stores its records: offsets only increase, and the end of a topic is
where `read` says so.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from contents import by_partition, drain, sent, values
from contract_owners import OwnersContract
from contract_reading import ReadingContract

from stream_dp.log.log import MAX_RECORD, Log, LogError, Record
from stream_dp.log.records import RecordColumns

Opener = Callable[[], Log]
Maker = Callable[..., str]


class LogContract(ReadingContract, OwnersContract):
    """Tests of one kind of log."""

    @pytest.fixture
    def opener(self) -> Iterator[Opener]:
        """Opens a log, always the same one; the fixture closes them all."""
        raise NotImplementedError

    @pytest.fixture
    def log(self, opener: Opener) -> Log:
        return opener()

    @pytest.fixture
    def topic(self, log: Log) -> Maker:
        """Makes a topic that no other test has."""

        def make(partitions: int = 1) -> str:
            name = f"t-{uuid.uuid4().hex}"
            log.create({name: partitions})
            return name

        return make

    # Topics.

    def test_creating_again_changes_nothing(self, opener, log, topic):
        name = topic(2)
        log.append(sent(name, b"kept"))
        other = f"{name}-too"
        for again in (log, opener()):
            again.create({name: 2, other: 3})
        assert log.describe(name).partitions == 2
        assert log.describe(other).partitions == 3
        assert values(log, name) == [b"kept"]

    def test_a_topic_that_does_not_exist_is_an_error_everywhere(self, log):
        name = f"none-{uuid.uuid4().hex}"
        for use in (
            lambda: log.describe(name),
            lambda: log.cut(name, 0.0),
            lambda: log.read(name, {0: 0}, 1, 0),
            lambda: log.append([Record(name, b"x")]),
        ):
            with pytest.raises(LogError):
                use()

    def test_describe_says_the_same_after_opening_again(self, opener, log, topic):
        name = topic(3)
        before = log.describe(name)
        log.append(sent(name, b"a", partition=1))
        after = opener().describe(name)
        assert before.identity
        assert after.identity == before.identity
        assert after.partitions == before.partitions == 3
        assert set(after.first) == {0, 1, 2}
        assert values(log, name, after.first) == [b"a"]

    def test_several_topics_are_described_together(self, log, topic):
        names = [topic(1), topic(3)]
        described = log.describe_all([*names, f"none-{uuid.uuid4().hex}"])
        assert described == {name: log.describe(name) for name in names}
        assert log.describe_all([]) == {}
        assert log.hazards(names) == []

    # Records.

    def test_what_is_appended_is_seen_by_others_and_after_opening_again(self, opener, log, topic):
        name, other = topic(), opener()
        assert values(other, name) == []
        log.append(sent(name, b"1", b"2"))
        assert values(other, name) == [b"1", b"2"]
        other.append(sent(name, b"3"))
        assert values(log, name) == values(opener(), name) == [b"1", b"2", b"3"]

    def test_appending_nothing_is_harmless(self, log, topic):
        name = topic()
        log.append([])
        assert values(log, name) == []

    def test_a_key_always_goes_to_the_same_partition(self, opener, log, topic):
        name = topic(5)
        keys = [f"person {i}".encode() for i in range(60)]
        for writer in (log, opener()):
            writer.append(Record(name, key, key) for key in keys)
        records, _ = drain(log, name)
        places = {key: {r.partition for r in records if r.key == key} for key in keys}
        assert all(len(p) == 1 for p in places.values())
        assert len(set.union(*places.values())) > 1
        assert len(records) == 2 * len(keys)

    def test_a_record_goes_to_the_partition_that_it_names(self, log, topic):
        name = topic(3)
        log.append(Record(name, b"%d" % p, b"same key", partition=p) for p in (2, 0, 1, 2))
        assert by_partition(drain(log, name)[0]) == {0: [b"0"], 1: [b"1"], 2: [b"2", b"2"]}

    @pytest.mark.parametrize("partition", [-1, 3, 1000])
    def test_a_partition_that_does_not_exist_is_refused(self, log, topic, partition):
        name = topic(3)
        with pytest.raises(LogError):
            log.append([Record(name, b"x", partition=partition)])
        assert values(log, name) == []

    def test_records_stay_in_order_inside_a_partition(self, log, topic):
        name = topic(3)
        for start in range(0, 60, 20):
            log.append(Record(name, b"%d" % i, partition=i % 3) for i in range(start, start + 20))
        records, _ = drain(log, name, limit=7)
        for part, contents in by_partition(records).items():
            assert contents == [b"%d" % i for i in range(60) if i % 3 == part]
        for part in range(3):
            offsets = [r.offset for r in records if r.partition == part]
            assert offsets == sorted(set(offsets))

    def test_keys_values_and_headers_come_back_as_they_were(self, log, topic):
        name = topic()
        many = (("a", b"1"), ("ünï", b"\x00\xff"), ("a", b"2"), ("empty", b""))
        appended = [
            Record(name, b"v", b"k", many),
            Record(name, None, b"k"),
            Record(name, b"v", None),
            Record(name, b"", b"k", (("only", b"x"),)),
            Record(name, None, None, (("stream-dp-close", b"3"),)),
            Record(name, bytes(range(256)), bytes(range(256))),
        ]
        log.append(appended)
        records, _ = drain(log, name)
        assert [(r.value, r.key, r.headers) for r in records] == [
            (r.value, r.key, r.headers) for r in appended
        ]
        assert all(isinstance(r.headers, tuple) and r.partition == 0 for r in records)

    @pytest.mark.parametrize("partitions", [1, 3])
    @pytest.mark.parametrize("varying", [{}, {"row": [b"%d" % i for i in range(200)]}])
    def test_columns_are_written_as_their_records_are(self, log, topic, partitions, varying):
        keys = [b"p%d" % (i % 50) for i in range(200)]
        values = [b"%d" % i if i else None for i in range(200)]
        columns = RecordColumns("", keys, values, (("source", b"t.csv"),), varying)
        names = topic(partitions), topic(partitions)
        both = [replace(columns, topic=name) for name in names]
        log.append(both[0])
        log.append(list(both[1]))
        for name in names:
            more = {header: contents[-1:] for header, contents in varying.items()}
            log.append(replace(columns, topic=name, keys=keys[:1], values=[b"more"], varying=more))
        first, second = (
            [(r.partition, r.key, r.value, r.headers) for r in sorted(drain(log, name)[0])]
            for name in names
        )
        assert first == second
        assert len(first) == 201

    def test_too_large_a_record_of_columns_is_refused(self, log, topic):
        name = topic()
        with pytest.raises(LogError, match="is over"):
            log.append(RecordColumns(name, [b"a", b"b"], [b"small", bytes(MAX_RECORD)]))
        assert values(log, name) == []

    def test_given_times_are_kept(self, log, topic):
        name = topic()
        times = [1_600_000_000_000, 1_600_000_000_001, 1_700_000_000_123]
        log.append(Record(name, b"x", time=t) for t in times)
        assert [r.time for r in drain(log, name)[0]] == times

    def test_times_of_appending_never_fall(self, log, topic):
        name, before = topic(2), time.time()
        for i in range(6):
            log.append(sent(name, b"a", b"b", partition=i % 2))
        records, _ = drain(log, name)
        for part in range(2):
            times = [r.time for r in records if r.partition == part]
            assert times == sorted(times)
            assert all(before - 60 < t / 1000 < time.time() + 60 for t in times)

    # Sizes.

    def test_a_record_of_the_largest_size_is_stored(self, opener, log, topic):
        name = topic()
        largest = bytes(MAX_RECORD)
        log.append(sent(name, largest))
        with log.own(f"{name}-owner") as writer:
            writer.commit(sent(name, largest))
        assert [len(v) for v in values(opener(), name)] == [MAX_RECORD] * 2

    @pytest.mark.parametrize(
        "large",
        [
            {"value": bytes(MAX_RECORD + 100_000)},
            {"value": None, "key": bytes(MAX_RECORD + 100_000)},
            {"value": b"", "headers": (("h", bytes(MAX_RECORD + 100_000)),)},
        ],
        ids=["value", "key", "header"],
    )
    def test_larger_records_are_refused_and_nothing_is_written(self, log, topic, large):
        name = topic()
        with pytest.raises(LogError):
            log.append([Record(name, b"beside"), Record(name, **large), Record(name, b"beside")])
        with log.own(f"{name}-owner") as writer, pytest.raises(LogError):
            writer.commit([Record(name, b"beside"), Record(name, **large)])
        assert values(log, name) == []
        log.append(sent(name, b"next"))
        assert values(log, name) == [b"next"]

    # What other programs may have written.

    def test_a_header_without_a_value_has_an_empty_one(self, log, topic):
        name = topic()
        log.append([Record(name, b"v", None, (("none", None), ("twice", b"1"), ("twice", None)))])
        ((records,), _) = drain(log, name)
        assert records.headers == (("none", b""), ("twice", b"1"), ("twice", b""))
        assert (records.header("twice"), records.header("absent")) == (b"", b"")
