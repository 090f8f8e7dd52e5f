"""`close`, `run`, `status`, `rejected`: a study from its first day to its last."""

from fractions import Fraction

import pytest
from trial import MONTHS, STUDY, write

# close, run, status, rejected


def test_a_study_from_its_first_day_to_its_last(study, stream_dp, as_json):
    before = as_json("status", study)
    assert not (study.parent / "poverty.db").exists()
    assert before["begun"] is False
    assert before["open_period"] == "2021-01"
    assert before["waits_for"] == f"stream-dp close {study} 2021-01"
    assert (before["last_closed"], before["rho_spent"]) == (None, "0")
    assert "not begun" in stream_dp("status", study)
    assert stream_dp("rejected", study) == "CONFIDENTIAL\nnothing was rejected\n"

    out = stream_dp("run", study, "--until-idle")
    assert "2021-01 waits for: stream-dp close" in out
    assert "open period: 2021-01" in stream_dp("status", study)
    assert as_json("status", study)["begun"] is True
    err = stream_dp("estimate", study, "pairs", "pattern 1", code=2)
    assert "first answer for 2021-02, when that month is published" in err

    stream_dp("send", study, study.parent / "reports.csv")
    spent = []
    for month in MONTHS:
        assert month in stream_dp("close", study, month)
        out = stream_dp("run", study, "--until-idle")
        assert f"closed {month}" in out
        status = as_json("status", study)
        assert status["last_closed"] == month
        spent.append(Fraction(status["rho_spent"]))
        assert status["cells_at_last_cut"]["received"] == 300
    assert spent[0] < spent[1] < spent[2] == Fraction(3, 4)
    assert "the horizon is reached" in out
    assert (status["open_period"], status["waits_for"]) == (None, "nothing: the horizon is reached")
    text = stream_dp("status", study)
    assert text.startswith("CONFIDENTIAL\n")
    assert "300 received = 300 accepted + 0 superseded + 0 rejected + 0 pending" in text
    assert as_json("run", study, "--until-idle") == {"horizon_reached": True}


def test_closing_twice_is_harmless_and_a_later_period_closes_the_earlier_ones(
    study, stream_dp, as_json
):
    stream_dp("send", study, study.parent / "reports.csv")
    for month in ("2021-02", "2021-02", "2021-01"):
        assert as_json("close", study, month) == {"closed": month}
    out = stream_dp("run", study, "--until-idle")
    assert [line for line in out.splitlines() if line.startswith("closed")] == [
        "closed 2021-01",
        "closed 2021-02",
    ]
    assert as_json("status", study)["open_period"] == "2021-03"
    stream_dp("close", study, "2021-02")
    assert as_json("run", study, "--until-idle") == {"horizon_reached": False}
    assert [r["period"] for r in as_json("releases", study)["releases"]] == [
        "2021-01",
        "2021-02",
        "2021-02",
    ]


@pytest.mark.parametrize("period", ["2021-04", "2020-12", "January", "1", "", "2021-13"])
def test_an_unknown_period_cannot_be_closed(study, stream_dp, period):
    err = stream_dp("close", study, period, code=2)
    assert f"period '{period}': not one of the study's, 2021-01 to 2021-03" in err


def test_a_study_with_a_schedule_is_not_closed_by_hand(tmp_path, stream_dp, as_json):
    scheduled = STUDY.replace("count = 3\n", 'count = 3\nclose = "schedule"\nzone = "UTC"\n')
    path = write(tmp_path, scheduled)
    assert "closes by its schedule" in stream_dp("close", path, "2021-01", code=2)
    assert as_json("status", path)["waits_for"] == "its scheduled close"
    stream_dp("send", path, path.parent / "reports.csv")
    # Every close lies in the past of what was just sent: nothing counts, everything goes out.
    assert as_json("run", path, "--until-idle") == {"horizon_reached": True}
    stream_dp("verify", path)


def test_rejected_says_why_and_nothing_more(finished, stream_dp, as_json):
    study = finished / "study.toml"
    output = as_json("rejected", study)
    full = 10 * 3 * 2  # ten people too many
    assert output["rejected"] == {"period": 2, "value": 1, "full": full}
    assert output["confidential"] is True
    text = stream_dp("rejected", study)
    assert text.startswith("CONFIDENTIAL\n")
    assert f"{full} cells  full: no place in the population" in text
    assert "p1" not in text
    cells = as_json("status", study)["cells_at_last_cut"]
    assert cells["rejected"] == output["rejected"]
    assert cells["received"] == 70 * 3 * 2 + 4


def test_a_study_that_was_changed_is_refused(study, stream_dp):
    stream_dp("run", study, "--until-idle")
    study.write_text(STUDY.replace("rho = 0.25", "rho = 0.3"))
    for words in (["run", study, "--until-idle"], ["status", study], ["verify", study]):
        err = stream_dp(*words, code=4)
        assert "it has changed since its first record" in err
    # [run] is no part of it.
    study.write_text(STUDY + 'snapshots = "elsewhere"\n')
    stream_dp("run", study, "--until-idle")


@pytest.mark.parametrize("words", [["send", "reports.csv"], ["close", "2021-01"], ["run"]])
def test_a_log_that_is_something_else(study, stream_dp, words):
    (study.parent / "poverty.db").write_bytes(b"notes " * 1000)
    words = [study.parent / w if w.endswith(".csv") else w for w in words]
    assert "not a log of stream-dp" in stream_dp(words[0], study, *words[1:], code=2)


def test_a_log_in_a_folder_that_is_not_there(tmp_path, stream_dp):
    path = write(tmp_path, STUDY.replace("sqlite:poverty.db", "sqlite:data/poverty.db"))
    assert "data: no such folder" in stream_dp("run", path, "--until-idle", code=2)
    path = write(tmp_path, STUDY.replace("sqlite:poverty.db", "poverty.db"))
    assert "write it as sqlite:FILE" in stream_dp("run", path, "--until-idle", code=2)


def test_paths_are_relative_to_the_study_file_and_the_environment_overrides_them(
    study, stream_dp, monkeypatch, tmp_path_factory
):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("STREAM_DP_PUBLIC", f"sqlite:{elsewhere / 'other.db'}")
    stream_dp("run", study, "--until-idle")
    assert (elsewhere / "other.db").exists()
    assert (study.parent / "poverty.db").exists()
    assert not (study.parent / "public.db").exists()
    assert all(p.name.startswith("other.db") for p in elsewhere.iterdir())


def test_a_worker_of_a_study_without_data_sets_ends_well(study, stream_dp, as_json):
    assert "no data sets" in stream_dp("worker", study)
    assert as_json("worker", study) == {"stopped": False}
