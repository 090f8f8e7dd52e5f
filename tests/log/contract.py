"""What every log must do. A test module of a log subclasses `LogContract` and gives `opener`.

Nothing here knows how a log stores its records: offsets only increase, and the end of a topic is
where `read` says so.
"""

import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from stream_dp.log.base import (
    MAX_BATCH,
    MAX_RECORD,
    Busy,
    Fenced,
    Log,
    LogError,
    OutOfRange,
    Positions,
    Record,
    Stored,
)

Opener = Callable[[], Log]
Maker = Callable[..., str]
PATIENCE = 30.0  # seconds after which something that should have come never will


def drain(log: Log, topic: str, positions: Positions | None = None, limit: int = 1000):
    """The records from `positions` (or the first ones) to the end, and the positions there."""
    positions = dict(log.describe(topic).first if positions is None else positions)
    found: list[Stored] = []
    until = time.monotonic() + PATIENCE
    while True:
        batch = log.read(topic, positions, limit, 0)
        assert len(batch.records) <= limit
        assert batch.next.keys() == positions.keys()
        assert all(batch.next[p] >= position for p, position in positions.items())
        found += batch.records
        positions = batch.next
        if batch.at_end:
            return found, positions
        assert time.monotonic() < until, "the end of the topic never came"


def values(log: Log, topic: str, positions: Positions | None = None) -> list[bytes | None]:
    return [record.value for record in drain(log, topic, positions)[0]]


def by_partition(records: list[Stored]) -> dict[int, list[bytes | None]]:
    found: dict[int, list[bytes | None]] = {}
    for record in records:
        found.setdefault(record.partition, []).append(record.value)
    return found


def sent(topic: str, *several: bytes, **given) -> list[Record]:
    return [Record(topic, value, **given) for value in several]


class LogContract:
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
        found, _ = drain(log, name)
        places = {key: {r.partition for r in found if r.key == key} for key in keys}
        assert all(len(p) == 1 for p in places.values())
        assert len(set.union(*places.values())) > 1
        assert len(found) == 2 * len(keys)

    def test_a_given_partition_is_taken(self, log, topic):
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
        found, _ = drain(log, name, limit=7)
        for part, held in by_partition(found).items():
            assert held == [b"%d" % i for i in range(60) if i % 3 == part]
        for part in range(3):
            offsets = [r.offset for r in found if r.partition == part]
            assert offsets == sorted(set(offsets))

    def test_keys_values_and_headers_come_back_as_they_were(self, log, topic):
        name = topic()
        many = (("a", b"1"), ("ünï", b"\x00\xff"), ("a", b"2"), ("empty", b""))
        given = [
            Record(name, b"v", b"k", many),
            Record(name, None, b"k"),
            Record(name, b"v", None),
            Record(name, b"", b"k", (("only", b"x"),)),
            Record(name, None, None, (("stream-dp-close", b"3"),)),
            Record(name, bytes(range(256)), bytes(range(256))),
        ]
        log.append(given)
        found, _ = drain(log, name)
        assert [(r.value, r.key, r.headers) for r in found] == [
            (r.value, r.key, r.headers) for r in given
        ]
        assert all(isinstance(r.headers, tuple) and r.partition == 0 for r in found)

    def test_given_times_are_kept(self, log, topic):
        name = topic()
        times = [1_600_000_000_000, 1_600_000_000_001, 1_700_000_000_123]
        log.append(Record(name, b"x", time=t) for t in times)
        assert [r.time for r in drain(log, name)[0]] == times

    def test_times_of_appending_never_fall(self, log, topic):
        name, before = topic(2), time.time()
        for i in range(6):
            log.append(sent(name, b"a", b"b", partition=i % 2))
        found, _ = drain(log, name)
        for part in range(2):
            times = [r.time for r in found if r.partition == part]
            assert times == sorted(times)
            assert all(abs(t / 1000 - before) < 60 for t in times)

    # Reading.

    @pytest.mark.parametrize("limit", [1, 2, 3, 100])
    def test_reading_on_from_next_gives_everything_once(self, log, topic, limit):
        name = topic(3)
        given = [b"%d" % i for i in range(12)]
        log.append(Record(name, value, partition=i % 3) for i, value in enumerate(given))
        found, end = drain(log, name, limit=limit)
        assert sorted(r.value for r in found) == sorted(given)
        assert len({(r.partition, r.offset) for r in found}) == 12
        assert drain(log, name, end) == ([], end)

    def test_the_end_of_a_read_is_where_the_next_record_is_found(self, log, topic):
        name = topic(2)
        _, end = drain(log, name)
        log.append(sent(name, b"a", partition=0))
        log.append(sent(name, b"b", partition=1))
        assert sorted(values(log, name, end)) == [b"a", b"b"]

    def test_reading_again_from_a_record_gives_it_again(self, log, topic):
        name = topic()
        log.append(sent(name, b"0", b"1", b"2"))
        found, _ = drain(log, name)
        for i, record in enumerate(found):
            batch = log.read(name, {0: record.offset}, 1, PATIENCE)
            assert batch.records == [record]
            assert batch.next[0] > record.offset
            assert values(log, name, {0: record.offset}) == [b"0", b"1", b"2"][i:]

    def test_some_partitions_only(self, log, topic):
        name = topic(3)
        log.append(Record(name, b"%d" % p, partition=p) for p in range(3))
        first = log.describe(name).first
        found, end = drain(log, name, {2: first[2], 0: first[0]})
        assert sorted(r.value for r in found) == [b"0", b"2"]
        assert set(end) == {0, 2}
        log.append(sent(name, b"not this one", partition=1))
        assert drain(log, name, end) == ([], end)

    def test_an_empty_read_waits_as_long_as_it_is_told(self, log, topic):
        name = topic(2)
        _, end = drain(log, name)
        start = time.monotonic()
        batch = log.read(name, end, 10, 0.4)
        assert 0.35 <= time.monotonic() - start < PATIENCE
        assert (batch.records, batch.next, batch.at_end) == ([], end, True)

    def test_a_read_that_waits_returns_when_a_record_comes(self, opener, log, topic):
        name = topic(2)
        _, end = drain(log, name)
        other = opener()
        timer = threading.Timer(0.3, lambda: other.append(sent(name, b"here", partition=1)))
        timer.start()
        start = time.monotonic()
        batch = log.read(name, end, 10, PATIENCE)
        assert time.monotonic() - start < PATIENCE / 2
        timer.join()
        assert [r.value for r in batch.records] == [b"here"]

    def test_positions_beyond_the_end_are_an_error(self, log, topic):
        name = topic(2)
        log.append(sent(name, b"a", b"b", partition=0))
        _, end = drain(log, name)
        for part in end:
            with pytest.raises(OutOfRange):
                log.read(name, {**end, part: end[part] + 1000}, 10, 0)
        assert drain(log, name, end) == ([], end)

    # Cuts.

    def test_cuts_by_time(self, log, topic):
        name = topic(3)
        moments = [time.time()]
        for i in range(3):
            time.sleep(0.03)
            log.append(sent(name, b"0 %d" % i, partition=0))
            if i != 1:
                log.append(sent(name, b"1 %d" % i, partition=1))
            time.sleep(0.03)
            moments.append(time.time())
        expected = [
            ([b"0 0", b"0 1", b"0 2"], [b"1 0", b"1 2"]),
            ([b"0 1", b"0 2"], [b"1 2"]),
            ([b"0 2"], [b"1 2"]),
            ([], []),
        ]
        for moment, (first, second) in zip(moments, expected, strict=True):
            cut = log.cut(name, moment)
            assert set(cut) == {0, 1, 2}
            found = by_partition(drain(log, name, cut)[0])
            assert (found.get(0, []), found.get(1, [])) == (first, second)
            assert 2 not in found
        assert by_partition(drain(log, name, log.cut(name, 0.0))[0])[0] == expected[0][0]
        assert log.cut(name, moments[-1] + 3600) == log.cut(name, moments[-1])

    def test_what_comes_after_a_cut_at_the_end_lies_beyond_it(self, log, topic):
        name = topic(2)
        log.append(sent(name, b"before", partition=0))
        time.sleep(0.03)
        cut = log.cut(name, time.time())
        log.append(sent(name, b"after", partition=0))
        log.append(sent(name, b"after too", partition=1))
        assert sorted(values(log, name, cut)) == [b"after", b"after too"]

    # Sizes.

    def test_a_record_of_the_largest_size_is_taken(self, opener, log, topic):
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

    # Owners.

    def test_a_commit_is_seen_by_others_when_it_returns(self, opener, log, topic):
        name, other = topic(), opener()
        with log.own(f"{name}-owner") as writer:
            writer.commit(sent(name, b"1"))
            assert values(other, name) == [b"1"]
            writer.commit(sent(name, b"2", b"3"))
            assert values(other, name) == [b"1", b"2", b"3"]
        assert values(opener(), name) == [b"1", b"2", b"3"]

    def test_a_commit_of_several_topics(self, opener, log, topic):
        first, second = topic(2), topic()
        with log.own(f"{first}-owner") as writer:
            writer.commit(
                [
                    Record(first, b"a", partition=0, headers=(("h", b"1"),), time=5),
                    Record(second, b"b", b"key"),
                    Record(first, b"c", partition=1),
                ]
            )
        found, _ = drain(opener(), first)
        assert by_partition(found) == {0: [b"a"], 1: [b"c"]}
        assert [(r.headers, r.time) for r in found if r.partition == 0] == [((("h", b"1"),), 5)]
        assert [(r.key, r.value) for r in drain(log, second)[0]] == [(b"key", b"b")]

    def test_a_commit_of_nothing_is_harmless(self, log, topic):
        name = topic()
        with log.own(f"{name}-owner") as writer:
            writer.commit([])
            writer.commit(sent(name, b"1"))
        assert values(log, name) == [b"1"]

    def test_a_commit_that_fails_leaves_nothing(self, log, topic):
        first, second = topic(), topic()

        def breaking():
            yield Record(first, b"a")
            yield Record(second, b"b")
            raise ZeroDivisionError

        with log.own(f"{first}-owner") as writer, pytest.raises(ZeroDivisionError):
            writer.commit(breaking())
        with log.own(f"{first}-owner") as writer:
            with pytest.raises(LogError):
                writer.commit([Record(first, b"a"), Record(f"none-{uuid.uuid4().hex}", b"b")])
        assert values(log, first) == values(log, second) == []
        with log.own(f"{first}-owner") as writer:
            writer.commit(sent(first, b"later"))
        assert values(log, first) == [b"later"]

    def test_at_most_one_owner_can_commit(self, opener, log, topic):
        name, other = topic(), opener()
        with log.own(f"{name}-owner") as first:
            first.commit(sent(name, b"first"))
            try:
                with other.own(f"{name}-owner") as second:
                    second.commit(sent(name, b"second"))
                    with pytest.raises(Fenced):
                        first.commit(sent(name, b"fenced"))
                    expected = [b"first", b"second"]
            except Busy:
                first.commit(sent(name, b"still the first"))
                expected = [b"first", b"still the first"]
        assert values(opener(), name) == expected

    def test_roles_do_not_disturb_each_other_nor_appends(self, opener, log, topic):
        name, other = topic(), opener()
        with log.own(f"{name}-one") as one, other.own(f"{name}-two") as two:
            one.commit(sent(name, b"1"))
            two.commit(sent(name, b"2"))
            other.append(sent(name, b"3"))
            one.commit(sent(name, b"4"))
        assert values(log, name) == [b"1", b"2", b"3", b"4"]

    def test_a_role_can_be_taken_again(self, opener, log, topic):
        name = topic()
        for i in range(3):
            with opener().own(f"{name}-owner") as writer:
                writer.commit(sent(name, b"%d" % i))
        assert values(log, name) == [b"0", b"1", b"2"]

    def test_an_owner_that_has_left_cannot_commit(self, log, topic):
        name = topic()
        with log.own(f"{name}-owner") as writer:
            pass
        with pytest.raises(Fenced):
            writer.commit(sent(name, b"late"))
        assert values(log, name) == []

    # What other programs may have written.

    def test_a_header_without_a_value_has_an_empty_one(self, log, topic):
        name = topic()
        log.append([Record(name, b"v", None, (("none", None), ("twice", b"1"), ("twice", None)))])
        ((found,), _) = drain(log, name)
        assert found.headers == (("none", b""), ("twice", b"1"), ("twice", b""))
        assert (found.header("twice"), found.header("absent")) == (b"", b"")

    def test_a_read_is_bounded_by_bytes(self, log, topic):
        name, count = topic(2), 100
        for start in range(0, count, 20):
            log.append(
                Record(name, bytes(MAX_RECORD), partition=i % 2) for i in range(start, start + 20)
            )
        positions, sizes = dict(log.describe(name).first), []
        while sum(sizes) < count * MAX_RECORD:
            batch = log.read(name, positions, 10_000, PATIENCE)
            positions = batch.next
            sizes.append(sum(len(r.value) for r in batch.records))
        assert max(sizes) <= MAX_BATCH + 8 * MAX_RECORD
        assert sum(sizes) == count * MAX_RECORD

    def test_keys_and_headers_count_in_what_a_read_takes(self, log, topic):
        name, count = topic(), 90
        header = (("h", bytes(400_000)),)
        for _ in range(0, count, 10):
            log.append([Record(name, None, bytes(500_000), header)] * 10)
        first = log.read(name, log.describe(name).first, 10_000, PATIENCE)
        assert 0 < len(first.records) < count
        assert not first.at_end
        assert len(drain(log, name)[0]) == count
