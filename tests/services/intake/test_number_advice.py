"""Numbers with marks in files: read by options, and each refusal names the option that reads."""

import json
import re
import shlex

import pyarrow as pa
import pyarrow.parquet
import pytest
from kit.studies import MARKER, attribute, study_toml, window

from stream_dp.log.sqlite import SqliteLog
from stream_dp.services.commands.cli import main
from stream_dp.study.topics import REPORTS

ATTRIBUTES = {
    "pay": {"number": {"least": 0, "most": 5000}, "bins": [1000], "missing": "absent"},
    "work": attribute([0, 1], missing=0),
    "grade": attribute([0, 5, 15, 20], missing=0),
    "told": attribute(["y", "n"], missing="n"),
}
RAP = {"name": "p", "kind": "rap", "attributes": ["pay", "work"], "rho": 1, "every": 1}


@pytest.fixture
def folder(tmp_path):
    study = study_toml(
        **{"attributes": ATTRIBUTES, "size": None, "neighbours": "add_remove", "rho": 9},
        periods={"first": "2026-01", "every": "month", "count": 1, **MARKER},
        releases=[RAP, window("w", "work", width=1, rho=1)],
        run={"log": "sqlite:log.db", "public": "sqlite:public.db"},
    )
    (tmp_path / "study.toml").write_text(study)
    return tmp_path


def sent(folder, column, cells, *options):
    """The exit code, and the values that arrive."""
    rows = "\n".join(f'{i}\t2026-01\t"{cell}"' for i, cell in enumerate(cells))
    (folder / "a.tsv").write_text(f"person\tperiod\t{column}\n{rows}\n")
    code = main(["send", str(folder / "study.toml"), str(folder / "a.tsv"), *options])
    log = folder / "log.db"
    records = SqliteLog(log).read(REPORTS, {0: 0}, 99, 0).records if log.exists() else []
    return code, [json.loads(r.value)["values"].get(column) for r in records]


@pytest.mark.parametrize(
    ("column", "cells", "options", "values"),
    [
        ("pay", ["1200.0", "7.00", "12"], "", ["1200", "7", "12"]),
        ("pay", ["1,200", "12"], "--thousands ,", ["1200", "12"]),
        ("pay", ["1.200,00", "12,0"], "--thousands . --decimal ,", ["1200", "12"]),
        ("pay", ["1\u00a0200"], "--thousands space", ["1200"]),
        ("pay", ["1'200", "1\u2019200"], '--thousands "\'"', ["1200", "1200"]),
        ("work", ["1,0", "0,0", "1"], "--decimal ,", ["1", "0", "1"]),
        ("work", ["1.0", "0.0"], "", ["1", "0"]),
        ("told", ["1.0", "2.0"], "--map told:1=y,2=n", ["y", "n"]),
        (
            "pay",
            ["1.200,49", "7,5", "12"],
            "--thousands . --decimal , --round",
            ["1200", "8", "12"],
        ),
        ("pay", ["0.49"], "--round", ["0"]),
    ],
)
def test_numbers_with_marks_are_whole_numbers(folder, column, cells, options, values):
    assert sent(folder, column, cells, *shlex.split(options), "--strict") == (0, values)


@pytest.mark.parametrize(
    ("column", "cells", "named"),
    [
        ("pay", ["1,200", "2,000"], ["--thousands ,", "--decimal ,"]),
        ("pay", ["1,200", "1,250"], ["--thousands ,"]),
        ("pay", ["1.200", "12"], ["--thousands ."]),
        ("pay", ["1.200,00", "1.250"], ["--thousands ."]),
        ("pay", ["1 200", "1 250,00"], ["--decimal , --thousands space"]),
        ("pay", ["1\u2019200"], ['--thousands "\'"']),
        ("pay", ["1.200,50", "7,25"], ["--thousands . --round"]),
        ("pay", ["1200.50"], ["--round"]),
        ("pay", ["1200.505"], ["--decimal . --round"]),
        ("work", ["1,0", "0,0"], ["--decimal ,"]),
    ],
)
def test_a_refusal_names_the_option_that_reads(folder, column, cells, named, capsys):
    assert sent(folder, column, cells, "--strict")[0] == 2
    said = re.search(r"numbers with (?:marks|a fraction): ([^;]*); ", capsys.readouterr().err)[1]
    assert said.removesuffix(", whichever the file has").split(" or ") == named or len(named) == 2
    best = max(len(sent(folder, column, cells, *shlex.split(options))[1]) for options in named)
    assert best >= 1
    assert sent(folder, column, cells, *shlex.split(named[0]), "--strict")[0] == 0


def test_a_fraction_is_never_rounded_without_the_option(folder, capsys):
    assert sent(folder, "pay", ["1200.50"])[0] == 2
    assert "numbers with a fraction: --round" in capsys.readouterr().err
    assert sent(folder, "work", ["0.5"], "--round")[0] == 2  # a code is no number


def test_numbers_between_codes_want_a_range(folder, capsys):
    assert sent(folder, "grade", ["1.234,56", "17"])[0] == 2
    said = capsys.readouterr().err
    assert "numbers in between: declare number = { least = 0, most = 20 } and bins" in said
    assert sent(folder, "grade", ["15", "x"])[0] == 0
    assert "numbers in between" not in capsys.readouterr().err


def test_marks_that_are_none_are_one_line(folder, capsys):
    for options, line in (
        (["--decimal", "x"], "--decimal: write . or ,"),
        (["--thousands", "x"], "--thousands: write one of . , ' or space"),
        (["--decimal", ",", "--thousands", ","], "--decimal, --thousands: write two different"),
    ):
        assert sent(folder, "pay", ["1"], *options)[0] == 2
        assert line in capsys.readouterr().err


def test_decimals_of_parquet_are_whole_numbers(folder):
    pay = pa.array([1200, 7]).cast(pa.decimal128(21, 2))
    table = pa.table({"person": ["a", "b"], "period": ["2026-01"] * 2, "pay": pay})
    pa.parquet.write_table(table, folder / "a.parquet")
    words = ["send", str(folder / "study.toml"), str(folder / "a.parquet"), "--strict"]
    assert main(words) == 0


@pytest.mark.parametrize("options", [(), ("--round",)])
def test_a_number_beyond_every_scale_is_one_cell(folder, options):
    cells = ["1" * 29 + ".5", "1" * 4000 + ".5", "12"]
    assert sent(folder, "pay", cells, *options) == (0, cells)  # as they stand: none is rounded
