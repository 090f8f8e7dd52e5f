"""Records of any content: each becomes one rejected report at worst."""

import uuid

import pytest
from arrivals_served import Service, balanced, secret_reports
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.arrivals import KEY, OPEN, STUDY_FILE, raw, report_bytes
from kit.examples import SHARED
from kit.peak import run_peak
from kit.rejected_cells import reasons_of

from stream_dp.log.log import MAX_BATCH, Record, Stored, memory_bytes
from stream_dp.log.sqlite import SqliteLog
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import LARGEST_REPORT, Decoder
from stream_dp.services.intake.markers import FoundMarkers, MarkerReader, close_marker
from stream_dp.services.releaser.input_reading import Inputs
from stream_dp.services.releaser.releaser_facts import Context
from stream_dp.services.storage.journal import read as read_journal
from stream_dp.study.topics import DEAD_LETTERS, REPORTS

header_names = st.sampled_from(["stream-dp-close", "stream-dp-source", "", "h"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=9
)
header_values = st.none() | st.binary(max_size=9).filter(lambda v: not v.isdigit())
large = st.sampled_from([LARGEST_REPORT - 100, LARGEST_REPORT, 90_000]).map(bytes)


@settings(
    max_examples=15,
    suppress_health_check=SHARED,
)
@given(
    st.lists(
        st.builds(
            Record,
            topic=st.just(REPORTS),
            value=raw | secret_reports | large,
            key=st.none() | st.binary(max_size=9) | large,
            headers=st.lists(st.tuples(header_names, header_values | large), max_size=4).map(tuple),
            partition=st.integers(0, 1),
            time=st.none() | st.integers(-(2**62), 2**62),
        ),
        max_size=8,
    )
)
def test_whatever_a_record_is_it_is_accounted_for(tmp_path, records):
    service = Service(tmp_path / uuid.uuid4().hex, OPEN)
    service.log.append(records)
    service.mark(1)
    assert service.run() is False
    accounting, letters = service.accounting(), service.letters()
    assert balanced(accounting)
    assert accounting["received"] >= len(records)
    assert reasons_of(letters) == accounting["rejected"]
    oversize = sum(memory_bytes(r.key, r.value, r.headers) > LARGEST_REPORT for r in records)
    assert accounting["rejected"].get("unreadable", 0) >= oversize
    service.close_logs()


def test_a_damaged_record_in_the_file_is_one_rejected(tmp_path):
    service = Service(tmp_path / "s", OPEN, partitions=1)
    row = (REPORTS, 0, 0, 5, "a key", report_bytes("p", a=1), b"\xc1")
    service.log._db.execute("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    service.mark(1)
    assert service.run() is False
    assert service.accounting()["rejected"] == {"unreadable": 1}
    service.close_logs()


def test_a_report_with_the_header_of_a_marker_is_a_report(tmp_path):
    service = Service(tmp_path / "s", OPEN, partitions=1)
    header = (("stream-dp-close", b"1"),)
    service.log.append([Record(REPORTS, report_bytes("p", a=1), None, header)])
    assert service.run() is False
    assert len(read_journal(service.log)) == 1
    service.mark(1)
    service.run()
    assert service.accounting()["accepted"] == 1
    service.close_logs()


@pytest.mark.parametrize(
    ("how", "fits"),
    [
        ({"value": LARGEST_REPORT}, True),
        ({"value": LARGEST_REPORT + 1}, False),
        ({"key": LARGEST_REPORT + 1}, False),
        ({"header": LARGEST_REPORT + 1}, False),
        ({"value": LARGEST_REPORT - 400, "key": 200, "header": 200}, False),
    ],
)
def test_a_report_over_its_declared_size_is_unreadable(how, fits):
    value = report_bytes("p", a=1)
    value += b" " * (how.get("value", 0) - len(value))
    headers = (("h", bytes(how["header"])),) if "header" in how else ()
    record = Stored(
        partition=0, offset=0, time=0, key=bytes(how.get("key", 0)), value=value, headers=headers
    )
    cells, rejected = Decoder(OPEN, KEY).decode([record], 0)
    assert (len(cells), [r.cells for r in rejected]) == (
        (1, []) if fits else (0, [{"unreadable": 1}])
    )


def test_what_waits_behind_a_marker_is_bounded(tmp_path):
    """Two partitions wait at their marker, with much behind it, for the third."""
    service = Service(tmp_path / "s", OPEN, partitions=3)
    service.log.append(close_marker(1, p) for p in (0, 1))
    for part in (0, 1):
        service.log.append([Record(REPORTS, bytes(1_000_000), partition=part)] * 20)
    decoder, population = Decoder(OPEN, KEY), Population(OPEN)
    start = dict.fromkeys(range(3), 0)
    service.log.create({DEAD_LETTERS: 1})
    inputs = Inputs(
        service.log,
        decoder,
        population,
        markers=FoundMarkers(MarkerReader.of(OPEN), dict(start)),
        positions=start,
        context=Context.of(OPEN),
    )
    for _ in range(8):
        inputs.read_to_marker(1, 0)
    waiting = [r for rest in inputs._rests.values() for r in rest.records]
    assert inputs.positions == {0: 1, 1: 1, 2: 0}
    assert sum(len(r.value) for r in waiting) < MAX_BATCH
    service.mark(4)
    while inputs.markers.missing(4):
        inputs.read_to_marker(4, 0)
    assert population.accounting.rejected == {"unreadable": 40}
    service.close_logs()


def test_memory_follows_bytes_and_not_records(tmp_path):
    """Two hundred megabytes in as many records, beside the process itself."""
    path = tmp_path / "study.toml"
    path.write_text(STUDY_FILE)
    log = SqliteLog(tmp_path / "fuzz.db")
    log._db.execute("PRAGMA synchronous = OFF")
    log.create({REPORTS: 1})
    for _ in range(4):
        log.append([Record(REPORTS, bytes(1_000_000))] * 50)
    log.append([close_marker(1, 0)])
    log.close()
    peak = run_peak(path, timeout=1500)
    assert peak < 180
