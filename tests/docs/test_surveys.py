"""The examples of surveys, on small files of the Census Bureau's formats."""

import csv
import re
import runpy
import shutil
from fractions import Fraction
from pathlib import Path

import pytest
from kit.commands import json_output
from kit.fork_server import run

from stream_dp.privacy.zcdp import epsilon
from stream_dp.services.commands.cli import main
from stream_dp.services.storage.deployment import Deployment

SIPP = Path(__file__).parents[2] / "examples" / "sipp"
PUMS = SIPP.with_name("pums")


def test_sipp_becomes_reports_that_all_count(tmp_path, capsys):
    lines = ["SPANEL|SSUID|PNUM|MONTHCODE|WPFINWGT|THINCPOVT2"]
    ratios = {"101": "0.99", "102": "1", "103": ""}
    lines += [
        f"2021|000114285134|{pnum}|{month}|1.5|{ratio}"
        for pnum, ratio in ratios.items()
        for month in range(1, 13)
    ]
    (tmp_path / "pu2021.csv").write_text("\n".join(lines) + "\n")
    shutil.copy(SIPP / "sipp.toml", tmp_path)
    done = run(SIPP / "reports.py", "pu2021.csv", "reports.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    header, *rows = (tmp_path / "reports.csv").read_text().replace('"', "").splitlines()
    assert header == "person,period,poverty"
    assert rows[0] == "000114285134-101,2020-01,1"
    assert rows[-1] == "000114285134-102,2020-12,0"
    assert len(rows) == 24

    study = str(tmp_path / "sipp.toml")
    assert main(["send", study, str(tmp_path / "reports.csv")]) == 0
    assert main(["close", study, "2020-12"]) == 0
    assert main(["run", study, "--until-idle"]) == 0
    assert "the horizon is reached" in capsys.readouterr().out


# Of each household: tenure, income, and of its people relation (RELSHIPP, RELP), age, sex, ESR.
HOMES = {
    "2023HU0000001": ("1", "60000", [("20", "00", "45", "1", "1"), ("21", "01", "44", "2", "3")]),
    "2023HU0000002": ("3", "", [("20", "00", "81", "2", "6"), ("36", "15", "30", "1", "4")]),
    "2023HU0000003": ("4", "-500", [("20", "00", "33", "2", "2"), ("26", "03", "7", "1", "")]),
}


def write_pums(folder, relation):
    """Files of the ACS PUMS: three households, a vacant unit, one too large, group quarters."""
    place = ["RELSHIPP", "RELP"].index(relation)
    houses, people = ["RT,SERIALNO,NP,TEN,HINCP,WGTP"], [f"RT,SERIALNO,SPORDER,{relation},AGEP,"]
    people[0] += "SEX,ESR,PWGTP"
    large = ("2", "9", [("20", "00", "50", "1", "1"), *[("36", "15", "20", "1", "1")] * 10])
    quarters = ("", "", [("38", "17", "19", "1", "6")])
    empty = ("", "", [])
    special = {"2023HU0000004": large, "2023GQ0000005": quarters, "2023HU0000006": empty}
    for serial, (tenure, income, members) in {**HOMES, **special}.items():
        houses.append(f"H,{serial},{len(members)},{tenure},{income},17")
        people += [
            f"P,{serial},{n},{m[place]},{','.join(m[2:])},9" for n, m in enumerate(members, 1)
        ]
    (folder / "h.csv").write_text("\n".join(houses) + "\n")
    (folder / "p.csv").write_text("\n".join(people) + "\n")


def pums_tables(folder):
    return run(PUMS / "tables.py", "h.csv", "p.csv", "out", cwd=folder)


def read_rows(file):
    return list(csv.DictReader(file.read_text("utf-8").splitlines()))


@pytest.mark.parametrize("relation", ["RELSHIPP", "RELP"])
def test_pums_becomes_tables_of_households(relation, tmp_path):
    write_pums(tmp_path, relation)
    done = pums_tables(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "3 households, 6 people; 1 larger households left out\n"
    out = tmp_path / "out"
    assert read_rows(out / "groups.csv") == [
        {"household": "2023HU0000001", "tenure": "owned", "income": "2"},
        {"household": "2023HU0000002", "tenure": "rented", "income": "0"},
        {"household": "2023HU0000003", "tenure": "rented", "income": "0"},
    ]
    members = read_rows(out / "members.csv")
    roles = ["head", "spouse", "head", "other", "head", "child"]
    assert [row["role"] for row in members] == roles
    assert members[5]["person"] == "2023HU0000003-2"
    reports = read_rows(out / "reports.csv")
    assert [row["age"] for row in reports] == ["4", "4", "8", "3", "3", "0"]
    assert [row["sex"] for row in reports] == ["male", "female", "female", "male", "female", "male"]
    work = ["employed", "unemployed", "not in labour force", "employed", "employed", "under 16"]
    assert [row["work"] for row in reports] == work
    assert Deployment.load(out / "pums.toml").study.size == 6


def released(tmp_path, more):
    """The study file of the tables of PUMS, once everything is sent and closed."""
    write_pums(tmp_path, "RELSHIPP")
    assert pums_tables(tmp_path).returncode == 0
    out = tmp_path / "out"
    study = out / "pums.toml"
    study.write_text(study.read_text("utf-8").replace('kind = "hpd-fixed"', more))
    tables = [str(out / f"{name}.csv") for name in ("groups", "members")]
    assert main(["groups", str(study), *tables, "--group", "household"]) == 0
    assert main(["send", str(study), str(out / "reports.csv")]) == 0
    assert main(["close", str(study), "2023"]) == 0
    return str(study)


def test_pums_begins_the_job_of_a_data_set(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("STREAM_DP_WORKER", "false")
    study = released(tmp_path, 'kind = "hpd-fixed"')
    assert main(["run", study, "--until-idle"]) == 0
    capsys.readouterr()
    (job,) = json_output(capsys, "jobs", study)["jobs"]
    assert (job["release"], job["state"]) == ("households", "waiting")
    counts = json_output(capsys, "status", study)["cells_at_last_cut"]
    assert (counts["received"], counts["accepted"]) == (18, 18)


@pytest.mark.slow
def test_pums_becomes_a_data_set(tmp_path, capsys):
    study = released(tmp_path, 'kind = "hpd-fixed"\nrows = 5\nrounds = 1\n')
    assert main(["run", study, "--until-idle"]) == 0
    assert main(["export", study, "households", str(tmp_path / "published")]) == 0
    assert "3 groups" in capsys.readouterr().out


HOUSE, PERSON = "RT,SERIALNO,NP,TEN,HINCP\n", "RT,SERIALNO,SPORDER,RELP,AGEP,SEX,ESR\n"


@pytest.mark.parametrize(
    ("homes", "people", "message"),
    [
        ("a,b\n1,2\n", "a,b\n1,2\n", "h.csv: no column HINCP, NP, SERIALNO, TEN"),
        (None, PERSON, "h.csv: there is no such file; give the ACS PUMS file of housing units"),
        (HOUSE, PERSON.replace("RELP,", ""), "p.csv: no column RELSHIPP or RELP: is it a file"),
        (HOUSE + "H,1,1,1,9\n", PERSON + "P,1,1,0,old,1,1\n", "p.csv: column AGEP holds something"),
        (HOUSE + "H,1,1,1,9\n", PERSON + "P,1,1,0\n", "p.csv: no CSV file, or cut off"),
        (HOUSE + "H,1,1,1,9\n", PERSON + "P,2,1,0,9,1,1\n", "nobody lives in the households of h"),
        ("", PERSON, "h.csv: no CSV file, or cut off"),
    ],
)
def test_pums_refuses_other_files_in_one_line(tmp_path, homes, people, message):
    for name, text in (("h.csv", homes), ("p.csv", people)):
        if text is not None:
            (tmp_path / name).write_text(text)
    done = pums_tables(tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def experiment_module(monkeypatch):
    monkeypatch.syspath_prepend(PUMS)
    return runpy.run_path(str(PUMS / "experiment.py"), run_name="experiment")


def test_the_experiment_ends_with_the_tables_fault(tmp_path, capfd, monkeypatch):
    module = experiment_module(monkeypatch)
    monkeypatch.chdir(tmp_path)
    assert module["experiment"]("h.csv", "p.csv", "out") == 2
    assert len(capfd.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("repetitions", ["0", "many", "-1", "1.5"])
def test_the_experiment_asks_for_a_number_before_it_writes(
    repetitions, tmp_path, capfd, monkeypatch
):
    module = experiment_module(monkeypatch)
    with pytest.raises(SystemExit) as ended:
        module["experiment"]("h.csv", "p.csv", str(tmp_path / "out"), repetitions)
    assert ended.value.code == 2
    line = f"REPETITIONS is '{repetitions}': give a whole number from 1 on\n"
    assert capfd.readouterr().err == line
    assert not (tmp_path / "out").exists()


SIPP_HEADER = "SSUID|PNUM|MONTHCODE|THINCPOVT2\n"


@pytest.mark.parametrize(
    ("script", "words", "message"),
    [
        (SIPP / "reports.py", [], "usage: reports.py pu2021.csv OUT.csv"),
        (SIPP / "reports.py", ["none.csv", "out.csv"], "none.csv: no such file"),
        (SIPP / "reports.py", ["other.csv", "out.csv"], "other.csv: no file of the SIPP"),
        (SIPP / "reports.py", ["secret.csv", "out.csv"], "secret.csv: no file of the SIPP"),
        (SIPP / "reports.py", ["right.csv", "none/out.csv"], "none/out.csv: cannot be written"),
        (PUMS / "tables.py", ["h.csv"], "usage: tables.py"),
        (PUMS / "simulate.py", ["out", "0"], "usage: simulate.py OUT [HOUSEHOLDS]"),
        (PUMS / "simulate.py", ["other.csv"], "other.csv: cannot be written"),
        (PUMS / "experiment.py", ["h.csv"], "usage: experiment.py"),
        (SIPP.with_name("run_a_study.py"), [], "usage: run_a_study.py FOLDER"),
        (SIPP.with_name("run_a_study.py"), ["none"], "usage: run_a_study.py FOLDER"),
        (SIPP.with_name("read_public_log.py"), [], "usage: read_public_log.py PUBLIC"),
        (SIPP.with_name("read_public_log.py"), ["none.db"], "log 'none.db': write it as"),
        (SIPP.with_name("read_public_log.py"), ["sqlite:none.db"], "none.db: no such log"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(script, words, message, tmp_path):
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "secret.csv").write_text(f"{SIPP_HEADER}1|1|1|s3cret\n")
    (tmp_path / "right.csv").write_text(f"{SIPP_HEADER}1|1|1|0.5\n")
    done = run(script, *words, cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert message in done.stderr
    assert "s3cret" not in done.stderr
    assert done.stdout == ""


def simulated(folder, households):
    """The files of the script that makes some, as the experiment's arguments."""
    done = run(PUMS / "simulate.py", folder, households)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_simulated_files_of_the_acs_become_a_study(tmp_path, capsys):
    """Group quarters and vacant units are left out; every household has one head."""
    homes, people = simulated(tmp_path, 200)
    done = run(PUMS / "tables.py", homes, people, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("200 households, ")
    roles = [row["role"] for row in read_rows(tmp_path / "out" / "members.csv")]
    assert roles.count("head") == 200
    assert 50 < roles.count("spouse") < 150
    assert roles.count("child") > 50
    assert main(["check", str(tmp_path / "out" / "pums.toml")]) == 0
    assert "households" in capsys.readouterr().out


@pytest.mark.slow
def test_the_experiment_on_simulated_files_prints_its_table(tmp_path, capsys, monkeypatch):
    module = experiment_module(monkeypatch)
    small = module["RELEASE"] + "rows = 5\nrounds = 1\n"
    monkeypatch.setitem(module["study_text"].__globals__, "RELEASE", small)
    monkeypatch.setitem(module["study_text"].__globals__, "EPSILONS", ("1",))
    assert module["experiment"](*simulated(tmp_path, 300), str(tmp_path / "out")) == 0
    printed = capsys.readouterr().out
    for name in ("groups", "people", "relations: spouse", "relations: child", "relations: parent"):
        assert re.search(rf"(?m)^{name}, [0-9,]+ queries +rho \S+$", printed), name
    assert re.search(r"(?m)^hpd-fixed: measurements +[0-9.]+ / [0-9.]+ \([0-9,]+\)", printed)
    assert re.search(r"in \d+ s, \d+ s of CPU", printed)
    assert {f.suffix for f in (tmp_path / "out" / "errors").iterdir()} > {".json"}


def test_the_experiment_on_pums_is_one_command(tmp_path, monkeypatch):
    """A study at eps 1 is judged at four budgets; nothing is fitted here."""
    module = experiment_module(monkeypatch)
    write_pums(tmp_path, "RELSHIPP")
    asked = []
    monkeypatch.setitem(module["experiment"].__globals__, "main", lambda words: asked.extend(words))
    monkeypatch.chdir(tmp_path)
    module["experiment"]("h.csv", "p.csv", "out", "2")
    study = Deployment.load(tmp_path / "out" / "experiment.toml").study
    assert [(r.name, r.kind) for r in study.batches] == [("hpd-fixed",) * 2]
    (rho,) = {release.rho for release in study.batches}
    scales = [Fraction(x) for x in asked[asked.index("--scales") + 1].split(",")]
    most = [0.1, 0.25, 0.5, 1]
    assert [float(epsilon(rho * s, Fraction(1, 36))) for s in scales] == pytest.approx(
        most, rel=1e-3
    )
    assert asked[:3] == ["evaluate", "out/experiment.toml", "out/reports.csv"]
    assert asked[asked.index("--repetitions") + 1] == "2"
