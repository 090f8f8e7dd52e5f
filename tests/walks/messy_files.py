"""Files as agencies have them, and what their operators answer to `stream-dp init`."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from kit.opendocuments import rows, write_ods

PEOPLE = 200
REAL = Path(__file__).parents[3] / "shared" / "data"


@dataclass(frozen=True)
class MessyFile:
    """A file and a walk through it.

    write: writes the file to a folder, or gives the path of one that is there.
    answers: to questions of `init`, by a part of the question; others are answered with a blank.
    query: what is asked of the release of the period 2021-01, or of the first wave.
    people: how many there are.
    changes: lines of `init` that are changed first, as KEY = ANSWER.
    """

    write: Callable[[Path], Path]
    answers: dict[str, str]
    query: str
    people: int = PEOPLE
    changes: tuple[str, ...] = ()


def _employed() -> list[bool]:
    dice = random.Random(5)
    return [dice.random() < 0.7 for _ in range(PEOPLE)]


def labelled(folder: Path) -> Path:
    """SPSS, with labels for codes and one code that means missing."""
    import pandas
    import pyreadstat

    codes = [1 if works else 2 for works in _employed()]
    frame = pandas.DataFrame(
        {
            "id": [float(i) for i in range(PEOPLE)],
            "month": [date(2021, 1, 31)] * PEOPLE,
            "work": [float(code) for code in [9, *codes[1:]]],
        }
    )
    pyreadstat.write_sav(
        frame,
        folder / "survey.sav",
        column_labels={"work": "In paid work"},
        variable_value_labels={"work": {1: "in work", 2: "out of work", 9: "refused"}},
        missing_ranges={"work": [9]},
    )
    return folder / "survey.sav"


def titled(folder: Path) -> Path:
    """A sheet of OpenDocument with a title above its header, and ids with zeros in front."""
    table: list[list[object]] = [["Labour register, January"], [], ["Person no", "Month", "Work"]]
    month = date(2021, 1, 31)
    table += [[f"{i:05}", month, "yes" if w else "no"] for i, w in enumerate(_employed())]
    write_ods(folder / "register.ods", {"data": rows(table), "old": rows([["x"]])}, hidden="old")
    return folder / "register.ods"


def households(folder: Path) -> Path:
    """Households with their persons: semicolons, a mark of UTF-8, and text that is Latin-1."""
    lines = ["HHID;PNO;Monat;Erwerbstätig;Ort"]
    for i, works in enumerate(_employed()):
        lines.append(f"{i // 3};{i % 3 + 1};31.01.2021;{'ja' if works else 'nein'};Zürich")
    text = "\r\n".join(lines).replace("31.01.2021", "2021-01-31")
    (folder / "haushalte.csv").write_bytes(b"\xef\xbb\xbf" + text.encode("latin-1"))
    return folder / "haushalte.csv"


def without_period(folder: Path) -> Path:
    """Stata, a wave without a column of periods."""
    import pandas
    import pyreadstat

    frame = pandas.DataFrame(
        {"pid": [f"p{i}" for i in range(PEOPLE)], "work": [1 if w else 0 for w in _employed()]}
    )
    labels = {"work": {0: "no", 1: "yes"}}
    pyreadstat.write_dta(frame, folder / "wave.dta", variable_value_labels=labels)
    return folder / "wave.dta"


MESSY = {
    "SPSS with labels": MessyFile(labelled, {}, "pattern 'in work'"),
    "OpenDocument with a title": MessyFile(
        titled,
        {"Values": "yes,no"},
        "pattern yes",
    ),
    "households in Latin-1": MessyFile(
        households,
        {"Column of the period": "Monat", "Values": "ja,nein"},
        "pattern ja",
        changes=("columns = Erwerbstätig",),
    ),
    "Stata without periods": MessyFile(
        without_period, {}, "pattern yes", changes=("periods = 2021-01, 1",)
    ),
    "persons of a travel survey": MessyFile(
        lambda folder: REAL / "households" / "survey_persons.csv",
        {"Values": "1,2,3,NA"},
        "pattern 1",
        59_762,
        changes=("columns = PEmp", "periods = 2021-01, 1"),
    ),
    "students over nine months": MessyFile(
        lambda folder: REAL / "panels" / "oulad_submit_monthly.csv",
        {"Values": "0,1,2"},
        "pattern 1",
        26_071,
        changes=("periods = 2021-01, 9",),
    ),
}
