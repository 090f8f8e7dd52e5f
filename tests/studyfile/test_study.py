"""Study files that are read: exact numbers, default logs, the environment."""

from fractions import Fraction

import pytest
from kit.study_file import TEXT, changed

from stream_dp.errors import UserError
from stream_dp.studyfile import load_study


def test_a_sound_file_is_what_it_says(read):
    study, run = read(TEXT)
    assert (study.name, study.unit, study.neighbours) == ("poverty", "household", "replace_one")
    assert study.size == 23374
    assert study.periods.labels[-1] == "2021-12"
    assert study.release("quarters").width == 3
    assert study.event_codes(study.release("months-in-poverty")) == (1,)
    assert run.log == "sqlite:poverty.db"
    assert study.attributes["work"].first_code == 0
    assert study.attributes["work"].carries


def test_studies_that_do_not_say_where_they_run_share_no_files(read):
    text = TEXT[: TEXT.index("[run]")]
    for name in ("poverty", "other"):
        _, run = read(changed('name = "poverty"', f'name = "{name}"', text))
        assert (run.log, run.public) == (f"sqlite:{name}.db", f"sqlite:{name}-public.db")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.01", Fraction(1, 100)),
        ("'1/30'", Fraction(1, 30)),
        ("1", Fraction(1)),
        ("1e-2", Fraction(1, 100)),
        ("0.1000000000000000055511151231257827", Fraction("0.1000000000000000055511151231257827")),
    ],
)
def test_numbers_are_the_fractions_that_were_written(read, text, value):
    releases = TEXT.replace("rho = 0.005", "rho = 1e-9").replace('"1/200"', "'1e-9'")
    study, _ = read(changed("rho = 0.01", f"rho = {text}", releases))
    assert study.rho == value
    assert study.delta == Fraction(1, 10**6)
    assert study.release("quarters").rho == Fraction(1, 10**9)


def test_budgets_add_up_exactly(read, faults):
    thirds = changed("rho = 0.005", "rho = '1/300'")
    thirds = thirds.replace('"1/200"', "'2/300'")
    study, _ = read(thirds)
    assert sum(r.rho for r in study.releases) == study.rho
    (line,) = faults(thirds.replace("'2/300'", "'2000000000001/300000000000000'"))
    assert line.startswith("releases: their rhos add up to 0.01, 3.33333e-15 more than study.rho")


def test_files_that_cannot_be_read(read, tmp_path):
    with pytest.raises(UserError, match="no such file; 'stream-dp new"):
        load_study(tmp_path / "nothing.toml")
    with pytest.raises(UserError, match="cannot be read"):
        load_study(tmp_path)
    with pytest.raises(UserError, match="not a TOML file"):
        read("[study")
    for name, data in (("latin.toml", b"# \xff"), ("answers.csv", b"person,month\n1,2021-01\n")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(UserError, match="a table of answers goes to 'stream-dp send"):
            load_study(tmp_path / name)


def test_the_environment_overrides_run(read, monkeypatch):
    monkeypatch.setenv("STREAM_DP_PUBLIC", "sqlite:public-here.db")
    monkeypatch.setenv("STREAM_DP_PARTITIONS", "4")
    _, run = read(TEXT)
    assert (run.log, run.public, run.partitions) == (
        "sqlite:poverty.db",
        "sqlite:public-here.db",
        4,
    )


def test_a_wrong_environment_is_named(read, monkeypatch):
    monkeypatch.setenv("STREAM_DP_PARTITIONS", "many")
    with pytest.raises(UserError, match=r"environment STREAM_DP_\*"):
        read(TEXT)


def test_a_release_that_does_not_exist_is_refused_with_those_that_do(read):
    study, _ = read(TEXT)
    with pytest.raises(UserError, match="quarters, months-in-poverty"):
        study.release("years")
