"""`init`: the values that somebody types for a column."""

from __future__ import annotations

import io

import pytest
from trial import sent_command

from stream_dp.services.commands import cli
from stream_dp.studyfile import load_study


@pytest.mark.parametrize(
    ("values", "listed", "width"),
    [("0.1..0.9", ("0.1", "0.2"), 3), ("0 to 63", (0, 1), 2), ("0..1 by 0.25", ("0", "0.25"), 3)],
)
def test_ranges_and_their_patterns(values, listed, width, tmp_path, stream_dp, monkeypatch):
    rows = [f"{i},{v},{0.5:.2f}" for i in range(18) for v in (1, 2)]
    (tmp_path / "t.csv").write_text("\n".join(["id,wave,score", *rows, ""]))
    monkeypatch.chdir(tmp_path)
    lines = ["1, 9", "50000", "complete = no", values, "score: empty = absent", "", ""]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    command = sent_command(stream_dp("init", "t.csv"))
    study, _ = load_study(tmp_path / "t.toml")
    assert study.attributes["score"].listed[:2] == listed
    assert study.releases[0].width == width
    if values != "0 to 63":
        assert "would not count" not in stream_dp(*command)


@pytest.mark.parametrize(
    ("answer", "listed"),
    [
        ("0, 1 to 5, 6 to 20, 21+", ("0", "1 to 5", "6 to 20", "21+")),
        ("1 to 5, 6 to 20", ("1 to 5", "6 to 20")),
        ("0 to 2, refused", ("0", "1", "2", "refused")),
        ("0 to 3, -9, -8", (-9, -8, 0, 1, 2, 3)),
        ("1-5, 6-9", ("1-5", "6-9")),
    ],
)
def test_a_range_is_numbers_beside_words_and_a_text_beside_bands(
    answer, listed, tmp_path, stream_dp, monkeypatch
):
    (tmp_path / "t.csv").write_text(f"id,wave,band\n1,1,{listed[0]}\n2,1,{listed[1]}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"1, 1\n2\n\n{answer}\n\n"))
    command = sent_command(stream_dp("init", "t.csv"))
    band = load_study(tmp_path / "t.toml")[0].attributes["band"]
    assert band.listed == listed
    assert band.interest == (listed[0] if isinstance(listed[0], str) else None)
    assert "would not count" not in stream_dp(*command)


def test_codes_beside_many_numbers_are_special(tmp_path, stream_dp, monkeypatch, capsys):
    rows = [f"{i},{(-9, -8, i)[i % 3]},{'fm'[i % 2]}" for i in range(300)]
    (tmp_path / "t.csv").write_text("\n".join(["id,hours,sex", *rows, ""]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("=\n300\n\n-9,-8, 0 to 400\nf,m\n\n"))
    command = sent_command(stream_dp("init", "t.csv"))
    hours = load_study(tmp_path / "t.toml")[0].attributes["hours"]
    assert hours.special == (-9, -8)
    assert "would not count" not in stream_dp(*command)
    monkeypatch.setattr("sys.stdin", io.StringIO("columns = hours\n=\n300\n\n-9,-8, 0 to 400\n"))
    assert cli.main(["init", "t.csv", "--out", "other.toml"]) == 2
    assert "hours: values: a column alone has at most 64 values" in capsys.readouterr().err


@pytest.mark.parametrize(("people", "width"), [(49, 1), (50, 1), (250, 2), (1250, 3)])
def test_a_pattern_is_for_ten_people_at_least(people, width, tmp_path, stream_dp, monkeypatch):
    (tmp_path / "w.csv").write_text("id,m_1,m_2,m_3,m_4\n1,0,1,2,\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{people}\n0 to 3\n\n"))
    stream_dp("init", "w.csv")
    study, _ = load_study(tmp_path / "w.toml")
    (release,) = study.releases
    assert (release.width, release.name) == (width, "m-patterns")


@pytest.mark.parametrize(("columns", "values"), [("hours", ""), ("hours,work", "yes,no\n")])
def test_many_numbers_over_periods_are_a_table_of_people(
    columns, values, tmp_path, stream_dp, monkeypatch
):
    rows = [f"{i},{m},{i},yes" for i in range(60) for m in (1, 2)]
    (tmp_path / "t.csv").write_text("\n".join(["id,wave,hours,work", *rows, ""]))
    monkeypatch.chdir(tmp_path)
    lines = f"columns = {columns}\n1, 2\n60\n\n0 to 99\n{values}\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    command = sent_command(stream_dp("init", "t.csv"))
    (table,) = load_study(tmp_path / "t.toml")[0].batches
    assert (table.kind, table.questions[0].startswith("hours")) == ("table", True)
    assert "would not count" not in stream_dp(*command)
