"""Every type of column passes every door: reports, run, answers, export, audit, schema, strata."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kit.json_schemas import draft
from kit.studies import study_toml

import stream_dp
from stream_dp.client import PublicLog
from stream_dp.services.audit.audit import PreparedAudit
from stream_dp.services.audit.study_runs import runs_of
from stream_dp.services.commands.cli import main
from stream_dp.services.contract.report_schemas import report_schema
from stream_dp.study import Attribute, Study
from stream_dp.study.field_types import ABSENT
from stream_dp.studyfile import load_study

SOURCE = f"sha256:{64 * '0'}"
INCOME = {"number": {"least": -200, "most": 1000, "step": 100}, "bins": [0, 300, 900]}
AGE = {"number": {"least": 0, "most": 5}, "bins": [2]}
PEOPLE = 39
LARGE = 1000  # a rho whose noise is far below one person


@dataclass(frozen=True)
class Column:
    """A column of reports.

    declared: its table in a study file.
    answers: all that may be given.
    tried: the answers that an audit tries, if it does not try all.
    silent: what may be given, and counts as no answer.
    """

    declared: dict[str, Any]
    answers: tuple[int | str, ...]
    tried: tuple[int | str, ...] = ()
    silent: tuple[int | str, ...] = ()

    @property
    def given(self) -> tuple[int | str, ...]:
        return *self.answers, *self.silent

    @property
    def missing(self) -> int | str:
        """The symbol of a person who never answers."""
        rule = self.declared["missing"]
        return rule["first"] if isinstance(rule, dict) else rule

    def after(self, answer: int | str) -> int | str:
        """The symbol of a person without an answer in the period after this answer."""
        kept = isinstance(self.declared["missing"], dict) or self.declared.get("fixed")
        return answer if kept else self.missing


def carried(first: int | str) -> dict[str, object]:
    return {"carry": True, "first": first}


COLUMNS = {
    "text": Column({"values": ["no", "yes"], "missing": ABSENT}, ("no", "yes")),
    "coded": Column({"values": [0, 1, 7], "missing": 0}, (0, 1, 7)),
    "mixed": Column({"values": ["0", 1, "x y"], "missing": "0"}, ("0", 1, "x y")),
    "kept": Column({"values": ["a", "b"], "missing": carried("b")}, ("a", "b")),
    "agrees": Column(
        {
            **{"values": ["a lot", "no", "yes"], "missing": ABSENT},
            **{"interest": "no", "label": "does not agree", "values_from": SOURCE},
        },
        ("a lot", "no", "yes"),
    ),
    "region": Column(
        {"values": ["n", "s", "w"], "missing": ABSENT, "fixed": True}, ("n", "s", "w")
    ),
    "income": Column(
        {**INCOME, "missing": ABSENT}, tuple(range(-200, 1001, 100)), (-200, 0, 300, 900, 1000)
    ),
    "age": Column({**AGE, "missing": 0}, tuple(range(6)), (0, 2, 5)),
    "wealth": Column({**AGE, "missing": carried(3)}, tuple(range(6)), (0, 2, 5)),
    "hours": Column(
        {**AGE, "special": [-9, 8], "missing": ABSENT}, (*range(6), -9, 8), (0, 2, 5, -9, 8)
    ),
    "spare": Column({**AGE, "special": [-9], "missing": -9}, (*range(6), -9), (0, 2, 5, -9)),
    "asked": Column(
        {"values": [0, 1], "missing": ABSENT, "missing_codes": [-9, "refused"]},
        (0, 1),
        silent=(-9, "refused"),
    ),
    "pay": Column(
        {**AGE, "special": [8], "missing": carried(8), "missing_codes": [-9]},
        (*range(6), 8),
        (0, 2, 5, 8),
        silent=(-9,),
    ),
    "home": Column({"place": True, "missing": ABSENT}, ("b1", 7, "b3")),
    "job": Column({"place": True, "missing": carried(ABSENT)}, ("b1", 7, "b3")),
}
PANELS = [name for name, column in COLUMNS.items() if "values" in column.declared]
NUMBERS = [name for name, column in COLUMNS.items() if "number" in column.declared]
PLACES = [name for name, column in COLUMNS.items() if "place" in column.declared]
TABLE = {"name": "table", "kind": "match", "attributes": [*NUMBERS, "coded"], "at": [1]}


def declared() -> str:
    panel = {"kind": "window", "width": 1, "rho": LARGE}
    panels = [{"name": name, "attribute": name, **panel} for name in PANELS]
    sizes = [
        {"name": name, "kind": "sizes", "attribute": name, "largest": 20, "rho": LARGE, "at": [1]}
        for name in PLACES
    ]
    strata = {"name": "by", "attribute": "text", "strata": "region", "rows": PEOPLE, **panel}
    return study_toml(
        periods={"first": 1, "every": "step", "count": 2},
        size=PEOPLE,
        rho=100_000,
        attributes={name: column.declared for name, column in COLUMNS.items()},
        places={"unit": "block", "regions": ["county"]},
        releases=[*panels, strata, {**TABLE, "rho": LARGE}, *sizes],
        run={"log": "sqlite:log.db", "public": "sqlite:public.db"},
    )


def answer(column: Column, person: int) -> int | str | None:
    """The answer of a person in the first period: every value by turns, and one nobody's."""
    return None if person == PEOPLE - 1 else column.given[person % len(column.given)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with every type of column that is sent, run and exported by commands."""
    folder = tmp_path_factory.mktemp("columns")
    (folder / "study.toml").write_text(declared())
    (folder / "places.csv").write_text("place,county\nb1,north\n7,north\nb3,south\n")
    with (folder / "reports.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["person", "period", *COLUMNS])
        for i in range(PEOPLE):
            answers = (answer(column, i) for column in COLUMNS.values())
            table.writerow([f"p{i}", 1, *("" if a is None else a for a in answers)])
    file = str(folder / "study.toml")
    for words in (
        ["places", file, str(folder / "places.csv")],
        ["send", file, str(folder / "reports.csv"), "--strict"],
        ["close", file, "2"],
        ["run", file, "--until-idle"],
        ["worker", file, "--until-idle"],
        ["run", file, "--until-idle"],
    ):
        assert main(words) == 0, words
    return folder


@pytest.fixture(scope="module")
def study(folder: Path) -> Study:
    return load_study(folder / "study.toml")[0]


@pytest.fixture(scope="module")
def public(folder: Path) -> PublicLog:
    return stream_dp.open(f"sqlite:{folder / 'public.db'}")


def test_every_key_of_an_attribute_stands_in_a_column() -> None:
    keys = {field.alias or name for name, field in Attribute.model_fields.items()}
    assert {key for column in COLUMNS.values() for key in column.declared} == keys


@pytest.mark.parametrize("name", COLUMNS)
def test_the_symbols_are_all_answers(name: str, study: Study) -> None:
    column, attribute = COLUMNS[name], study.attributes[name]
    if name in PLACES:
        attribute = attribute.of_places([str(key) for key in column.answers])
    nowhere = column.missing == ABSENT or name in PLACES
    assert tuple(attribute.symbols) == (*column.answers, *([ABSENT] if nowhere else []))
    assert [attribute.read(a) for a in column.answers] == list(range(len(column.answers)))
    assert [attribute.read(str(a)) for a in column.answers] == list(range(len(column.answers)))
    assert attribute.symbols[attribute.first_code] == column.missing
    assert attribute.read("what") == "value"
    assert all(attribute.takes(a) and attribute.takes(str(a)) for a in column.given)
    assert not any(isinstance(attribute.read(a), int) for a in column.silent)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_schema_of_reports_takes_all_answers(name: str, study: Study) -> None:
    cells = draft("202012", report_schema(study)["properties"]["values"]["properties"][name])
    assert all(cells.is_valid(a) and cells.is_valid(str(a)) for a in COLUMNS[name].given)
    assert cells.is_valid(None)
    assert cells.is_valid("what") == (name in PLACES)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_file_with_another_answer_says_what_is_one(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = folder / f"wrong-{name}.csv"
    wrong.write_text(f"person,period,{name}\np0,2,what\n")
    assert main(["send", str(folder / "study.toml"), str(wrong), "--check"]) == 2
    said = capsys.readouterr().err
    assert name in said
    column = COLUMNS[name]
    words = {*map(str, column.answers)} if name in PANELS else {"place" if name in PLACES else ""}
    assert all(word in said for word in words | {name})


def reported(column: Column) -> list[int | str]:
    """The symbols of all people in the first period."""
    answers = (answer(column, person) for person in range(PEOPLE))
    return [column.missing if a is None or a in column.silent else a for a in answers]


@pytest.mark.parametrize("name", PANELS)
def test_a_panel_answers_for_every_symbol(name: str, public: PublicLog) -> None:
    column = COLUMNS[name]
    first = reported(column)
    for period, symbols in (("1", first), ("2", [column.after(symbol) for symbol in first])):
        for symbol in {*column.answers, column.missing}:
            found = public.answer(name, f"pattern '{symbol}'", period=period, count=True)
            assert found.value == pytest.approx(symbols.count(symbol), abs=0.5)


@pytest.mark.parametrize("name", [*NUMBERS, "coded"])
def test_a_table_answers_for_every_bin(name: str, study: Study, public: PublicLog) -> None:
    symbols, numbers = reported(COLUMNS[name]), study.attributes[name].numbers
    ranges = COLUMNS[name].answers if numbers is None else numbers.bin_labels
    for label in ranges:
        low, _, high = str(label).partition("..")
        own = [low] if not high else [str(n) for n in range(int(low), int(high) + 1)]
        found = public.answer("table", f"{name}={label}", count=True, unbiased=True)
        assert found.value == pytest.approx(sum(str(s) in own for s in symbols), abs=0.5)


@pytest.mark.parametrize("name", PLACES)
def test_sizes_count_every_place(name: str, public: PublicLog) -> None:
    least = (PEOPLE - 1) // len(COLUMNS[name].answers)
    assert public.answer(name, f"at-least {least}").value == pytest.approx(3, abs=0.5)


@pytest.mark.parametrize("name", [*PANELS, "table"])
def test_an_export_lists_every_symbol(name: str, folder: Path, study: Study) -> None:
    out = folder / f"export-{name}"
    assert main(["export", f"sqlite:{folder / 'public.db'}", name, str(out)]) == 0
    described = json.loads((out / "datapackage.json").read_text())
    fields = {f["name"]: f for r in described["resources"] for f in r["schema"]["fields"]}
    columns = {"1": name} if name in PANELS else {c: c for c in (*NUMBERS, "coded")}
    for field, attribute in columns.items():
        symbols = [*map(str, study.attributes[attribute].symbols)]
        listed = fields[field].get("constraints", {}).get("enum")
        assert listed is None if attribute in NUMBERS else [*map(str, listed)] == symbols
    if name == "table":
        assert fields["hours"]["missingValues"] == ["", "-9", "8"]
        assert {key for key in fields if "missingValues" in fields[key]} == {
            "hours",
            "spare",
            "pay",
        }
    if name == "agrees":
        labels = {c["value"]: c["label"] for c in fields["1"]["categories"]}
        assert labels["no"] == "does not agree"


@pytest.mark.parametrize("name", COLUMNS)
def test_an_audit_tries_every_answer(name: str, study: Study) -> None:
    column = COLUMNS[name]
    release = study.declared("table" if name in NUMBERS else name)
    assert release is not None
    audited = runs_of(study, release)
    (tried,) = {cell.options for cell in audited.cells if cell.attribute == name}
    if name not in PLACES:  # an audit of sizes has places of its own
        assert tried == (*(column.tried or column.answers), None)
    assert len(tried) > 2


@pytest.mark.parametrize("name", PANELS)
def test_an_audit_finds_people_who_cost_what_is_charged(name: str, study: Study) -> None:
    prepared = PreparedAudit.of(study, study.release(name))
    assert prepared.pair.rho == pytest.approx(LARGE, rel=0.01)


def test_a_stratum_for_every_answer(study: Study, public: PublicLog) -> None:
    strata = {key: value for key, (name, value) in study.strata.items() if name == "region"}
    assert [*strata.values()] == [*COLUMNS["region"].answers]
    regions, texts = reported(COLUMNS["region"]), reported(COLUMNS["text"])
    for release, region in strata.items():
        both = zip(regions, texts, strict=True)
        yes = sum(symbols == (region, "yes") for symbols in both)
        found = public.answer(release, "pattern yes", period="1", count=True)
        assert found.value == pytest.approx(yes, abs=0.5)
