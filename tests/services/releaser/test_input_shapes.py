"""The same study from records of every shape: the same counts and accounting as plain reports."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest
from kit.panels import (
    PERIODS,
    StudyFolder,
    decided,
    declaration,
    fix_secrets,
    raw,
    report,
    script,
)
from kit.registry import registry
from kit.shapes import AVRO_REPORT, NUMBER, avro_bytes, row, shapes
from kit.studies import toml_lines

from stream_dp.log.log import Record
from stream_dp.services.commands import cli
from stream_dp.services.intake.input_decoders import decoder_maker
from stream_dp.services.storage import journal
from stream_dp.services.storage.deployment import Deployment

# Rows of Avro have every column, and so say more than reports do.
SHAPES = {k: v for k, v in shapes(["poverty", "work", "wealth"]).items() if k != "avro"}


def shaped(name: str, record: Record) -> Record:
    return SHAPES[name].shaped(record)


def folder_of(folder, name):
    """A study that reads a shape, its schemas as files."""
    shape = SHAPES[name]
    text = f"{declaration()}\n[run.input]\n{toml_lines(shape.declared)}\n"
    place = StudyFolder(folder, text)
    (folder / "schemas").mkdir()
    (folder / "schemas" / f"{NUMBER}.avsc").write_text(json.dumps(shape.schema))
    return place


def run(place):
    return place.run(decoder=decoder_maker(Deployment.load(place.file)))


def closes(place):
    with place.log() as log:
        return journal.closes(journal.read(log))[1:]


@pytest.fixture(scope="module", autouse=True)
def same_secrets():
    """So that the populations are the same to the byte."""
    with pytest.MonkeyPatch.context() as patch:
        fix_secrets(patch)
        yield


@pytest.fixture(scope="module")
def expected(tmp_path_factory, same_secrets):
    """Of plain reports: what was decided of every period, and dead letters."""
    place = StudyFolder(tmp_path_factory.mktemp("plain"))
    for records in script():
        place.send(records)
        place.run()
    assert [entry.read_as for entry in closes(place)] == [None] * PERIODS
    return decided(closes(place)), place.reasons()


@pytest.mark.parametrize("name", SHAPES)
def test_a_study_is_the_same_from_every_shape(name, folder, expected):
    place = folder_of(folder / "shaped", name)
    for records in script():
        place.send([shaped(name, record) for record in records])
    run(place)
    assert (decided(closes(place)), place.reasons()) == expected
    hashes = {entry.read_as.mapping for entry in closes(place)}
    assert hashes == {SHAPES[name].input.hash}


@pytest.mark.parametrize("name", ["flat", "avro reports"])
def test_periods_are_read_again_as_they_were(name, folder, expected):
    """Where every snapshot is gone; and not with another mapping."""
    place = folder_of(folder / "shaped", name)
    for records in script()[:-1]:
        place.send([shaped(name, record) for record in records])
        run(place)
    for path in place.snapshots.iterdir():
        path.unlink()
    other = place.copy(folder / "other")
    place.send([shaped(name, record) for record in script()[-1]])
    assert run(place)
    assert decided(closes(place)) == expected[0]
    for lines in ('format = "connect"', ""):
        other.file.write_text(f"{declaration()}\n[run.input]\n{lines}\n")
        assert cli.main(["run", str(other.file), "--until-idle", "--moved"]) == 4


def test_a_registry_that_is_down_refuses_nothing(folder, capsys):
    """The releaser stops with one line, and reads the same record when it is started again."""
    with ExitStack() as stack:
        server = stack.enter_context(registry())
        declared = {"format": "avro", "rows": "report", "registry": server.url}
        text = f"{declaration()}\n[run.input]\n{toml_lines(declared)}\n"
        place = StudyFolder(folder / "shaped", text)
        first = report(0, "a", "2021-01", {"poverty": 1})
        content = json.loads(first.value)
        known, unknown = (raw(0, avro_bytes(AVRO_REPORT, content, number)) for number in (7, 8))
        place.send([known, unknown])
        assert cli.main(["close", str(place.file), "2021-01", "--yes"]) == 0
        server.answers["/schemas/ids/7"] = 503, b""
        assert cli.main(["run", str(place.file), "--until-idle"]) == 5
        (line,) = capsys.readouterr().err.splitlines()
        assert "schema registry" in line
        assert place.reasons() == {}
        assert closes(place) == []
        server.give(7, AVRO_REPORT)
        assert cli.main(["run", str(place.file), "--until-idle"]) == 0
    (entry,) = closes(place)
    cells = entry.input.accounting
    assert (cells.accepted, dict(cells.rejected)) == (
        1,
        {"unreadable": 1},
    )
    assert entry.read_as.schemas.keys() == {7}
    # The registry is gone for good: what has been decided needs it no more.
    assert cli.main(["run", str(place.file), "--until-idle"]) == 0
    capsys.readouterr()
    assert cli.main(["rejected", str(place.file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rejected"] == {"unreadable": 1}


def test_dead_letters_of_rows_say_where_their_cells_belong(folder, capsys):
    place = folder_of(folder / "shaped", "flat")
    content = {"person": "a", "period": "2021-02", "values": {"poverty": 7, "work": "yes"}}
    place.send([raw(0, json.dumps(row(content)).encode())])
    run(place)
    assert cli.main(["rejected", str(place.file), "--json"]) == 0
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    assert (cell["reason"], cell["attribute"], cell["period"]) == ("value", "poverty", "2021-02")


def test_send_refuses_where_it_would_be_rejected(folder, capsys):
    place = folder_of(folder / "shaped", "flat")
    (folder / "table.csv").write_text("person,period,poverty\na,2021-01,1\n")
    assert cli.main(["send", str(place.file), str(folder / "table.csv")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "run.input" in line
