"""A chain of messages is read without their parts."""

import pytest
from messages import as_records, chain, write

from stream_dp.errors import Inconsistent
from stream_dp.log.message import MAX_PART, read_chain, read_part, read_parts


class Counting:
    """A log that notes how many bytes of values are read from it."""

    def __init__(self, log):
        self.describe, self.cut, self._log, self.bytes = log.describe, log.cut, log, 0

    def read(self, *asked):
        batch = self._log.read(*asked)
        self.bytes += sum(len(record.value or b"") for record in batch.records)
        return batch


def test_a_chain_is_read_without_its_parts(log):
    sent = chain(
        *(({"n": n}, [(f"part/{i}", b"x" * MAX_PART) for i in range(5)]) for n in range(12))
    )
    write(log, *map(as_records, sent))
    counting = Counting(log)
    links = read_chain(counting, "t", "journal")
    assert counting.bytes < 12 * 5 * MAX_PART / 2
    assert [link.hash for link in links] == [message.hash for message in sent]
    assert not any(link.parts for link in links)
    counting.bytes = 0
    assert read_parts(counting, "t", links[4], "journal") == sent[4]
    assert counting.bytes < 6 * MAX_PART


def test_a_chain_with_large_parts_is_refused_all_the_same(log):
    large = [(f"part/{i}", b"x" * MAX_PART) for i in range(5)]
    sent = chain(*(({"n": n}, large) for n in range(4)))
    flat = [record for message in sent for record in as_records(message)]
    for lost in (5, 8, 11, 23):  # a manifest, a part, a manifest, the last manifest
        log._db.execute("DELETE FROM records")
        write(log, flat[:lost] + flat[lost + 1 :])
        with pytest.raises(Inconsistent):
            read_chain(log, "t", "journal")


def test_one_part_is_read_without_the_others(log):
    state = [("state a/0", b"a" * MAX_PART), ("state a/1", b"b"), ("state ab/0", b"c")]
    sent = chain(*(({"n": n}, [*state, ("public/0", b"x" * MAX_PART)]) for n in range(3)))
    write(log, *map(as_records, sent))
    counting = Counting(log)
    links = read_chain(counting, "t", "journal")
    counting.bytes = 0
    assert read_part(counting, "t", links[1], "state a", "journal") == b"a" * MAX_PART + b"b"
    assert read_part(counting, "t", links[1], "state ab", "journal") == b"c"
    assert read_part(counting, "t", links[1], "state", "journal") == b""
    assert counting.bytes == MAX_PART + 2
    log._db.execute("UPDATE records SET value = x'00' WHERE offset = 6")
    with pytest.raises(Inconsistent, match="message 1 does not have the bytes of its manifest"):
        read_part(counting, "t", links[1], "state a", "journal")
    assert read_part(counting, "t", links[1], "state ab", "journal") == b"c"
