"""Reports of other shapes, closed in parts: counts and dead letters of plain reports."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kit.panels import StudyFolder, declaration, fix_secrets, raw, report, script
from kit.parts import PartsFolder, in_parts, letters, outcome
from kit.registry import Registry, registry
from kit.shapes import AVRO_REPORT, NUMBER, Shape, avro_bytes, shapes
from kit.studies import toml_lines

from stream_dp.errors import Inconsistent
from stream_dp.log.log import Record, Unavailable
from stream_dp.services.intake.input_decoders import decoder_maker
from stream_dp.services.parts import close_tasks
from stream_dp.services.parts.close_tasks import Source
from stream_dp.services.releaser.ordered_parts import Aggregation
from stream_dp.services.storage.deployment import Deployment
from stream_dp.services.storage.journal import closes
from stream_dp.study.topics import MANIFESTS

# Rows of Avro have every column, and so say more than reports do.
SHAPES = {k: v for k, v in shapes(["poverty", "work", "wealth"]).items() if k != "avro"}
QUICK = ("avro reports",)


@pytest.fixture(autouse=True)
def _fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    fix_secrets(monkeypatch)


@pytest.fixture
def server() -> Iterator[Registry]:
    with registry() as running:
        yield running


def text_of(declared: dict[str, Any]) -> str:
    return f"{in_parts(declaration())}\n[run.input]\n{toml_lines(declared)}\n"


def folder_of(folder: Path, shape: Shape) -> PartsFolder:
    """A study that reads a shape in parts, its schemas as files."""
    place = PartsFolder(folder, text_of(shape.declared))
    (folder / "schemas").mkdir()
    (folder / "schemas" / f"{NUMBER}.avsc").write_text(json.dumps(shape.schema))
    return place


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in SHAPES]
)
def test_the_counts_and_dead_letters_of_plain_reports(name: str, folder: Path) -> None:
    """Every record is read again, too, when all files are gone."""
    here, place = StudyFolder(folder / "here"), folder_of(folder / "parts", SHAPES[name])
    for number, records in enumerate(script()):
        here.send(records)
        place.send([SHAPES[name].shaped(record) for record in records])
        if number == 3:
            here.run()
            place.run(aggregator={"most": 23})
            for path in place.snapshots.iterdir():
                path.unlink()
    assert here.run()
    assert place.run(aggregator={"most": 23})
    assert outcome(place) == outcome(here)
    assert {key for key, *_ in letters(place)} == {key for key, *_ in letters(here)}
    assert place.reasons() == here.reasons()
    read_as = [entry.read_as for entry in closes(place.entries())[1:]]
    assert {r.mapping for r in read_as if r} == {SHAPES[name].input.hash}
    assert all((r is not None and NUMBER in r.schemas) == ("avro" in name) for r in read_as)


def avro(person: str, number: int) -> Record:
    content = json.loads(report(0, person, "2021-01", {"poverty": 1}).value or b"")
    return raw(0, avro_bytes(AVRO_REPORT, content, number))


def from_registry(folder: Path, server: Registry) -> PartsFolder:
    """A period that is ordered: two reports of a schema, one of another, one of no registry."""
    declared = {"format": "avro", "rows": "report", "registry": server.url}
    place = PartsFolder(folder, text_of(declared))
    markers = [r for r in script()[0] if r.headers]
    place.send([avro("a", 7), avro("b", 7), avro("c", 8), avro("d", 9), *markers])
    server.give(7, AVRO_REPORT)
    StudyFolder.run(place)
    return place


@pytest.mark.parametrize("most", [100, 1])
def test_a_schema_that_is_registered_meanwhile_counts_for_all_or_for_none(
    most: int, folder: Path, server: Registry
) -> None:
    """One aggregator works between another's reading and its decision: both answer the same."""
    place = from_registry(folder / "place", server)

    def meanwhile(step: str) -> None:
        if step == "schemas":
            server.give(8, AVRO_REPORT)
            place.aggregate(most=most)

    place.aggregate(at=meanwhile, most=most)
    answers = {row[4] for row in place.rows(MANIFESTS) if b"/" not in row[3]}
    readings = [row[4] for row in place.rows(MANIFESTS) if b"/" in row[3]]
    assert len(answers) == 1
    assert len({json.loads(r)["file"]["sha256"] for r in readings}) == 2
    place.run()
    (_, entry) = place.entries()
    cells = entry.input.accounting
    assert cells is not None
    assert (cells.accepted, dict(cells.rejected)) == (
        3,
        {"unreadable": 1},
    )
    assert entry.read_as is not None
    assert entry.read_as.schemas.keys() == {7, 8}


def test_an_order_whose_list_of_schemas_is_lost_is_given_again(
    folder: Path, server: Registry
) -> None:
    """The order names the list, but an aggregator died before its answer, and the file is gone."""
    place = from_registry(folder / "place", server)

    class Killed(BaseException):
        pass

    def dies(step: str) -> None:
        if step == "part-read":
            raise Killed

    with pytest.raises(Killed):
        place.aggregate(at=dies)
    (path,) = place.snapshots.glob("*schemas*")
    path.unlink()
    place.run()
    (_, entry) = place.entries()
    cells = entry.input.accounting
    assert cells is not None
    assert (cells.accepted, dict(cells.rejected)) == (
        2,
        {"unreadable": 2},
    )


def test_a_schema_that_only_later_tasks_knew(folder: Path, server: Registry) -> None:
    place, decoded = from_registry(folder / "place", server), list[str]()
    server.answers.pop("/schemas/ids/7")

    def meanwhile(step: str) -> None:
        if step == "decoded":
            decoded.append(step)
            server.give(7, AVRO_REPORT)

    place.aggregate(at=meanwhile, most=1)
    place.run()
    (_, entry) = place.entries()
    cells = entry.input.accounting
    assert cells is not None
    assert (cells.accepted, dict(cells.rejected)) == (
        2,
        {"unreadable": 2},
    )
    assert len(decoded) > len(place.rows("reports"))  # the first report was decoded again
    assert place.reasons() == {"unreadable": 2}


def test_the_number_of_schemas_has_no_bound(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here and in parts, at once and when all files are gone; more than a journal's head holds."""
    monkeypatch.setattr("stream_dp.services.storage.journal_heads._IN_HEAD", 1000)
    numbers = range(1, 31)
    records = [avro(f"p{number % 30}", number) for number in numbers]
    marked = [[r for r in several if r.headers] for several in script()[:2]]
    declared = {"format": "avro", "rows": "report", "schemas": "schemas"}
    here = StudyFolder(folder / "here", f"{declaration()}\n[run.input]\n{toml_lines(declared)}\n")
    place = PartsFolder(folder / "parts", text_of(declared))
    for one in (here, place):
        (one.file.parent / "schemas").mkdir()
        for number in numbers:
            (one.file.parent / "schemas" / f"{number}.avsc").write_text(json.dumps(AVRO_REPORT))
        one.send([*records, *marked[0]])
    aggregator = {"aggregator": {"most": 7}}
    for one, how in (
        (here, {"decoder": decoder_maker(Deployment.load(here.file))}),
        (place, aggregator),
    ):
        one.run(**how)
        for path in one.snapshots.iterdir():
            path.unlink()
        one.send([records[0], *marked[1]])
        one.run(**how)
        first, second = closes(one.entries())[1:3]
        assert first.input.accounting is not None
        assert (first.input.accounting.received, dict(first.input.accounting.rejected)) == (30, {})
        assert first.read_as is not None
        assert first.read_as.schemas.keys() == set(numbers)
        assert "schemas" not in first.message.head["read_as"]
        assert second.read_as is not None
        assert second.read_as.schemas.keys() == {1}
        assert second.input.accounting is not None
        assert dict(second.input.accounting.rejected) == {"late": 1}
    assert outcome(place) == outcome(here)


def test_an_id_never_changes_its_schema(folder: Path, server: Registry) -> None:
    place = from_registry(folder / "place", server)
    place.run()
    assert len(place.entries()) == 2
    server.give(7, {**AVRO_REPORT, "fields": AVRO_REPORT["fields"][::-1]})
    place.send([avro("a", 7), *(r for r in script()[1] if r.headers)])
    with pytest.raises(Inconsistent, match="schema 7: not the one that closed periods"):
        place.run()
    server.give(7, AVRO_REPORT)
    place.run()
    assert len(place.entries()) == 3


def test_a_registry_that_is_down_refuses_nothing(folder: Path, server: Registry) -> None:
    place = from_registry(folder / "place", server)
    server.answers["/schemas/ids/7"] = 503, b""
    with pytest.raises(Unavailable, match="schema registry"):
        place.aggregate()
    assert place.rows(MANIFESTS) == []
    assert place.reasons() == {}


def test_an_aggregator_that_may_be_started_again_stops_the_releaser_so(folder: Path) -> None:
    place = PartsFolder(folder / "place")
    place.send(script()[0])
    ends = ["-c", "import sys; sys.exit(5)"]
    with pytest.raises(Unavailable, match="the aggregator ended with exit code 5"):
        place.run(aggregation=Aggregation(4, ends))


@pytest.mark.parametrize("name", ["flat", "avro reports"])
def test_periods_are_not_read_again_in_another_way(name: str, folder: Path) -> None:
    place = folder_of(folder / "place", SHAPES[name])
    for records in script()[:2]:
        place.send([SHAPES[name].shaped(record) for record in records])
    place.run()
    for path in place.snapshots.iterdir():
        path.unlink()
    for other in (replace(SHAPES[name], declared={"format": "connect"}).declared, {}):
        place.file.write_text(text_of(other))
        with pytest.raises(Inconsistent, match=r"run\.input: it has changed since"):
            place.run()


@pytest.mark.parametrize("other", ["", 'format = "connect"'])
def test_an_aggregator_with_another_input_is_refused(other: str, folder: Path) -> None:
    """Also one that began before the study file was changed, and did not read it again."""
    place = folder_of(folder / "place", SHAPES["flat"])
    place.send([SHAPES["flat"].shaped(record) for record in script()[0]])
    StudyFolder.run(place)
    own = place.file.read_text()
    place.file.write_text(f"{in_parts(declaration())}\n[run.input]\n{other}\n")

    def changed_back(step: str) -> None:
        if step == "order":
            close_tasks.open_workplace(
                Source(place.file, place.entries()[0].message.hash[:12], changed_back)
            )
            place.file.write_text(own)

    with pytest.raises(Inconsistent, match=r"run\.input: it is not the one of the releaser"):
        place.aggregate(at=changed_back)
    place.run()
    assert len(place.entries()) == 2
