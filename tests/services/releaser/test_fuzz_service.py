"""The service: received = accepted + superseded + rejected + pending."""

import uuid

import pytest
from arrivals_served import SECRET, Service, balanced, secret_reports
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.arrivals import BOUNDED, OPEN, PERIODS, raw, report_bytes
from kit.examples import SHARED
from kit.rejected_cells import reasons_of

from stream_dp.client import PublicLog
from stream_dp.log.log import Record
from stream_dp.population.cells import REASONS
from stream_dp.study.topics import REPORTS


@pytest.mark.parametrize("study", [OPEN, BOUNDED], ids=["open", "bounded"])
@settings(
    max_examples=5,
    suppress_health_check=SHARED,
)
@given(
    segments=st.lists(
        st.lists(st.tuples(st.integers(0, 1), secret_reports | raw), max_size=12),
        min_size=len(PERIODS),
        max_size=len(PERIODS),
    ),
    stop=st.booleans(),
)
def test_the_service_lives_and_accounts_for_everything(tmp_path, study, segments, stop):
    service = Service(tmp_path / uuid.uuid4().hex, study)
    for number, segment_ in enumerate(segments, 1):
        service.log.append(
            Record(topic=REPORTS, value=v, key=b"k", headers=(), partition=p) for p, v in segment_
        )
        service.mark(number)
        if stop or number == len(segments):
            assert service.run() is (number == len(segments))
            accounting = service.accounting()
            assert balanced(accounting)
            assert reasons_of(service.letters()) == accounting["rejected"]
    assert accounting["pending"] == 0
    assert all(count >= 0 for count in accounting["rejected"].values())
    for line in service.lines:
        assert SECRET not in line
    for letter in service.letters():
        assert SECRET.encode() not in (letter.key or b"")
        assert all(SECRET.encode() not in value for _, value in letter.headers)
    periods = [r.certificate.period for r in PublicLog(service.public).releases_of("wa")]
    assert periods == list(PERIODS[1:])
    service.close_logs()


def test_a_record_that_fails_twice_is_counted_twice(tmp_path):
    service = Service(tmp_path / "s", BOUNDED, partitions=1)
    # Everybody's a is unusable and b is good, but there is no place for two of them.
    service.log.append(Record(REPORTS, report_bytes(f"p{i}", a=99, b="x")) for i in range(6))
    service.mark(1)
    service.run()
    accounting = service.accounting()
    assert accounting["rejected"] == {"full": 2, "value": 6}
    assert reasons_of(service.letters()) == accounting["rejected"]
    assert balanced(accounting)
    service.close_logs()


@pytest.mark.parametrize("word", [b"", b"x", b"0", b"-1", b"1.5", b"100000", b"\xb2"])
def test_a_record_that_only_looks_like_a_marker_is_not_lost(tmp_path, word):
    service = Service(tmp_path / "s", OPEN)
    header = (("stream-dp-close", word),)
    service.log.append(
        [Record(topic=REPORTS, value=report_bytes("p", a=1), key=None, headers=header, partition=0)]
    )
    service.log.append([Record(topic=REPORTS, value=None, key=None, headers=header, partition=1)])
    assert service.run() is False
    service.mark(1)
    service.run()
    accounting = service.accounting()
    assert accounting["received"] == 2
    assert accounting["accepted"] == 1
    assert reasons_of(service.letters()) == accounting["rejected"] == {"unreadable": 1}
    service.close_logs()


def test_dead_letters_hold_the_record_and_say_where_it_was(tmp_path):
    service = Service(tmp_path / "s", OPEN)
    bad = report_bytes(SECRET, "1999", a=1, b="x")
    service.log.append(
        [Record(topic=REPORTS, value=report_bytes("p"), key=None, headers=(), partition=1)]
    )
    service.log.append(
        [Record(topic=REPORTS, value=bad, key=b"key", headers=(("h", b"1"),), partition=1)]
    )
    service.mark(1)
    service.run()
    first, second = service.letters()
    headers = dict(second.headers)
    assert second.value == bad
    assert second.key == b"reports/1/1"
    assert headers["__connect.errors.topic"] == b"reports"
    assert (headers["__connect.errors.partition"], headers["__connect.errors.offset"]) == (
        b"1",
        b"1",
    )
    assert headers["__connect.errors.exception.message"] == REASONS["period"].encode()
    assert headers["stream-dp-cells"] == b"period=2"
    assert dict(first.headers)["stream-dp-cells"] == b"unreadable=1"
    service.close_logs()


def test_records_of_the_largest_size_that_fail_are_kept(tmp_path):
    service = Service(tmp_path / "s", OPEN)
    service.log.append([Record(REPORTS, b"x" * 1_000_000)])
    service.mark(1)
    service.run()
    (letter,) = service.letters()
    assert letter.value.startswith(b"x" * 900_000)
    assert service.accounting()["rejected"] == {"unreadable": 1}
    service.close_logs()
