"""The option that a line of `send` or `rehearse` names is run, and cures what the line is about."""

from __future__ import annotations

import ast
import io
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import openpyxl
import pandas
import pyreadstat
import pytest
from kit.studies import attribute, study_toml, window

import stream_dp
from stream_dp import services
from stream_dp.services.commands.cli import main

POVERTY = {"poverty": attribute([0, 1], missing=0)}
WORK = {"work": attribute(["no", "half day"], missing="absent")}
AGE = {"age": {"number": {"least": 0, "most": 9000}, "bins": [1000], "missing": "absent"}}
SOUND = "person,period,poverty\n0001,2021-01,1\n0002,2021-01,0\n"
LONG = "person,period,{}\n1,2021-01,{}\n"


def study(
    every: str = "month", first: str = "2021-01", count: int = 3, **attributes: object
) -> str:
    """A study with a panel of its first attribute."""
    declared = attributes or POVERTY
    panel = window("months", next(iter(declared)), width=1, rho="1")
    if "number" in str(declared):
        panel = {"name": "people", "kind": "match", "attributes": [*declared], "at": [first]}
        panel["rho"] = "1"
    periods = {"first": first, "every": every, "count": count}
    return study_toml(
        name="agency", size=60, periods=periods, attributes=declared, releases=[panel], rho="1"
    )


def steps(count: int = 3) -> str:
    return study("step", "1", count)


def wide(*names: str) -> str:
    return f"person,{','.join(names)}\n1{',1' * len(names)}\n2{',0' * len(names)}\n"


def below_a_title(folder: Path) -> str:
    book = openpyxl.Workbook()
    for row in (["Survey"], [], *(line.split(",") for line in SOUND.split())):
        book.active.append(row)
    book.save(folder / "t.xlsx")
    return "t.xlsx"


def two_sheets(folder: Path) -> str:
    book = openpyxl.Workbook()
    book.active.append(["about", "this"])
    sheet = book.create_sheet("Data")
    for line in SOUND.split():
        sheet.append(line.split(","))
    book.save(folder / "t.xlsx")
    return "t.xlsx"


def labelled(folder: Path) -> str:
    frame = {"person": ["1", "2"], "period": ["2021-01"] * 2, "poverty": [1.0, 1.0]}
    labels = {"poverty": {1: "0", 2: "1"}}
    pyreadstat.write_sav(pandas.DataFrame(frame), folder / "t.sav", variable_value_labels=labels)
    return "t.sav"


def read_before(folder: Path) -> str:
    """A file that is read otherwise than the accepted reading beside it says."""
    (folder / "t.csv").write_text(SOUND)
    main(["send", "study.toml", "t.csv", "--reading", "r.toml", "--check", "--quiet"])
    (folder / "t.csv").write_text(
        SOUND.replace("period,", "period,more,").replace("-01,", "-01,x,")
    )
    return "t.csv"


def closed(folder: Path) -> str:
    """A wide file with a month that is closed."""
    (folder / "t.csv").write_text(SOUND)
    for words in ("send study.toml t.csv", "close study.toml 2021-01 --yes"):
        main([*words.split()])
    main(["run", "study.toml", "--until-idle"])
    (folder / "t.csv").write_text(wide("2021-01", "2021-02"))
    return "t.csv"


@dataclass(frozen=True)
class Case:
    """A file, the option that its line names, and the words that an operator types then.

    content: of `t.csv`, or a function that writes a file and gives its name.
    named: what must be in the lines.
    typed: the words in its place; by default `named` itself.
    words: of the first command, beside the file.
    again: of the second command, in place of `words`.
    """

    content: str | bytes | Callable[[Path], str]
    named: str
    typed: str | None = None
    words: str = ""
    again: str | None = None
    study: str = study()
    command: str = "send"


EVENTS = study(
    mode_1=attribute(["car"], missing="absent"), mode_2=attribute(["car"], missing="absent")
)
TRIPS = "person,period,trip,mode\n1,2021-01,1,car\n"
TWO_COLUMNS = "clinic,id,period,poverty\n" + "".join(
    f"{clinic},{number},2021-01,1\n" for clinic in "ab" for number in range(1, 5)
)
FRENCH = "person,period,work\n1,2021-01,né\n".encode("cp1252")
IN_ORDER = "--attribute poverty --columns"
CASES = {
    "ids": Case(
        LONG.replace("person", "nr").format("poverty", 1),
        "name the ids with --person",
        "--person nr",
    ),
    "ids of two columns": Case(
        TWO_COLUMNS, "--group clinic --member id", words="--person id", again=""
    ),
    "the last of two rows": Case(TWO_COLUMNS, "--columns '{}='", words="--person id"),
    "names in two rows": Case(
        "person,period,poverty\nperson,period,\n1,2021-01,1\n",
        "--header-row 1",
        words="--header-row 2",
        again="",
    ),
    "no ids": Case("sex,period,poverty\nf,2021-01,1\n", "--person -"),
    "ids in capitals": Case(SOUND.replace("person", "Person"), "--person Person"),
    "groups": Case(
        "hh,no,period,poverty\n1,1,2021-01,1\n",
        "--group and --member",
        "--group hh --member no",
        "--member nr",
    ),
    "periods": Case(SOUND.replace("period", "when"), "name it with --period", "--period when"),
    "periods in capitals": Case(SOUND.replace("period", "Period"), "--period Period"),
    "one period": Case("person,poverty\n1,1\n", "--period 2021-01"),
    "blanks": Case(SOUND.replace(",", " "), "--separator space"),
    "a wide file": Case(wide("2021-01", "2021-02"), "--attribute poverty"),
    "a wide file without periods": Case(
        "person,month,a\n1,2021-01,1\n",
        "--attribute (wide)",
        "--attribute poverty --columns a=2021-01",
        "--period month",
    ),
    "periods by name": Case(
        wide("a", "b"),
        "--columns NAME=PERIOD,...",
        "--columns a=2021-01,b=2021-02",
        "--attribute poverty",
        "--attribute poverty",
    ),
    "wide dates": Case(
        wide("31.01.2021", "28.02.2021"), "--dates '%d.%m.%Y'", words="--attribute poverty"
    ),
    "later columns": Case(
        wide("2021-01", "2022-01"), "--columns '2022-01='", words="--attribute poverty"
    ),
    "a misspelt attribute": Case(SOUND.replace("poverty", "povrty"), "--columns 'povrty=poverty'"),
    "another attribute": Case(
        SOUND.replace("poverty", "povrty,work")
        .replace("-01,", "-01,1,no,")
        .replace(",no,1", ",no")
        .replace(",no,0", ",no"),
        "--columns 'povrty='",
        study=study(**WORK, **POVERTY),
    ),
    "a later start": Case(
        wide("m4", "m5"),
        "--columns 'm{}=2021-01...'",
        words=f"{IN_ORDER} m{{}}=...",
        again="--attribute poverty",
    ),
    "an earlier column": Case(
        wide("m2020-12", "m2021-01"),
        "--columns 'm2020-12=,m{}=...'",
        words=f"{IN_ORDER} m{{}}=...",
        again="--attribute poverty",
    ),
    "a stray column": Case(
        wide("x_hours", "x_jan", "x_feb", "x_mar"),
        "--columns 'x_hours=,x_{}=...'",
        words=f"{IN_ORDER} x_{{}}=...",
        again="--attribute poverty",
        study=study(count=12),
    ),
    "another order": Case(
        wide("T1", "T3", "T2"),
        "--columns 'T1=1,T2=2,T3=3'",
        words=f"{IN_ORDER} T{{}}=...",
        again="--attribute poverty",
        study=steps(),
    ),
    "numbers": Case(
        wide("xT1", "xT3", "xT2"),
        "--columns 'xT{}={}'",
        words=f"{IN_ORDER} x{{}}=...",
        again="--attribute poverty",
        study=steps(),
    ),
    "dates": Case(SOUND.replace("2021-01", "31.01.2021"), "--dates '%d.%m.%Y'"),
    "months of another language": Case(SOUND.replace("2021-01", "1. Januar 2021"), "--language de"),
    "short months of another language": Case(
        SOUND.replace("2021-01", "gen-21"), "--dates '%b-%y' --language it"
    ),
    "names of periods": Case(
        SOUND.replace("2021-01", "baseline"),
        "--map 'period:TEXT=2021-01'",
        "--map period:baseline=2021-01",
    ),
    "waves": Case(SOUND.replace("2021-01", "wave 1"), "--map 'period:wave {}={}'", study=steps()),
    "dates of steps": Case(
        SOUND.replace("2021-01", "first"),
        "--map period:TEXT=STEP",
        "--map period:first=1",
        "--dates %Y",
        "",
        study=steps(),
    ),
    "values": Case(
        SOUND.replace("1,1", "1,Yes").replace("1,0", "1,No"),
        "--map 'poverty:TEXT=0,TEXT=1'",
        "--map poverty:No=0,Yes=1",
    ),
    "no numbers": Case(
        LONG.format("age", "none") + "2,2021-01,5\n",
        "--map 'age:TEXT='",
        "--map age:none=",
        study=study(**AGE, **POVERTY),
    ),
    "thousands": Case(
        LONG.format("age", '"1,000"'), "--thousands ,", study=study(**AGE, **POVERTY)
    ),
    "decimals": Case(LONG.format("poverty", '"1,0"'), "--decimal ,"),
    "zeros": Case(SOUND + "7,2021-01,1\n", "--id-width 4"),
    "nobody": Case(SOUND + "NA,2021-01,1\n", "--no-id=NA"),
    "numbers of nobody": Case(SOUND + "9999,2021-01,1\n", "--no-id=9999"),
    "names of rows": Case("person,period,poverty\na,1,2021-01,1\nb,2,2021-01,1\n", "--row-names"),
    "a header in cp1252": Case(
        "p\xe9rson,period,poverty\n1,2021-01,1\n".encode("cp1252"),
        "--encoding cp1252",
        "--encoding cp1252 --person p\xe9rson",
    ),
    "ids in cp1252": Case(
        "person,period,poverty\n\xe9,2021-01,1\n".encode("cp1252"), "--encoding cp1252"
    ),
    "answers in cp1252": Case(
        FRENCH, "--encoding cp1252", study=study(work=attribute(["n\xe9", "no"], missing="absent"))
    ),
    "UTF-16": Case(SOUND.encode("utf-16-le"), "--encoding utf-16-le"),
    "a title": Case("Survey\n\n" + SOUND, "--header-row 3"),
    "a title in a workbook": Case(below_a_title, "--header-row 3"),
    "an empty row": Case(below_a_title, "--header-row", "--header-row 3", "--header-row 2", ""),
    "sheets": Case(two_sheets, "name one with --sheet", "--sheet Data"),
    "labels": Case(labelled, "--labels poverty"),
    "codes": Case(labelled, "--codes poverty"),
    "times in UTC": Case(
        "person,period,poverty\n1,2021-01-31T23:00:00Z,1\n", "--zone Europe/Berlin"
    ),
    "events": Case(TRIPS, "with --event", "--event trip", "--event x", "", EVENTS),
    "no events": Case(SOUND, "leave the option out", "", "--event poverty", ""),
    "events without ids": Case(
        TRIPS,
        "name it with --person",
        "--person person",
        "--event trip --person -",
        "--event trip",
        EVENTS,
    ),
    "no columns of events": Case(
        "person,period,trip,mode_1\n1,2021-01,1,car\n",
        "leave --event out",
        "",
        "--event trip",
        "",
        EVENTS,
    ),
    "an event twice": Case(
        TRIPS.replace("mode", "mode,m").replace("car", "car,car"),
        "--columns 'm='",
        "--columns m=",
        "--event trip --columns m=mode_1",
        "--event trip",
        EVENTS,
    ),
    "events of a wide file": Case(
        wide("2021-01"),
        "not with --attribute",
        "--attribute poverty",
        "--attribute poverty --event x",
        "",
    ),
    "a strict sender": Case(SOUND + "3,2021-01,?\n", "without --strict", "", "--strict", ""),
    "another reading": Case(
        read_before, "another FILE of --reading", "--reading s.toml", "--reading r.toml", ""
    ),
    "both codings": Case(labelled, "leave one out", "--labels poverty", "--labels --codes", ""),
    "a file without rows above": Case(
        labelled, "has no rows above its header", "--codes", "--header-row 2", ""
    ),
    "no reading": Case(SOUND, "is no reading", "--reading r.toml", "--reading study.toml", ""),
    "a late period": Case(
        closed,
        "--columns 'COLUMN='",
        "--columns 2021-01=",
        "--attribute poverty",
        "--attribute poverty",
    ),
    "no places": Case(SOUND, "leave --places out", "", "--places t.csv", "", command="rehearse"),
}


def shown(words: str, case: Case, file: str) -> tuple[int, str]:
    """The exit code of a command about a file, and all that it prints."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        code = main([case.command, "study.toml", file, *shlex.split(words)])
    return code, out.getvalue()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, int, str]]:
    """By case, the lines of the first command, and the code and lines of the second."""
    done = {}
    for name, case in CASES.items():
        folder = tmp_path_factory.mktemp("case")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            (folder / "study.toml").write_text(case.study)
            if callable(case.content):
                with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                    file = case.content(folder)
            else:
                content, file = case.content, "t.csv"
                (folder / file).write_bytes(
                    content if isinstance(content, bytes) else content.encode()
                )
            _, refusal = shown(case.words, case, file)
            again = case.words if case.again is None else case.again
            option = case.named if case.typed is None else case.typed
            done[name] = refusal, *shown(f"{again} {option}", case, file)
    return done


@pytest.mark.parametrize("name", CASES)
def test_the_named_option_cures_what_the_line_is_about(name, runs) -> None:
    refusal, code, lines = runs[name]
    assert CASES[name].named in refusal, refusal
    assert code == 0, lines
    assert name == "a strict sender" or "would not count" not in lines, lines
    assert CASES[name].named not in lines, lines


FOLDER = Path(stream_dp.__file__).parent
ROOMS = [
    *sorted((FOLDER / "population" / "tables").glob("*.py")),
    *sorted((Path(services.__file__).parent / "intake").glob("*.py")),
    Path(services.__file__).parent / "commands" / "send.py",
    FOLDER / "study" / "period_texts.py",
    FOLDER / "study" / "date_formats.py",
]


def lines_with_options() -> Iterator[tuple[str, str]]:
    """The texts in the code that name an option, as a file with a line, and a pattern.

    Left out are docstrings, the helps of options, and lines about the value of an option.
    """
    for room in ROOMS:
        tree = ast.parse(room.read_text())
        helps = [
            n
            for n in ast.walk(tree)
            if isinstance(n, ast.Assign) and "help" in ast.dump(n.targets[0])
        ]
        helps += [
            n
            for n in ast.walk(tree)
            if isinstance(n, ast.Call) and "add_argument" in ast.dump(n.func)
        ]
        helps += [
            n
            for n in ast.walk(tree)
            if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)
        ]
        known = {id(inner) for node in helps for inner in ast.walk(node)}
        for node in ast.walk(tree):
            if id(node) in known:
                continue
            if isinstance(node, ast.JoinedStr):
                known |= {id(inner) for inner in ast.walk(node)}
                parts = [v.value if isinstance(v, ast.Constant) else None for v in node.values]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                parts = [node.value]
            else:
                continue
            text = "".join("X" if part is None else str(part) for part in parts)
            if re.search("--[a-z]{3}", text) and not re.match(
                r"(X: )?--[a-z-]+($|:| X:|, --)", text
            ):
                pattern = ".*".join("" if p is None else re.escape(str(p)) for p in parts)
                yield f"{room.name}:{node.lineno}", pattern


def test_nearly_every_line_that_names_an_option_is_run(runs) -> None:
    outputs = "\n".join(chain.from_iterable((first, last) for first, _, last in runs.values()))
    lines = dict(lines_with_options())
    unrun = {at: text for at, text in lines.items() if not re.search(text, outputs)}
    assert len(unrun) <= 0.05 * len(lines), unrun
