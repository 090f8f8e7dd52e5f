"""What every log must do: reading from positions, and cuts by time."""

import threading
import time

import pytest
from contents import PATIENCE, by_partition, drain, sent, values

from stream_dp.log.log import MAX_BATCH, MAX_RECORD, OutOfRange, Record


class ReadingContract:
    """Tests of `read` and `cut`; the fixtures are those of `LogContract`."""

    # Reading.

    @pytest.mark.parametrize("limit", [1, 2, 3, 100])
    def test_reading_on_from_next_gives_everything_once(self, log, topic, limit):
        name = topic(3)
        appended = [b"%d" % i for i in range(12)]
        log.append(Record(name, value, partition=i % 3) for i, value in enumerate(appended))
        records, end = drain(log, name, limit=limit)
        assert sorted(r.value for r in records) == sorted(appended)
        assert len({(r.partition, r.offset) for r in records}) == 12
        assert drain(log, name, end) == ([], end)

    def test_the_end_of_a_read_is_where_the_next_record_is_read(self, log, topic):
        name = topic(2)
        _, end = drain(log, name)
        log.append(sent(name, b"a", partition=0))
        log.append(sent(name, b"b", partition=1))
        assert sorted(values(log, name, end)) == [b"a", b"b"]

    def test_reading_again_from_a_record_gives_it_again(self, log, topic):
        name = topic()
        log.append(sent(name, b"0", b"1", b"2"))
        records, _ = drain(log, name)
        for i, record in enumerate(records):
            batch = log.read(name, {0: record.offset}, 1, PATIENCE)
            assert batch.records == [record]
            assert batch.next[0] > record.offset
            assert values(log, name, {0: record.offset}) == [b"0", b"1", b"2"][i:]

    def test_some_partitions_only(self, log, topic):
        name = topic(3)
        log.append(Record(name, b"%d" % p, partition=p) for p in range(3))
        first = log.describe(name).first
        records, end = drain(log, name, {2: first[2], 0: first[0]})
        assert sorted(r.value for r in records) == [b"0", b"2"]
        assert set(end) == {0, 2}
        log.append(sent(name, b"not this one", partition=1))
        assert drain(log, name, end) == ([], end)

    def test_an_empty_read_waits_for_its_timeout(self, log, topic):
        name = topic(2)
        _, end = drain(log, name)
        start = time.monotonic()
        batch = log.read(name, end, 10, 0.4)
        assert 0.35 <= time.monotonic() - start < PATIENCE
        assert (batch.records, batch.next, batch.at_end) == ([], end, True)

    @pytest.mark.parametrize("value", [b"here", b"here" * 100_000], ids=["small", "large"])
    def test_a_read_that_waits_returns_when_a_record_comes(self, opener, log, topic, value):
        name = topic(2)
        _, end = drain(log, name)
        other = opener()
        timer = threading.Timer(0.3, lambda: other.append(sent(name, value, partition=1)))
        timer.start()
        start = time.monotonic()
        batch = log.read(name, end, 10, PATIENCE)
        assert time.monotonic() - start < PATIENCE / 2
        timer.join()
        assert [r.value for r in batch.records] == [value]

    def test_positions_beyond_the_end_are_an_error(self, log, topic):
        name = topic(2)
        log.append(sent(name, b"a", b"b", partition=0))
        _, end = drain(log, name)
        for part in end:
            with pytest.raises(OutOfRange):
                log.read(name, {**end, part: end[part] + 1000}, 10, 0)
        assert drain(log, name, end) == ([], end)

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

    def test_keys_and_headers_count_in_the_bound_of_a_read(self, log, topic):
        name, count = topic(), 90
        header = (("h", bytes(400_000)),)
        for _ in range(0, count, 10):
            log.append([Record(name, None, bytes(500_000), header)] * 10)
        first = log.read(name, log.describe(name).first, 10_000, PATIENCE)
        assert 0 < len(first.records) < count
        assert not first.at_end
        assert len(drain(log, name)[0]) == count

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
            contents = by_partition(drain(log, name, cut)[0])
            assert (contents.get(0, []), contents.get(1, [])) == (first, second)
            assert 2 not in contents
        assert by_partition(drain(log, name, log.cut(name, 0.0))[0])[0] == expected[0][0]
        assert log.cut(name, moments[-1] + 3600) == log.cut(name, moments[-1])

    def test_without_transactions_everything_can_be_read(self, log, topic):
        name = topic(2)
        log.append([*sent(name, b"one", partition=0), *sent(name, b"two", partition=0)])
        stable = log.stable(name)
        assert stable == log.cut(name, time.time() + 3600)
        assert log.read(name, stable, 1, 0).at_end
        assert len(values(log, name, {0: 0, 1: 0})) == 2

    def test_what_comes_after_a_cut_at_the_end_lies_beyond_it(self, log, topic):
        name = topic(2)
        log.append(sent(name, b"before", partition=0))
        time.sleep(0.03)
        cut = log.cut(name, time.time())
        log.append(sent(name, b"after", partition=0))
        log.append(sent(name, b"after too", partition=1))
        assert sorted(values(log, name, cut)) == [b"after", b"after too"]
