"""`send`: tables of both layouts, and those that cannot be read."""

import pytest
from kit.studies import study_toml, window
from trial import write

from stream_dp.services.commands import cli

# send


def test_send_says_how_many_reports_it_sent(study, stream_dp, as_json):
    table = study.parent / "reports.csv"
    assert stream_dp("send", study, table) == f"{table}: 150 reports sent\n"
    said = as_json("send", study, table)
    assert said["sent"] == {str(table): 150}
    assert said["faulty_cells"] == {str(table): 0}
    assert said["compared_with_log"]


def test_send_a_wide_table(study, stream_dp, as_json):
    table = study.parent / "wide.csv"
    table.write_text("id,m1,m2,2021-03\na,0,1,\nb,,1,1\n")
    layout = ["--person", "id", "--attribute", "poverty", "--columns", "m1=2021-01,m2=2021-02"]
    assert as_json("send", study, table, *layout)["sent"] == {str(table): 4}
    stream_dp("close", study, "2021-03")
    stream_dp("run", study, "--until-idle")
    assert as_json("status", study)["cells_at_last_cut"]["accepted"] == 4


def test_columns_names_those_of_ids_and_periods_too(study, stream_dp, as_json):
    table = study.parent / "long.csv"
    table.write_text("id,month,poor\na,2021-01,1\nb,2021-01,0\n")
    layout = ["--columns", "id=person,month=period,poor=poverty"]
    assert as_json("send", study, table, *layout)["sent"] == {str(table): 2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--person", "id"], "no column 'id'; name the ids with --person"),
        (["--period", "month"], "no column 'month'; name it with --period"),
        (["--attribute", "age"], "attribute 'age': not declared; there are poverty, work"),
        (["--attribute", "poverty"], "a column for each period, or --columns NAME=PERIOD"),
        (["--columns", "poverty"], "--columns: write COL=NAME,COL=NAME, not 'poverty'"),
        (["--columns", "a=poverty"], "no column 'a' to rename"),
    ],
)
def test_wrong_options_of_send(study, stream_dp, options, message):
    table = study.parent / "reports.csv"
    assert message in stream_dp("send", study, table, *options, code=2)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none.csv", None, "no such file"),
        ("table.doc", b"person,period,poverty\n", "write tables as CSV"),
        ("empty.csv", b"", "cannot be read as a table"),
        ("latin.csv", b"person,period,poverty,gr\xf6\xdfe\n1,2021-01,1,2\n", "cannot be read"),
        ("fake.parquet", b"person,period,poverty\n", "cannot be read as a table"),
        ("empty.parquet", b"", "cannot be read as a table"),
    ],
)
def test_wrong_files_of_send(study, stream_dp, name, content, message):
    path = study.parent / name
    if content is not None:
        path.write_bytes(content)
    err = stream_dp("send", study, path, code=2)
    assert message in err
    assert str(path) in err
    assert len(err.splitlines()) == 1


def test_sending_twice_changes_no_release(study, stream_dp, as_json):
    table = study.parent / "reports.csv"
    for _ in range(2):
        stream_dp("send", study, table)
    stream_dp("close", study, "2021-03")
    stream_dp("run", study, "--until-idle")
    assert as_json("status", study)["cells_at_last_cut"] == {
        "received": 600,
        "accepted": 300,
        "superseded": 300,
        "rejected": {},
        "pending": 0,
    }


def test_a_closed_cohort_refuses_who_comes_late(tmp_path, stream_dp, as_json):
    """The sender is told of whom, the operator how many cells, and the panel has nobody of them."""
    text = study_toml(
        neighbours="add_remove",
        size=None,
        closed=True,
        releases=[window("pairs", "poverty", width=2, rho=1)],
        run={"log": "sqlite:small.db", "public": "sqlite:small-public.db"},
    )
    study, wide = write(tmp_path, text), tmp_path / "wide.csv"
    wide.write_text("id,2021-01,2021-02,2021-03\na,0,1,1\nb,,1,\nc,,0,1\n")
    layout = ["--person", "id", "--attribute", "poverty"]
    words = stream_dp("send", study, wide, *layout, "--check")
    assert f"{wide}: 2 people have values after 2021-01 alone, when the cohort closes" in words
    assert "the first in row 2 below the header" in words
    assert as_json("send", study, wide, *layout)["late_people"] == {str(wide): 2}
    wide.write_text("id,2021-02\nb,1\n")
    words = stream_dp("send", study, wide, *layout)
    assert "all people have values after 2021-01 alone" in words
    wide.write_text("id,2021-01\na,0\n")
    assert "after 2021-01 alone" not in stream_dp("send", study, wide, *layout)
    stream_dp("close", study, "2021-03", "--yes")
    stream_dp("run", study, "--until-idle")
    cells = as_json("status", study)["cells_at_last_cut"]
    assert (cells["accepted"], cells["rejected"]) == (3, {"closed": 3})
    rejected = as_json("rejected", study)["cells"]
    assert {(row["reason"], row["attribute"]) for row in rejected} == {("closed", "poverty")}
    assert "closed: the cohort is closed" in stream_dp("rejected", study)
    assert "without an accepted answer by 2021-01 is never counted" in " ".join(
        stream_dp("check", study).split()
    )


def test_send_says_which_cells_a_later_row_replaces(study, stream_dp):
    table = study.parent / "twice.csv"
    rows = ["p1,2021-01,1", "p2,2021-01,1", "p1,2021-01,0", "p1,2021-01,1"]
    table.write_text("\n".join(["person,period,poverty", *rows]) + "\n")
    words = stream_dp("send", study, table, "--check")
    assert f"{table}: 2 cells repeat an earlier one of the same person and period" in words
    assert "the first in row 3 below the header: the last one counts" in words


@pytest.mark.parametrize("terminal", [True, False])
def test_texts_that_would_not_count_are_shown_on_a_terminal_alone(
    terminal, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(
        study_toml(
            name="shown",
            rho=1,
            periods={"first": "2021-01", "every": "month", "count": 1},
            size=9,
            attributes={"work": {"values": ["no", "yes"], "missing": "no"}},
            releases=[{"name": "w", "kind": "window", "attribute": "work", "width": 1, "rho": 1}],
        )
    )
    rows = ["a,2021-01,maybe", "b,2021-01,maybe", "c,Jan 21,no", ",2021-01,no"]
    (tmp_path / "t.csv").write_text("\n".join(["person,period,work", *rows]) + "\n")
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    assert cli.main(["send", "s.toml", "t.csv", "--check", "--show-texts"]) == 2
    shown, refused = capsys.readouterr()
    lines = ["        1 cells  period: Jan 21", "        2 cells  work: maybe"]
    assert sorted(shown.splitlines()) == (lines if terminal else [])
    assert "maybe" not in refused
