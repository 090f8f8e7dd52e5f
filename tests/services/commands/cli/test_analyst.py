"""`releases`, `export`, `estimate`, `verify`, and exit codes of the process."""

import csv
import json
import os
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet
import pyarrow.parquet as pq
import pytest
from kit import fork_server
from prometheus_client.parser import text_string_to_metric_families
from trial import MONTHS

from stream_dp.release.published_panels import ADVICE
from stream_dp.services.commands import cli

# releases, export, estimate, verify


def test_releases(source, stream_dp, as_json):
    output = as_json("releases", source)
    assert output["study"] == "poverty"
    names = [(r["release"], r["period"]) for r in output["releases"]]
    assert names == [
        ("months", "2021-01"),
        ("pairs", "2021-02"),
        ("months", "2021-02"),
        ("pairs", "2021-03"),
        ("months", "2021-03"),
    ]
    spent = [Fraction(r["rho_spent"]) for r in output["releases"]]
    assert spent == sorted(spent)
    assert spent[-1] == Fraction(3, 4)
    assert output["head"] == output["releases"][-1]["hash"]
    text = stream_dp("releases", source)
    assert text.startswith("study poverty: A small trial\n")
    assert text.rstrip().endswith(f"head {output['head']}")
    assert len(text.splitlines()) == 3 + len(names)


@pytest.mark.parametrize(("period", "columns"), [(None, 3), ("2021-02", 2)])
def test_export(source, stream_dp, as_json, tmp_path, period, columns):
    options = ["--period", period] if period else []
    out = stream_dp("export", source, "pairs", tmp_path / "panel.parquet", *options)
    table = pyarrow.parquet.read_table(tmp_path / "panel.parquet")
    assert table.column_names == ["row", *MONTHS[:columns]]
    assert f"{table.num_rows} synthetic rows, 2021-01 to {MONTHS[columns - 1]}" in out
    assert out.splitlines()[-1] == ADVICE
    output = as_json("export", source, "pairs", tmp_path / "panel.csv", *options)
    assert output["rows"] == table.num_rows
    assert output["panel_bias"].endswith(ADVICE)
    with (tmp_path / "panel.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(r["2021-01"]) for r in rows] == table["2021-01"].to_pylist()
    assert {r["2021-02"] for r in rows} <= {"0", "1"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none", "out.csv"], "release 'none': the study has no such release; it has pairs, month"),
        (["pears", "out"], "release 'pears': the study has no such release; it has pairs, months"),
        (["pairs", "out.xls"], "write it as .parquet, .csv or .xlsx"),
        (["pairs", "out", "--long"], "--long: goes with a file of a panel"),
        (["pairs", "out", "--measurements"], "--measurements: goes with a file of a panel"),
        (["pairs", "out", "--period", "2021-02"], "--period: of a panel goes with a file"),
        (["pairs", "out", "--bom"], "--bom: goes with a .csv file"),
        (["pairs", "out.parquet", "--separator", ";"], "--separator: goes with a .csv file"),
        (["pairs", "out.csv", "--format", "csv"], "--format: goes with a folder"),
        (["pairs", "no/where/out.csv"], "cannot be written"),
        (["pairs", "no/where/out.parquet"], "cannot be written"),
        (["pairs", "out.csv", "--period", "2021-01"], "none at period '2021-01'; it has 2021-02"),
        (["pairs", "out.csv", "--period", "x"], "none at period 'x'"),
    ],
)
def test_what_cannot_be_exported(source, stream_dp, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    assert message in stream_dp("export", source, *words, code=2)
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(("name", "sign"), [(",", ","), (";", ";"), ("tab", "\t")])
def test_csv_for_spreadsheets(source, stream_dp, tmp_path, name, sign):
    plain, out = tmp_path / "plain.csv", tmp_path / "sheet.csv"
    stream_dp("export", source, "pairs", plain)
    stream_dp("export", source, "pairs", out, "--separator", name, "--bom")
    assert not plain.read_bytes().startswith(b"\xef\xbb\xbf")
    assert out.read_bytes().startswith(b'\xef\xbb\xbf"row"')
    with plain.open(newline="") as file, out.open(newline="", encoding="utf-8-sig") as sheet:
        assert [*csv.reader(file)] == [*csv.reader(sheet, delimiter=sign)]


def test_a_folder_has_all_tables_with_their_descriptions(source, as_json, tmp_path):
    said = as_json("export", source, "pairs", tmp_path / "pairs")
    tables = {"panel.parquet", "measurements.parquet", "estimates.parquet"}
    assert {Path(path).name for path in said["out"]} == tables
    found = {path.name for path in (tmp_path / "pairs").iterdir()}
    documents = {Path(path).name for path in said["documents"]}
    assert found == tables | documents | {"series.csv", "covariance.parquet"}
    assert said["periods"] == [*MONTHS]
    panel = pq.read_table(tmp_path / "pairs" / "panel.parquet")
    assert panel.schema.metadata[b"stream-dp-release"].decode() == said["hash"]
    as_json("export", source, "pairs", tmp_path / "one.parquet")
    assert panel.equals(pq.read_table(tmp_path / "one.parquet"))
    again = as_json("export", source, "pairs", tmp_path / "pairs", "--format", "csv")
    assert [Path(path).suffix for path in again["out"]] == [".csv"] * 3


def test_measurements_and_long_tables(source, stream_dp, as_json, tmp_path):
    out = tmp_path / "noisy.parquet"
    said = as_json("export", source, "pairs", str(out), "--measurements")
    noisy = pq.read_table(out)
    assert noisy.column_names == ["period", "query", "value", "variance", "standard_error"]
    assert noisy.num_rows == said["rows"] > 0
    assert set(noisy["period"].to_pylist()) == {"2021-02", "2021-03"}
    first = tmp_path / "first.parquet"
    stream_dp("export", source, "pairs", str(first), "--measurements", "--period", "2021-02")
    assert set(pq.read_table(first)["period"].to_pylist()) == {"2021-02"}
    for name in ("wide", "long"):
        words = ["--long"] if name == "long" else []
        stream_dp("export", source, "pairs", str(tmp_path / f"{name}.parquet"), *words)
    wide, long = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("wide", "long"))
    assert long.column_names == ["row", "period", "first_day", "last_day", "value"]
    assert long.schema.field("value").type == wide.schema.field("2021-01").type
    assert long.num_rows == 3 * wide.num_rows
    february = long.filter(pc.equal(long["period"], "2021-02"))
    assert february["value"].to_pylist() == wide["2021-02"].to_pylist()
    assert {f"{day:%Y-%m-%d}" for day in february["first_day"].to_pylist()} == {"2021-02-01"}
    assert {f"{day:%Y-%m-%d}" for day in february["last_day"].to_pylist()} == {"2021-02-28"}
    assert {*long.to_pandas().dtypes[["first_day", "last_day"]].map(lambda t: t.kind)} == {"M"}


def test_all_estimates(source, stream_dp, as_json, tmp_path):
    said = as_json("estimates", source, str(tmp_path / "all.parquet"))
    table = pq.read_table(tmp_path / "all.parquet")
    assert table.num_rows == said["rows"]
    assert table.column_names[:4] == ["release", "period", "stratum", "query"]
    stream_dp("estimates", source, str(tmp_path / "one.csv"), "--release", "pairs")
    with (tmp_path / "one.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["query"] == "pattern 1 1"]
    answer = as_json("estimate", source, "pairs", "pattern 1 1")
    (last,) = [r for r in rows if r["period"] == "2021-03" and r["measure"] == "share"]
    assert float(last["value"]) == pytest.approx(answer["value"])
    assert float(last["high"]) == pytest.approx(answer["interval"][1])
    assert "write it as .parquet or .csv" in stream_dp("estimates", source, "all.txt", code=2)


def test_a_change_between_periods(source, stream_dp, as_json):
    words = ("estimate", source, "pairs", "pattern 1 1")
    change = as_json(*words, "--minus", "2021-02")
    last, first = as_json(*words), as_json(*words, "--period", "2021-02")
    assert (change["period"], change["minus"]) == ("2021-03", "2021-02")
    assert change["value"] == pytest.approx(last["value"] - first["value"])
    assert 0 < change["standard_error"] < last["standard_error"] + first["standard_error"]
    assert "less 2021-02 (count of households)" in stream_dp(
        *words, "--minus", "2021-02", "--count"
    )
    assert "none at period 'x'" in stream_dp(*words, "--minus", "x", code=2)


def test_answers_together(source, stream_dp, as_json):
    words = ("estimate", source, "pairs", "pattern 1 1")
    change = as_json(*words, "--minus", "2021-02")
    also = ("--also", "pairs", "pattern 1 1", "2021-02")
    two = as_json(*words, *also)
    assert two["difference"]["value"] == pytest.approx(change["value"])
    assert two["difference"]["standard_error"] == pytest.approx(change["standard_error"])
    errors = [answer["standard_error"] for answer in two["answers"]]
    assert np.sqrt(np.diag(two["covariance"])) == pytest.approx(errors)
    for answer in two["answers"]:
        low, high = answer["band"]
        assert high - low > 2 * 1.96 * answer["standard_error"]
    each = as_json(*words, "--each-period", "--count")
    assert [answer["period"] for answer in each["answers"]] == ["2021-02", "2021-03"]
    text = stream_dp(*words, *also)
    assert "the first over the second" in text
    assert "unbiased shares, standard errors" in text
    assert "least error" not in text
    assert "no such release" in stream_dp(*words, "--also", "x", "y", "2021-02", code=2)
    refused = stream_dp(*words, "--each-period", "--period", "2021-02", code=2)
    assert "--period: goes with one answer alone" in refused


def test_estimate(source, stream_dp, as_json):
    query = "at-least 1 of last 2 poverty=1"
    output = as_json("estimate", source, "pairs", query)
    assert output["query"] == query
    assert (output["period"], output["measure"]) == ("2021-03", "share")
    low, high = output["interval"]
    assert low < output["value"] < high
    assert output["standard_error"] > 0
    counted = as_json("estimate", source, "pairs", query, "--count", "--period", "2021-02")
    assert (counted["period"], counted["measure"]) == ("2021-02", "count")
    assert output == as_json("estimate", source, "pairs", query, "--share")
    text = stream_dp("estimate", source, "pairs", query)
    assert f"{query} at 2021-03 (share of all households)" in text
    assert f"{output['value']:.3%}" in text
    assert "95% interval" in text
    assert text.count("\n") == 4
    assert "  method  " in stream_dp("estimate", source, "pairs", query, "--long")
    # Nearly everybody has the event every month: of 60 places all but noise.
    total = as_json("estimate", source, "months", "total at-least 3", "--count")
    assert abs(total["value"] - 60) < 8 * total["standard_error"]


def test_estimate_lists_what_can_be_asked(source, stream_dp, as_json):
    everything = as_json("estimate", source)
    assert set(everything) == {"pairs", "months"}
    assert as_json("estimate", source, "months") == {"months": everything["months"]}
    text = stream_dp("estimate", source)
    for name, queries in everything.items():
        for query in queries:
            assert query in text
            as_json("estimate", source, name, query)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none"], "the study has no such release; it has pairs, months"),
        (["none", "pattern 1"], "the study has no such release; it has pairs, months"),
        (["pairs", "poor"], "not understood; write"),
        (["pairs", "pattern 2"], "'2' is no value; the values are 0, 1"),
        (["pairs", "pattern 1 1 1"], "looks at 3 periods and the release at 2"),
        (["pairs", "total at-least 1"], "ask a window release for a pattern"),
        (["months", "pattern 1"], "total at-least"),
        (["months", "total at-least 4"], "ask for 1 to 3 periods"),
        (["pairs", "pattern 1 1", "--period", "2021-01"], "and at 2021-01 there are 1 so far"),
    ],
)
def test_what_cannot_be_estimated(source, stream_dp, words, message):
    err = stream_dp("estimate", source, *words, code=2)
    assert message in err
    assert len(err.splitlines()) == 1


def test_verify(source, finished, stream_dp, as_json):
    output = as_json("verify", source)
    text = stream_dp("verify", source)
    assert text.rstrip().endswith(f"head {output['head']}")
    with_study = source.endswith(".toml")
    assert any("journal and public log agree" in line for line in output["verified"]) == with_study
    kept = as_json("releases", source)["releases"][1]["hash"]
    assert "kept elsewhere is in the chain" in stream_dp("verify", source, "--head", kept)
    err = stream_dp("verify", source, "--head", "0" * 64, code=4)
    assert "the hash kept elsewhere is not in its chain" in err


def test_verify_finds_a_changed_byte(finished, tmp_path, stream_dp):
    data = (finished / "public.db").read_bytes()
    # A name inside a manifest, so that the file is still a log.
    assert b"A small trial" in data
    (tmp_path / "changed.db").write_bytes(data.replace(b"A small trial", b"A large trial"))
    for words in (["verify"], ["releases"], ["estimate"]):
        err = stream_dp(words[0], f"sqlite:{tmp_path / 'changed.db'}", *words[1:], code=4)
        assert "message" in err


def test_verify_all_goes_on_after_what_fails(source, finished, as_json, tmp_path, capsys):
    verdict = as_json("verify", source, "--all")
    names = ["log", "journal"] if source.endswith(".toml") else ["log"]
    assert [(c["check"], c["holds"]) for c in verdict["checks"]] == [(n, True) for n in names]
    assert verdict["holds"] is True
    assert verdict["verified"] == [line for c in verdict["checks"] for line in c["lines"]]

    words = ["verify", source, "--all", "--head", "0" * 64, "--key", "ed25519:" + "0" * 64]
    assert cli.main([*words, "--json"]) == 4
    output = json.loads(capsys.readouterr().out)
    outcomes = {c["check"]: c["holds"] for c in output["checks"]}
    assert outcomes == {"log": True, "key": False, "head": False, **dict.fromkeys(names, True)}
    assert output["holds"] is False
    assert cli.main(words) == 4
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in said if "FAILS" in line] == [
        ["key:", "FAILS"],
        ["head:", "FAILS"],
    ]

    changed = (finished / "public.db").read_bytes().replace(b"A small", b"A large")
    (tmp_path / "changed.db").write_bytes(changed)
    assert cli.main(["verify", f"sqlite:{tmp_path / 'changed.db'}", "--all", "--json"]) == 4
    output = json.loads(capsys.readouterr().out)
    assert [(c["check"], c["holds"]) for c in output["checks"]] == [("log", False)]
    assert output["head"] is None


def verdict(path):
    families = text_string_to_metric_families(path.read_text("utf-8"))
    return {s.name.removeprefix("stream_dp_verify_"): s for f in families for s in f.samples}


def test_verify_writes_its_verdict_for_prometheus(source, stream_dp, as_json, tmp_path):
    path = tmp_path / "poverty.prom"
    started = time.time()
    output = as_json("verify", source, "--textfile", path)
    holds = verdict(path)
    assert {name: s.value for name, s in holds.items() if name != "timestamp_seconds"} == {
        "holds": 1,
        "exit_code": 0,
        "messages": 6,
        "info": 1,
    }
    assert started <= holds["timestamp_seconds"].value <= time.time()
    about = {"check": "poverty", "study": "poverty", "head": output["head"]}
    assert holds["info"].labels == about
    assert all(s.labels["check"] == "poverty" for s in holds.values())

    # The operator's side says no more than the public one.
    for extra, code in ((["--head", "0" * 64], 4), (["--key", "wrong"], 2)):
        stream_dp("verify", source, "--textfile", path, *extra, code=code)
        failed = {name: s.value for name, s in verdict(path).items()}
        assert failed.keys() == {"holds", "exit_code", "timestamp_seconds"}
        assert (failed["holds"], failed["exit_code"]) == (0, code)
    assert [file.name for file in tmp_path.glob("*prom*")] == ["poverty.prom"]


def test_a_verdict_that_cannot_be_written(source, stream_dp, tmp_path):
    missing = tmp_path / "none" / "poverty.prom"
    assert str(missing) in stream_dp("verify", source, "--textfile", missing, code=2)
    # What fails in the log comes first.
    words = ["--textfile", missing, "--head", "0" * 64]
    assert "not in its chain" in stream_dp("verify", source, *words, code=4)
    wrong = tmp_path / "poverty.txt"
    assert "name it as .prom" in stream_dp("verify", source, "--textfile", wrong, code=2)
    assert not wrong.exists()


@pytest.mark.parametrize("command", ["releases", "verify", "estimate"])
def test_public_logs_that_are_not_there(study, tmp_path, stream_dp, command):
    assert "no such log" in stream_dp(command, f"sqlite:{tmp_path / 'none.db'}", code=2)
    assert "write it as sqlite:FILE" in stream_dp(command, "postgres:x", code=2)
    assert "public.db" in stream_dp(command, study, code=2)
    err = stream_dp(command, tmp_path / "public.db", code=2)
    assert f"name a public log as sqlite:{tmp_path / 'public.db'}" in err
    (tmp_path / "notes.db").write_bytes(b"notes " * 1000)
    err = stream_dp(command, f"sqlite:{tmp_path / 'notes.db'}", code=2)
    assert "not a log of stream-dp" in err
    assert not (tmp_path / "public.db").exists()


def test_the_confidential_log_is_no_public_log(finished, stream_dp):
    err = stream_dp("releases", f"sqlite:{finished / 'poverty.db'}", code=2)
    assert "public log" in err


# As a process.


def process(*words, **options):
    return fork_server.run("-m", "stream_dp.services.commands.cli", *words, **options)


def test_exit_codes_of_the_process(finished, tmp_path):
    done = process("check", tmp_path / "none.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    done = process("verify", finished / "study.toml", "--head", "0" * 64)
    assert (done.returncode, done.stdout) == (4, "")
    done = process("releases", finished / "study.toml", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["study"] == "poverty"


def test_nothing_is_said_when_the_reader_leaves(finished):
    read, write_ = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "stream_dp.services.commands.cli", "releases"]
    done = subprocess.run(
        [*command, str(finished / "study.toml")], stdout=write_, stderr=subprocess.PIPE
    )
    os.close(write_)
    assert done.stderr == b""
    assert done.returncode == 1
