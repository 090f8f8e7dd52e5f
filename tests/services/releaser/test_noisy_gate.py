"""The gate: drawn once, committed before anything follows, and a held period is the operator's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from kit.gated import outcome
from kit.hostile import drafts, sealed
from kit.panels import (
    PERIODS,
    Noiseless,
    StudyFolder,
    fix_secrets,
    markers,
    raw,
    report,
    reports_of,
    script,
)
from kit.parts import PartsFolder, letters
from kit.studies import BINARY, MARKER, MONTHS, SCHEDULE, attribute, study_toml, window
from kit.verifiers import verdicts

from stream_dp.client import PublicLog
from stream_dp.errors import Inconsistent
from stream_dp.log import open_log
from stream_dp.log.log import Record
from stream_dp.log.message import read_messages
from stream_dp.privacy.noise import Draw, SeededNoise
from stream_dp.services.commands import cli
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.process.events import Event
from stream_dp.services.releaser.ordered_parts import Aggregation
from stream_dp.services.storage import journal, journal_checks
from stream_dp.services.storage.close_orders import (
    Manifest,
    Order,
    answer_record,
    encoded_counts,
    write_manifest,
)
from stream_dp.services.storage.journal import gates, is_held
from stream_dp.services.storage.journal_heads import CloseHead, GateHead
from stream_dp.services.storage.snapshots import Snapshots
from stream_dp.study.noisy_gate import GATE as CHARGED
from stream_dp.study.topics import ORDERS, RELEASES, REPORTS
from stream_dp.studyfile import load_study

DAY = 86_400.0
GATE = {"rho": 0.1, "least": 0.5}


def declared(close: Any = MARKER, **changes: Any) -> str:
    """The small study with a gate: a period with fewer than 16 people is held."""
    return study_toml(
        **{
            "rho": 0.6,
            "gate": GATE,
            "periods": {**MONTHS, "count": PERIODS, **close},
            "size": 32,
            "attributes": {**BINARY, "work": attribute(["yes", "no"], missing="absent")},
            "releases": [window("pairs", "poverty", width=2, rho=0.2)],
            "run": {"log": "sqlite:small.db", "public": "sqlite:small-public.db", "partitions": 2},
            **changes,
        }
    )


LOST = [raw(n % 2, b'{"person": "x", "period": "12/2020", "values": {}}') for n in range(40)]


def despite(number: int) -> list[Record]:
    return [close_marker(number, p, despite_gate=True) for p in range(2)]


def named(number: int) -> list[Record]:
    """A month in which every id is written in another way."""
    return [report(n % 2, f"00{n}", f"2021-0{number}", {"poverty": 1}) for n in range(40)]


WAYS = pytest.mark.parametrize("way", [StudyFolder, PartsFolder])


# Most tests are of a gate in one process; in parts its bytes are the same, as a test shows.
@pytest.fixture(params=[StudyFolder, pytest.param(PartsFolder, marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> StudyFolder:
    way: type[StudyFolder] = request.param
    return way(tmp_path / "gated", declared())


def begin(place: StudyFolder, months: int = 2) -> None:
    for records in script()[:months]:
        place.send(records)
    place.run()


def held(place: StudyFolder) -> list[tuple[int, bool]]:
    """The gates of the journal: period, whether it was held."""
    return [(number, entry.gate.held) for number, entry in gates(place.entries()).items()]


def closed(place: StudyFolder) -> int:
    return journal.closes(place.entries())[-1].number


@pytest.mark.parametrize("records", [[], LOST, named(3)], ids=["nothing", "periods", "ids"])
def test_a_lost_month_is_held_until_the_operator_decides(
    place: StudyFolder, records: Sequence[Record]
) -> None:
    begin(place)
    place.send([*records, *markers(3)])
    told: list[Event] = []
    assert not place.run(tell=told.append)
    assert (told[-1].name, told[-1].period) == ("period-held", "2021-03")
    assert held(place) == [(1, False), (2, False), (3, True)]
    before = place.published()
    # Neither reports, nor time, nor a marker of any month close it.
    place.send([*reports_of(3), *markers(3), *markers(4)])
    assert not place.run()
    assert closed(place) == 2
    assert before == place.published()
    place.send(despite(3))
    place.run()
    # What was sent to the held month counts, and the marker of April is not forgotten.
    assert [number for number, _ in held(place)] == [1, 2, 3, 4]
    accounting = journal.closes(place.entries())[-1].input.accounting
    assert accounting is not None
    assert accounting.accepted > 100
    with place.public(readonly=True) as public:
        stated = {r.certificate.period: r.certificate.gate for r in PublicLog(public).published}
        PublicLog(public).verify()
    gate = stated["2021-03"]
    assert gate is not None
    assert (gate.least, gate.held) == (16, True)
    assert gate.people <= 3  # of those who had sent their March ahead


def test_a_full_month_closes_by_itself(place: StudyFolder) -> None:
    for records in script():
        place.send(records)
    assert place.run(source=SeededNoise(3))
    assert held(place) == [(number, False) for number in range(1, PERIODS + 1)]
    with place.public(readonly=True) as public:
        published = PublicLog(public)
        lines = published.verify()
        last = published.published[-1].certificate
    assert last.rho_spent == load_study(place.file)[0].release("pairs").rho + last.gate.rho * 5
    assert last.rho_spent == journal_checks.check_journal(*checked(place)).spent, (
        "the journal and the certificates count the same gates"
    )
    assert f"budget: {last.rho_spent} of 3/5 spent, as the certificates say" in lines


def checked(place: StudyFolder) -> tuple[Any, ...]:
    entries = place.entries()
    study, _ = load_study(place.file)
    with place.log() as log:
        return entries, journal_checks.begun_plan(entries, study), log.describe(REPORTS)


@WAYS
def test_noise_decides_and_is_drawn_once(way: type[StudyFolder], tmp_path: Path) -> None:
    """A full month is held if the noise says so, and a restart draws no other noise."""
    place = way(tmp_path / "gated", declared())

    class Low(Noiseless):
        drawn = 0

        def draw(self, demand: Any) -> Draw:
            draw = super().draw(demand)
            if [size for _, size in demand] == [1]:
                Low.drawn += 1
                draw.noise[0][0] = -30
            return draw

    place.send(script()[0])
    for _ in range(4):
        assert not place.run(source=Low())
    assert (Low.drawn, held(place)) == (1, [(1, True)])
    (entry,) = gates(place.entries()).values()
    assert entry.gate.people == 32 - 30


@WAYS
def test_the_calendar_closes_full_months_alone(way: type[StudyFolder], tmp_path: Path) -> None:
    class Clock:
        now = 1_612_200_000.0  # before the close of 2021-01, in February

        def __call__(self) -> float:
            return self.now

    clock = Clock()
    place = way(tmp_path / "calendar", declared(SCHEDULE), clock)
    place.send(reports_of(1))
    clock.now += 5 * DAY
    place.run()
    assert held(place) == [(1, False)]
    clock.now += 31 * DAY
    assert not place.run()
    assert held(place) == [(1, False), (2, True)]
    clock.now += 40 * DAY  # past the close of March: its reports come while February is held
    place.send([*reports_of(2), *reports_of(3)])
    assert not place.run()
    place.send(despite(2))
    place.run()
    entries = journal.closes(place.entries())
    assert [entry.number for entry in entries] == [0, 1, 2, 3]
    # March's time is before the cut of February: its cut is not below it.
    assert all(entries[3].input.cut[p] >= entries[2].input.cut[p] for p in range(2))
    shutil_snapshots = place.snapshots.iterdir()
    for path in shutil_snapshots:
        path.unlink()
    assert not place.run(), "the input is replayed to the same counts"


def test_commands_show_a_held_period_and_close_it(
    place: StudyFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fix_secrets(monkeypatch)  # of those who report ahead, somebody has a place
    begin(place, 1)
    place.send(markers(2))
    place.run()
    file = str(place.file)

    def said(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = cli.main(list(words))
        out, error = capsys.readouterr()
        return code, out + error

    words = f"stream-dp close {file} 2021-02 --despite-gate"
    code, text = said("status", file)
    assert f"waits for the operator, for [study.gate] holds it: {words}" in text
    assert json.loads(said("status", file, "--json")[1])["held"] is True
    assert said("close", file, "2021-02")[0] == 2
    assert said("close", file, "2021-03")[0] == 2
    code, text = said("close", file, "2021-03", "--despite-gate")
    assert (code, text) == (2, "stream-dp: close: 2021-03 is not held by [study.gate]\n")
    code, text = said("close", file, "2021-02", "--despite-gate", "--check")
    assert (code, "less than half the answers of 2021-01" in text) == (0, True)
    table = "person,period,poverty\n" + "".join(f"person-{n:02},2021-02,1\n" for n in range(40))
    (place.folder / "new.csv").write_text(table)
    code, text = said("send", file, str(place.folder / "new.csv"))
    assert code == 0, text
    assert said("close", file, "2021-02", "--despite-gate", "--check")[0] == 0
    assert not is_open(place, 2)
    assert said("close", file, "2021-02", "--despite-gate")[0] == 0
    assert "the close was given, and is not read yet" in said("status", file)[1]
    place.run()
    assert closed(place) == 2


def is_open(place: StudyFolder, number: int) -> bool:
    return not is_held(place.entries()) and closed(place) < number


def test_a_journal_without_a_gate_or_with_two_is_refused(place: StudyFolder) -> None:
    begin(place)
    plan = checked(place)
    heads = [type(entry.head) for entry in plan[0]]
    assert heads[1:] == [GateHead, CloseHead] * 2
    with pytest.raises(Inconsistent, match="period 1 was closed without its gate"):
        journal_checks.check_journal([plan[0][0], *plan[0][2:]], *plan[1:])
    begun, first, *rest = plan[0]
    for entries in ([begun, first, first, *rest], [begun, rest[1], first, rest[0]]):
        with pytest.raises(Inconsistent, match="the gate of period"):
            journal._in_order(entries)


def test_in_parts_the_public_bytes_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One seed, a month that is held, newcomers beyond the declared size, and a lost folder."""
    fix_secrets(monkeypatch)
    places = [
        StudyFolder(tmp_path / "here", declared()),
        PartsFolder(tmp_path / "parts", declared()),
    ]
    for place in places:
        source = SeededNoise(11)
        for number, records in enumerate(script(), 1):
            if number == 3:
                place.send([*named(3), *markers(3)])
                assert not place.run(source=source)
                shutil.rmtree(place.snapshots)
                records = [*reports_of(3), *despite(3)]
            place.send(records)
            place.run(source=source)
        assert held(place) == [(n, n == 3) for n in range(1, PERIODS + 1)]
    here, *parted = places
    for place in parted:
        assert place.published() == here.published()
        assert [e.gate for e in gates(place.entries()).values()] == [
            e.gate for e in gates(here.entries()).values()
        ]
        assert outcome(place) == outcome(here)
        assert letters(place) == letters(here)


def test_the_count_of_a_gate_is_awaited_in_its_own_words(tmp_path: Path) -> None:
    place, told = PartsFolder(tmp_path / "parts", declared()), list[Event]()
    place.send(script()[0])

    def tell(event: Event) -> None:
        told.append(event)
        raise KeyboardInterrupt

    sleeping = Aggregation(place.parts, ["-c", "import time; time.sleep(99)"])
    with pytest.raises(KeyboardInterrupt):
        StudyFolder.run(place, aggregation=sleeping, tell=tell)
    assert told[-1].message == "2021-01 is being counted for its gate in parts"


@pytest.mark.parametrize(
    "counts", [{}, {CHARGED: [1, 2]}, {"pairs": [1]}, {CHARGED: [1], "pairs": [1]}]
)
def test_an_answer_to_a_gate_of_another_shape_is_refused_before_the_noise(
    counts: dict[str, list[int]], tmp_path: Path
) -> None:
    place, drawn = PartsFolder(tmp_path / "parts", declared()), list[int]()
    place.send(script()[0])
    StudyFolder.run(place)
    with place.log() as log:
        (order,) = log.read(ORDERS, {0: 0}, 10, 0).records
        order = msgspec.json.decode(order.value or b"", type=Order)
        assert (order.gate, order.letters) == (True, False)
        snapshots = Snapshots("small-snapshots", place.folder).of(order.owner)
        counted = encoded_counts({name: np.array(c, np.int64) for name, c in counts.items()})
        manifest = Manifest(order.id, 1, [], counted, order.accounting, records=0)
        log.append([answer_record(order, write_manifest(snapshots, manifest))])
    with pytest.raises(Inconsistent, match="does not answer the order of period 1"):
        StudyFolder.run(place, source=Noiseless(drawn.append))
    assert (drawn, len(place.entries())) == ([], 1)


FAULTS: dict[str, Callable[[Any], object]] = {
    "the certificate says": lambda head: None,
    "another count": lambda head: head["gate"].update(people=99, held=False),
    "another decision": lambda head: head["gate"].update(held=not head["gate"]["held"]),
    "another threshold": lambda head: head["gate"].update(least=1),
    "another variance": lambda head: head["gate"].update(variance="1"),
    "no charge": lambda head: head["gate"].update(rho="0"),
    "left out": lambda head: head.pop("gate"),
    "its charge is not added": lambda head: head.update(rho_spent=head["rho"]),
}


def test_verifiers_agree_about_the_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the last two certificates, which share a period, somebody writes the last anew."""
    two = [window("pairs", "poverty", width=2, rho=0.2), window("work", "work", width=1, rho=0.1)]
    place = StudyFolder(tmp_path / "gated", declared(releases=two))
    for records in script():
        place.send(records)
    assert place.run(source=SeededNoise(1))
    with place.public(readonly=True) as log:
        messages = [*read_messages(log, RELEASES, "public log")]
    files = []
    for name, change in FAULTS.items():
        chain = drafts(messages)
        change(chain[-1].head)
        files.append(tmp_path / f"{name}.db")
        with closing(open_log(f"sqlite:{name}.db", tmp_path, public=True)) as log:
            log.create({RELEASES: 1})
            log.append(sealed(chain))
    answers = verdicts([(path, {}) for path in files])
    for path, (code, answer) in zip(files, answers, strict=True):
        capsys.readouterr()
        assert code == cli.main(["verify", f"sqlite:{path}", "--all", "--json"])
        assert code == (0 if path.stem == "the certificate says" else 4)
        assert answer == json.loads(capsys.readouterr().out)
