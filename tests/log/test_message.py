"""Messages: a manifest and parts that form a chain, and every way in which one can be broken."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.examples import SHARED
from messages import as_records, chain, write

from stream_dp.errors import Inconsistent
from stream_dp.log.log import MAX_RECORD, Record, Stored
from stream_dp.log.message import (
    MAX_PART,
    START,
    build_message,
    canonical,
    parts_in_records,
    read_chain,
    read_messages,
    read_parts,
    rfc3339_utc,
    split_part,
)

THREE = chain(
    ({"a": 1}, [("x", b"one")]),
    ({"a": 2}, []),
    ({"a": [3, "drei"]}, [("x", b""), ("y/0", b"3"), ("y/1", b"4")]),
)


def test_messages_come_back_as_they_were_sent(log):
    write(log, *(as_records(sent) for sent in THREE))
    assert list(read_messages(log, "t", "log")) == THREE


def test_a_topic_without_messages(log):
    log.create({"t": 1})
    assert list(read_messages(log, "t", "log")) == []


def test_messages_of_more_records_than_one_read(log):
    (sent,) = chain(({}, [(f"p/{i}", b"%d" % i) for i in range(450)]))
    more = build_message(1, sent.hash, {}, [])
    write(log, as_records(sent), as_records(more))
    first, second = read_messages(log, "t", "log")
    assert first == sent
    assert second.previous == sent.hash


def test_the_hash_covers_everything():
    sent = build_message(0, START, {"a": 1}, [("x", b"data")])
    others = [
        build_message(1, START, {"a": 1}, [("x", b"data")]),
        build_message(0, "1" * 64, {"a": 1}, [("x", b"data")]),
        build_message(0, START, {"a": 2}, [("x", b"data")]),
        build_message(0, START, {"a": 1, "b": 1}, [("x", b"data")]),
        build_message(0, START, {"a": 1}, [("y", b"data")]),
        build_message(0, START, {"a": 1}, [("x", b"datA")]),
        build_message(0, START, {"a": 1}, []),
        build_message(0, START, {"a": 1}, [("x", b"data"), ("x", b"")]),
    ]
    assert len({sent.hash, *(m.hash for m in others)}) == 1 + len(others)
    assert build_message(0, START, {"a": 1}, [("x", b"data")]) == sent


@pytest.mark.parametrize("size", [0, 1, MAX_PART - 1, MAX_PART, MAX_PART + 1, 3 * MAX_PART + 5])
def test_data_of_any_size_is_split_into_parts_that_fit(log, size):
    data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    parts = [("before", b"b"), *split_part("state name", data), ("after", b"a")]
    (sent,) = chain(({}, parts))
    assert all(len(r.value) <= MAX_RECORD for r in as_records(sent))
    assert all(len(part) <= MAX_PART for _, part in sent.parts)
    write(log, as_records(sent))
    (message,) = read_messages(log, "t", "log")
    assert message.part("state name") == data
    assert message.part("before") == b"b"
    assert message.part("state") == message.part("name") == b""


def test_more_than_ten_parts_stay_in_order():
    data = bytes(range(256)) * (12 * MAX_PART // 256)
    (sent,) = chain(({}, split_part("big", data)))
    assert len(sent.parts) == 12
    assert sent.part("big") == data


def test_a_part_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="too large"):
        build_message(0, START, {}, [("x", bytes(MAX_PART + 1))])


def test_names_with_slashes_are_not_mixed_up():
    (sent,) = chain(({}, [*split_part("state a", b"1"), *split_part("state a/b", b"2")]))
    assert sent.part("state a/b") == b"2"
    assert sent.part("state a") == b"1"


def test_headers_are_those_of_cloudevents():
    sent = THREE[2]
    records = as_records(sent, time=1_622_505_600.0)
    assert [dict(r.headers)["ce_id"] for r in records] == [
        b"2/x",
        b"2/y/0",
        b"2/y/1",
        b"2/manifest",
    ]
    for record in records:
        headers = dict(record.headers)
        assert headers["ce_specversion"] == b"1.0"
        assert (headers["ce_type"], headers["ce_source"]) == (b"test", b"tests")
        assert headers["ce_time"] == b"2021-06-01T00:00:00Z"
        assert (record.time, record.key, record.partition) == (1_622_505_600_000, b"2", 0)
    media = [dict(r.headers)["content-type"] for r in records]
    assert media == [b"application/octet-stream"] * 3 + [b"application/json"]
    untimed = as_records(sent)
    assert all("ce_time" not in dict(r.headers) and r.time == 0 for r in untimed)


def test_parts_of_records_leave_the_manifest_out():
    for sent in THREE:
        assert parts_in_records(as_records(sent)) == sent.parts


def test_canonical_json():
    assert canonical({"b": [1, None], "a": "ü"}) == b'{"a":"\\u00fc","b":[1,null]}'
    with pytest.raises(ValueError):
        canonical({"a": float("nan")})


def test_times_are_utc():
    assert rfc3339_utc(0) == "1970-01-01T00:00:00Z"
    assert rfc3339_utc(1_700_000_000.9) == "2023-11-14T22:13:20Z"


# Every fault is reported.


def broken(log, *groups):
    write(log, *groups)
    with pytest.raises(Inconsistent) as error:
        list(read_messages(log, "t", "public log"))
    with pytest.raises(Inconsistent) as again:
        read_chain(log, "t", "public log")
    assert again.value.lines == error.value.lines
    (line,) = error.value.lines
    assert line.startswith("public log: ")
    return line


def test_a_missing_message_in_the_middle(log):
    line = broken(log, as_records(THREE[0]), as_records(THREE[2]))
    assert "message 1 is missing; the next one is 2" in line


def test_a_missing_first_message(log):
    assert "message 0 is missing" in broken(log, as_records(THREE[1]))


def test_a_message_twice(log):
    assert "message 1" in broken(log, as_records(THREE[0]), as_records(THREE[0]))


def test_another_message_in_its_place(log):
    other = build_message(0, START, {"a": "another"}, [])
    assert "broken hash chain" in broken(log, as_records(other), as_records(THREE[1]))


def test_a_first_message_that_follows_something(log):
    assert "broken hash chain" in broken(log, as_records(build_message(0, "f" * 64, {}, [])))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_changed_part(log, place):
    last = as_records(THREE[2])
    last[place] = replace(last[place], value=(last[place].value or b"") + b"!")
    line = broken(log, as_records(THREE[0]), as_records(THREE[1]), last)
    assert "message 2 does not have the bytes of its manifest" in line


@pytest.mark.parametrize("order", [[1, 2, 3], [0, 0, 1, 2, 3], [1, 0, 2, 3], [0, 2, 1, 3]])
def test_parts_that_are_lost_doubled_or_moved(log, order):
    last = as_records(THREE[2])
    line = broken(log, *map(as_records, THREE[:2]), [last[i] for i in order])
    assert "message 2 does not have the bytes of its manifest" in line


def test_a_part_between_two_messages(log):
    line = broken(log, as_records(THREE[0]), as_records(THREE[2])[:1], as_records(THREE[1]))
    assert "message 1" in line


def test_a_lost_manifest(log):
    line = broken(log, *map(as_records, THREE[:2]), as_records(THREE[2])[:-1])
    assert "ends in the middle of message 2" in line


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b"\xff\xfe",
        b'{"parts": 1, "index": 0, "previous": ""}',
        b'{"parts": [1], "index": 0, "previous": ""}',
        b'{"parts": [{}], "index": 0, "previous": ""}',
        b'{"parts": [], "index": 0}',
        b'{"parts": [], "index": true, "previous": ""}',
        b'{"parts": [], "index": "\x1b[31m", "previous": ""}',
        b'{"parts": [], "index": -1, "previous": ""}',
        b'{"parts": [], "index": 1' + b"0" * 30 + b', "previous": ""}',
        b'{"parts": [], "index": 1' + b"0" * 9000 + b', "previous": ""}',
        b'{"parts": [], "index": 0, "previous": "", "a": NaN}',
        b'{"parts": [], "index": 0, "previous": "", "a": -Infinity}',
        b'{"parts": [], "index": 0, "previous": "", "a": 1e999}',
        b"[" * 100_000,
        None,
    ],
)
def test_a_damaged_manifest(log, manifest):
    (record,) = as_records(build_message(0, START, {}, []))
    assert "message 0 is damaged" in broken(log, [replace(record, value=manifest)])


def test_a_header_without_a_value_is_no_part_name(log):
    log.create({"t": 1})
    read = log.read("t", {0: 0}, 1, 0)

    class Nameless:
        describe = log.describe

        def read(self, *_):
            stored = Stored(
                partition=0,
                offset=0,
                time=0,
                key=None,
                value=b"x",
                headers=(("stream-dp-part", None),),
            )
            return replace(read, records=[stored], at_end=True)

    with pytest.raises(Inconsistent, match="ends in the middle of message 0"):
        list(read_messages(Nameless(), "t", "public log"))


def test_a_changed_manifest_breaks_the_next_link(log):
    first = as_records(THREE[0])
    manifest = json.loads(first[-1].value)
    manifest["a"] = 100
    first[-1] = replace(first[-1], value=canonical(manifest))
    assert "message 1 does not follow" in broken(log, first, as_records(THREE[1]))


def test_records_that_are_no_message(log):
    line = broken(log, as_records(THREE[0]), [Record("t", b"anything")])
    assert "ends in the middle of message 1" in line


def test_a_topic_of_several_partitions(log):
    log.create({"t": 2})
    for read in (read_messages, read_chain):
        with pytest.raises(Inconsistent, match="has 2 partitions and must have 1"):
            list(read(log, "t", "journal"))


def test_a_topic_whose_beginning_is_gone(log):
    write(log, *map(as_records, THREE))
    log._db.execute("DELETE FROM records WHERE offset < 2")
    for read in (read_messages, read_chain):
        with pytest.raises(Inconsistent, match="journal: begins at position 2, so its first"):
            list(read(log, "t", "journal"))


# Any content.

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
RESERVED = {"index", "previous", "parts"}
contents = st.tuples(
    st.dictionaries(st.text(max_size=6).filter(lambda k: k not in RESERVED), json_values),
    st.lists(
        st.tuples(st.text(max_size=6).filter(lambda n: n != "manifest"), st.binary(max_size=40)),
        max_size=4,
    ),
)


@settings(
    max_examples=60,
    suppress_health_check=SHARED,
)
@given(written=st.lists(contents, max_size=5), data=st.data())
def test_any_chain_comes_back_and_any_change_is_noticed(log, written, data):
    topic = f"t{log._db.execute('SELECT count(*) FROM topics').fetchone()[0]}"
    sent = chain(*written)
    log.create({topic: 1})
    flat = [record for message in sent for record in as_records(message, topic)]
    log.append(flat)
    assert list(read_messages(log, topic, "log")) == sent
    assert read_all(log, topic) == sent
    # The last manifest alone is covered by no other: its hash is what verify --head compares.
    if len(flat) < 2:
        return
    place = data.draw(st.integers(0, len(flat) - 2))
    how = data.draw(st.sampled_from(["lose", "double", "change"]))
    log._db.execute("DELETE FROM records WHERE topic = ?", (topic,))
    damaged = list(flat)
    if how == "lose":
        del damaged[place]
    elif how == "double":
        damaged.insert(place, damaged[place])
    else:
        damaged[place] = replace(damaged[place], value=(flat[place].value or b"") + b" ")
    log.append(damaged)
    for read in (read_messages, read_chain):
        with pytest.raises(Inconsistent):
            list(read(log, topic, "log"))
    # Where parts are passed over, what they lack shows once they are read.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stream_dp.log.message._FIRST", 2)
        patch.setattr("stream_dp.log.message._BYTES_AT_ONCE", 1)
        with pytest.raises(Inconsistent):
            read_all(log, topic)


def read_all(log, topic):
    """Every message by the chain, and then its parts."""
    return [read_parts(log, topic, link, "log") for link in read_chain(log, topic, "log")]
