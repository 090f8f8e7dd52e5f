"""The public data sets of the benchmarks: fetches them, and says where they are.

    python benchmarks/data_sets.py [FOLDER]

Fetches what is missing into FOLDER, by default `benchmarks/data`, and compares the SHA-256 of every
download. With the environment variable BENCHMARK_DATA the benchmarks read another folder, in which
a file may lie at any depth. OULAD and the unions of workers need `requirements/benchmarks.lock`.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
RAW, LARGE = "https://raw.githubusercontent.com", "https://media.githubusercontent.com/media"
MONTH = 30  # days
MONTHS = 9


@dataclass(frozen=True)
class DataSet:
    """downloads: addresses with their SHA-256. made: the file's bytes from those of the downloads.

    licence: with the owner of the data.
    """

    licence: str
    downloads: tuple[tuple[str, str], ...]
    made: Callable[..., bytes]


def as_it_is(content: bytes) -> bytes:
    """Lines end as on Unix."""
    return content.replace(b"\r\n", b"\n")


def blocks(content: bytes) -> bytes:
    """People, whites and native Hawaiians by census block."""
    names = {"GEOID": "block"} | {n: n for n in ("state", "county", "pop", "pop_white", "pop_nhpi")}
    rows = csv.DictReader(io.StringIO(content.decode()))
    return table(list(names.values()), [[row[name] for name in names] for row in rows])


def unions(content: bytes) -> bytes:
    """Membership in a union, a row for each person and a column for each year."""
    import pandas as pd

    wide = pd.read_stata(io.BytesIO(content)).pivot(index="idcode", columns="year", values="union")
    rows = [
        [person, *("" if pd.isna(value) else int(value) for value in values)]
        for person, *values in wide.itertuples()
    ]
    return table(["idcode", *(f"y{year}" for year in wide.columns)], rows)


def submissions(students: bytes, assessments: bytes, answers: bytes) -> bytes:
    """0 active, 1 submitted an assessment, 2 withdrawn, by month, from the first presentation.

    A submission before the first month or after the last belongs to it. Those who withdrew before
    their first day are left out.
    """
    first, given = _frame(students), _frame(answers)
    first = first.sort_values(["code_presentation", "code_module"], kind="stable")
    first = first.drop_duplicates("id_student")
    first = first[~(first.date_unregistration <= 0)]
    keys = ["code_module", "code_presentation"]
    given = given[~given.is_banked.astype(bool)]
    given = given.merge(_frame(assessments)[[*keys, "id_assessment"]], on="id_assessment")
    given = given.merge(first[["id_student", *keys]], on=["id_student", *keys])
    states = {int(student): [0] * MONTHS for student in first.id_student}
    for student, day in zip(given.id_student, given.date_submitted, strict=True):
        states[int(student)][min(max(int(day) // MONTH, 0), MONTHS - 1)] = 1
    for student, day in zip(first.id_student, first.date_unregistration, strict=True):
        for month in range(MONTHS):
            if month * MONTH >= day:
                states[int(student)][month] = 2
    names = ["id", *(f"m{month}" for month in range(1, MONTHS + 1))]
    return table(names, [[student, *months] for student, months in states.items()])


def _frame(content: bytes):
    """The data frame in a file of R. Whole numbers that may be missing are floats."""
    import rdata

    with tempfile.NamedTemporaryFile(suffix=".rda") as file:
        file.write(content)
        file.flush()
        (frame,) = rdata.read_rda(file.name).values()
    for name in frame.columns:
        if name.startswith("date") or name == "is_banked":
            frame[name] = frame[name].astype(float)
    return frame


def table(header: list[str], rows: list[list[object]]) -> bytes:
    file = io.StringIO(newline="")
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(header)
    lines.writerows(rows)
    return file.getvalue().encode()


_SURVEY = (
    f"{RAW}/ActivitySim/populationsim/cc22d25499e7c54ee5ea184a7ecd0f9ee7f20231"
    "/examples/example_survey_weighting/data"
)
_NIST = (
    f"{LARGE}/usnistgov/SDNist/f048b1c2ca3815239982ac181ec8cd01840fc351"
    "/BenchmarkData/ACSDataExcerpts/massachusetts"
)
_OULAD = f"{RAW}/jakubkuzilek/oulad/b51016442e8987c47edd4fe0f8dac791cc1406da/data"
_CENSUS = f"{RAW}/alarm-redist/census-2020/4b896e7a6b3444ee815d1f1afa0c06caa7e5573f"
_NLS = f"{RAW}/sergiocorreia/reghdfe/0aa858f6075788bfb836d63b278fe374df389758"
DATA_SETS = {
    "survey_households.csv": DataSet(
        "ActivitySim, BSD 3-Clause",
        (
            (
                f"{_SURVEY}/seed_households.csv",
                "6b6bfe57193e3f13de017d73dc31b6cacde9215bf126360f2012031486d29d23",
            ),
        ),
        as_it_is,
    ),
    "survey_persons.csv": DataSet(
        "ActivitySim, BSD 3-Clause",
        (
            (
                f"{_SURVEY}/seed_persons.csv",
                "8d910522829741c8be97455e10f0e93ef999772fd912f5c730a2517211c6efe9",
            ),
        ),
        as_it_is,
    ),
    "nist_ma2018.csv": DataSet(
        "NIST, a work of the US government",
        (
            (
                f"{_NIST}/ma2018.csv",
                "36efe30faec9c83b60317927f762db745241a856353205f8b5a47facab40980e",
            ),
        ),
        as_it_is,
    ),
    "nist_ma2019.csv": DataSet(
        "NIST, a work of the US government",
        (
            (
                f"{_NIST}/ma2019.csv",
                "4f1e49c938674f6f623a86f6abef75c6c466012cc9296df21c3d678fb08ad0b0",
            ),
        ),
        as_it_is,
    ),
    "hawaii_2010_blocks.csv": DataSet(
        "US Census Bureau, through alarm-redist, CC BY-SA 4.0",
        (
            (
                f"{_CENSUS}/census-vest-2010/hi_2010_block.csv",
                "9bf1ba527351c307cc4c859413561b50a19395a8c5b5c4957aea084e160388cb",
            ),
        ),
        blocks,
    ),
    "nlswork_union.csv": DataSet(
        "NLS public-use data, through reghdfe, MIT",
        (
            (
                f"{_NLS}/misc/data/nlswork.dta",
                "6275d56497b78c04d92b9dc51028233fc1309fbd0600e263696d8bb1d98da16a",
            ),
        ),
        unions,
    ),
    "oulad_submit_monthly.csv": DataSet(
        "Open University Learning Analytics Dataset, CC BY 4.0",
        (
            (
                f"{_OULAD}/student_registration.rda",
                "8391da186b161a3208f4ec8c01c4dba1a0ea10738268138c8127cd1f79084d78",
            ),
            (
                f"{_OULAD}/assessment.rda",
                "21e7385afb2d488411d0cf4e14300f218e68ae63c958c395b7d92a7b42bc8212",
            ),
            (
                f"{_OULAD}/student_assessment.rda",
                "fb979fb6e30350e0ea179c634d44c85ba7847f747520411c8e4a81c5fa05bd6d",
            ),
        ),
        submissions,
    ),
}


def data_file(name: str) -> Path:
    """The file of a data set. Ends the program with one line where it is not there."""
    chosen = os.environ.get("BENCHMARK_DATA")
    folders = [Path(chosen)] if chosen else [HERE / "data", HERE.parents[1] / "shared" / "data"]
    for folder in folders:
        for path in folder.rglob(name):
            return path
    sys.exit(f"no data set {name}: python benchmarks/data_sets.py fetches it")


def downloaded(address: str, sha256: str) -> bytes:
    """The content of an address. Raises ValueError if it is not the one that was used here."""
    with urllib.request.urlopen(address, timeout=60) as answer:
        content: bytes = answer.read()
    if (found := hashlib.sha256(content).hexdigest()) != sha256:
        raise ValueError(f"{address}: SHA-256 {found} instead of {sha256}")
    return content


def fetch(folder: Path) -> None:
    """Writes the data sets that are not there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, one in DATA_SETS.items():
        if not (folder / name).exists():
            content = one.made(*(downloaded(*item) for item in one.downloads))
            (folder / name).write_bytes(content)
        print(f"{folder / name}: {one.licence}")


if __name__ == "__main__":
    try:
        fetch(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "data")
    except (OSError, ValueError, ImportError) as error:
        sys.exit(f"data_sets: {error}")
