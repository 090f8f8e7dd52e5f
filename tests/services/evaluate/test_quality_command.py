"""`stream-dp evaluate` on releases of groups: what is judged, what is written, what is refused."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from kit.households import LABELS, PERIODS, TEXT, HouseholdFolder, reports, roster
from kit.killed import in_memory

from stream_dp.batch import kinds
from stream_dp.population.tables import TableLayout
from stream_dp.services.commands import cli
from stream_dp.services.evaluate import (
    error_figures,
    groups_trials,
    table_evaluations,
)
from stream_dp.services.evaluate import evaluate as evaluating
from stream_dp.services.evaluate import repeated_panels as repetitions
from stream_dp.services.evaluate.table_report import Quality
from stream_dp.services.intake.true_panel import true_panel_and_members

PAIRS = TEXT[TEXT.index('[[releases]]\nname = "pairs"') : TEXT.index('[[releases]]\nname = "hous')]
ALONE = TEXT.replace(PAIRS, "")
KEYS = ("--group", "household", "--member-group", "home")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process, and no baseline that is compiled."""
    monkeypatch.setattr(repetitions, "cores", lambda: 1)
    monkeypatch.setattr(groups_trials, "find_spec", lambda name: None)


def write_truth(path: Path) -> None:
    """Everybody's reports as a table."""
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["person", "period", "income", "work"])
        for number in range(1, PERIODS + 1):
            for record in reports(number):
                report = json.loads(record.value or b"")
                rows.writerow([report["person"], report["period"], *report["values"].values()])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The study, the answers of all members and of one more, and the files of groups."""
    homes = roster()
    (tmp_path / "mixed.toml").write_text(TEXT)
    (tmp_path / "homes.toml").write_text(ALONE)
    write_truth(tmp_path / "truth.csv")
    regions = [f"h{i:03d},{r}" for i, r in enumerate(homes.attributes["region"])]
    (tmp_path / "groups.csv").write_text("\n".join(["household,region", *regions]) + "\n")
    of = [f"{p},h{g:03d}" for p, g in zip(homes.persons, homes.group_of, strict=True)]
    (tmp_path / "members.csv").write_text("\n".join(["person,home", *of[::-1]]) + "\n")
    return tmp_path


@pytest.fixture
def evaluate(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Runs the command in the folder; gives its output, or its error message."""
    monkeypatch.chdir(folder)

    def run(study: str, *words: object, code: int = 0, files: bool = True) -> str:
        given = ("--groups", "groups.csv", "--members", "members.csv", *KEYS) if files else ()
        assert cli.main(["evaluate", study, "truth.csv", *given, *map(str, words)]) == code
        out, err = capsys.readouterr()
        if code:
            assert out == ""
            assert "Traceback" not in err
        return str(err if code else out)

    return run


# What is judged


def test_the_population_is_what_a_snapshot_holds() -> None:
    """Of the same reports, by the releaser and from the table of truth."""
    with in_memory() as place:
        homes = HouseholdFolder(place / "homes").prepare()
        homes.run()
        (groups,) = (homes.folder / "homes-snapshots").glob("*-job-*-groups-*")
        (people,) = (homes.folder / "homes-snapshots").glob("*-job-*-people-*")
        table = place / "truth.csv"
        write_truth(table)
        study = homes.setting.study
        known, members = true_panel_and_members(study, table, TableLayout(), roster())
        (release,) = study.batches or ()
        hierarchy = table_evaluations.hierarchy(
            study, release, known=known, members=members, number=2
        )
        kept = pyarrow.parquet.read_table(people)
        assert hierarchy.people.tolist() == list(
            map(list, zip(kept["income"].to_pylist(), kept["work"].to_pylist(), strict=True))
        )
        assert hierarchy.group_of.tolist() == kept["group"].to_pylist()
        kept = pyarrow.parquet.read_table(groups)
        assert hierarchy.groups.T.tolist() == [kept["region"].to_pylist(), kept["size"].to_pylist()]


def judged(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What reaches the evaluation, instead of it."""
    seen: list[Any] = []

    def instead(
        hierarchy: Any, releases: Any, repetitions: int, *, seed: int, progress: Any
    ) -> list[Quality]:
        seen.append((hierarchy, releases, repetitions, seed, progress))
        return [
            Quality(
                method="m",
                budget=label,
                answer="data set",
                queries="people",
                number=1,
                greatest=0.5,
                mean=0.1,
            )
            for label, _ in releases
        ]

    monkeypatch.setattr(table_evaluations, "evaluate_data_sets", instead)
    return seen


def test_missing_answers_and_those_before_count(
    evaluate: Callable[..., str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a period of silence: the attribute's symbol for it, or the last answer."""
    seen = judged(monkeypatch)
    text = ALONE.replace('missing = "absent"', 'missing = { carry = true, first = "low" }')
    (folder / "carried.toml").write_text(text)
    rows = (folder / "truth.csv").read_text().splitlines()
    spoken = {
        row.split(",")[0]: row.split(",")[2] for row in rows if row.split(",")[1] == LABELS[0]
    }
    (folder / "truth.csv").write_text("\n".join(r for r in rows if LABELS[1] not in r) + "\n")
    evaluate("homes.toml")
    assert (seen[-1][0].people == [2, 0]).all()  # absent, and 0 of work
    evaluate("carried.toml")
    incomes = seen[-1][0].people[:, 0].tolist()
    assert incomes == [["low", "high"].index(spoken[p]) for p in roster().persons]


@pytest.mark.parametrize(("words", "number"), [([], 2), (["--at", LABELS[2]], 3)])
def test_at_the_last_due_close_or_another(
    evaluate: Callable[..., str], monkeypatch: pytest.MonkeyPatch, words: list[str], number: int
) -> None:
    seen = judged(monkeypatch)
    result = json.loads(evaluate("homes.toml", *words, "--json"))
    assert result["releases"][0]["period"] == LABELS[number - 1]
    values = [json.loads(record.value or b"") for record in reports(number)]
    work = {report["person"]: report["values"]["work"] for report in values}
    assert seen[0][0].people[:, 1].tolist() == [work[p] for p in roster().persons]


def test_repetitions_and_scales(
    evaluate: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = judged(monkeypatch)
    evaluate("homes.toml")
    evaluate("homes.toml", "--repetitions", "1", "--scales", "0.5,1,2", "--seed", "7")
    (_, once, five, seed, _), (_, three, one, seven, _) = seen
    assert (five, seed, one, seven) == (evaluating.FITS, 0, 1, 7)
    assert [(label, str(b.rho)) for label, b in once] == [("rho 0.1", "1/10")]
    assert [label for label, _ in three] == ["rho 0.05", "rho 0.1", "rho 0.2"]
    assert [str(b.rho) for _, b in three] == ["1/20", "1/10", "1/5"]


# What is said and written


def test_a_study_of_groups_only(evaluate: Callable[..., str]) -> None:
    out = evaluate("homes.toml", "--repetitions", "2")
    assert out.startswith("CONFIDENTIAL")
    assert "households (independent) at 2021-02: 12 groups" in out
    assert re.search(r"^people, \d+ queries +rho 0.1$", out, re.M)
    assert "DISAGREE" not in out
    result = json.loads(evaluate("homes.toml", "--repetitions", "2", "--json"))
    assert result["confidential"] is True
    (release,) = result["releases"]
    assert (release["groups"], release["repetitions"]) == (12, 2)
    assert {q["queries"] for q in release["quality"]} == {"groups", "people"}
    assert len(release["each"]) == 2 * len(release["quality"])


def test_a_study_of_both(evaluate: Callable[..., str], folder: Path) -> None:
    out = evaluate("mixed.toml", "--repetitions", "2", "--scales", "1,2", "--out", "out")
    assert "pairs (window" in out
    assert "households (independent)" in out
    assert re.search(r"^groups, \d+ queries +rho 0.1 +rho 0.2$", out, re.M)
    written = {path.name for path in (folder / "out").iterdir()}
    assert {"quality.txt", "quality.json", "households-quality.svg"} <= written
    assert {"evaluation.json", "sweep.txt", "error-by-rho.svg"} <= written
    assert all(f"wrote {Path('out') / name}" in out for name in written)
    assert (folder / "out" / "quality.txt").read_text().startswith("CONFIDENTIAL")
    result = json.loads(evaluate("mixed.toml", "--repetitions", "2", "--json"))
    assert set(result) == {"evaluation", "quality"}
    both = json.loads((folder / "out" / "quality.json").read_text())
    assert both["releases"][0]["budgets"] == {"rho 0.1": "1/10", "rho 0.2": "1/5"}


def test_a_crash_leaves_no_report_that_looks_finished(
    evaluate: Callable[..., str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While figures are drawn: no folder, or the report that was there before."""
    judged(monkeypatch)
    words = ("homes.toml", "--out", "out")
    write = error_figures.write_pictures

    def crash(figures: Any, folder: Path) -> None:
        write(figures, folder)
        raise KeyboardInterrupt

    with monkeypatch.context() as crashing:
        crashing.setattr(error_figures, "write_pictures", crash)
        evaluate(*words, code=130)
        assert not (folder / "out").exists()
    evaluate(*words)
    names = {"quality.txt", "quality.json", "households-quality.svg"}
    assert {path.name for path in (folder / "out").iterdir()} == names
    before = {path: path.read_bytes() for path in (folder / "out").iterdir()}
    with monkeypatch.context() as crashing:
        crashing.setattr(error_figures, "write_pictures", crash)
        evaluate(*words, "--seed", "1", code=130)
    assert {path: path.read_bytes() for path in (folder / "out").iterdir()} == before
    evaluate(*words, "--seed", "1")
    assert {path.name for path in (folder / "out").iterdir()} == names
    assert json.loads((folder / "out" / "quality.json").read_text())["releases"][0]["seed"] == 1


def test_a_crash_between_files_leaves_no_text_beside_other_figures(
    evaluate: Callable[..., str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged(monkeypatch)
    words = ("homes.toml", "--out", "out")
    evaluate(*words)
    (folder / "out" / "notes.md").write_text("mine")
    replace = Path.replace

    def crash(self: Path, target: Path) -> Path:
        replace(self, target)
        raise KeyboardInterrupt

    with monkeypatch.context() as crashing:
        crashing.setattr(Path, "replace", crash)
        evaluate(*words, "--seed", "1", code=130)
    left = {path.name for path in (folder / "out").iterdir()}
    assert left == {"households-quality.svg", "notes.md"}


def test_the_reading_of_the_truth_is_shown(
    evaluate: Callable[..., str], capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    words = ["evaluate", "homes.toml", "truth.csv", "--groups", "groups.csv"]
    words += ["--members", "members.csv", *KEYS, "--repetitions", "1"]
    assert cli.main([*words, "--reading", "read.toml"]) == 0
    assert "read as follows\nstream-dp:   column" in capsys.readouterr().err
    assert cli.main([*words, "--reading", "read.toml", "--quiet"]) == 0
    assert "read as follows" not in capsys.readouterr().err
    truth = folder / "truth.csv"
    truth.write_text(truth.read_text().replace(",work", ",job", 1))
    assert "is not read as read.toml says" in evaluate(
        *("homes.toml", "--reading", "read.toml", "--columns", "job=work"), code=2
    )


def test_the_same_seed_says_the_same(evaluate: Callable[..., str]) -> None:
    words = ("homes.toml", "--repetitions", "1", "--json")
    assert evaluate(*words) == evaluate(*words)
    assert evaluate(*words) != evaluate(*words, "--seed", "1")


# What is refused


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["homes.toml"], "give --groups FILE --members FILE, and --group COL"),
        (["homes.toml", "--groups", "groups.csv"], "give --groups FILE --members FILE"),
        (["homes.toml", "--repetitions", "0"], "--repetitions: give at least 1"),
        (["mixed.toml", "--repetitions", "1"], "--repetitions: give at least 2"),
        (["homes.toml", "--seed", "-1"], "--seed: "),
        (["homes.toml", "--scales", "1,two"], "--scales: write numbers"),
        (["homes.toml", "--scales", "1/0"], "--scales: write numbers"),
        (["homes.toml", "--scales", "0"], "--scales: give numbers above 0"),
        (["homes.toml", "--at", "2022-01"], "--at: '2022-01': not one of the study's, 2021-01"),
    ],
)
def test_wrong_words(evaluate: Callable[..., str], words: list[str], message: str) -> None:
    err = evaluate(*words, files=False, code=2)
    assert message in err
    assert len(err.splitlines()) == 1


def test_words_of_groups_for_a_study_without(evaluate: Callable[..., str], folder: Path) -> None:
    plain = re.sub(r"\[groups\].*?(?=\[\[releases\]\])", "", TEXT, flags=re.S)
    plain = plain[: plain.index('[[releases]]\nname = "households"')]
    (folder / "plain.toml").write_text(plain)
    err = evaluate("plain.toml", "--at", LABELS[0], files=False, code=2)
    assert "--at: goes with data sets, and the study has none" in err


def test_a_truth_without_values_is_said_not_to_be_evaluated(
    evaluate: Callable[..., str], folder: Path
) -> None:
    (folder / "truth.csv").write_text("person,period,income,work\n")
    assert "truth.csv: holds no values; nothing of it is evaluated" in evaluate(
        "homes.toml", code=2
    )


def test_a_member_of_whom_the_truth_says_nothing(
    evaluate: Callable[..., str], folder: Path
) -> None:
    rows = (folder / "truth.csv").read_text().splitlines()
    gone = set(roster().persons[:3])
    (folder / "truth.csv").write_text(
        "\n".join(row for row in rows if row.split(",")[0] not in gone) + "\n"
    )
    err = evaluate("homes.toml", code=2)
    assert f"truth.csv: 3 of {len(roster().persons)} members of groups are not in it" in err
    assert not any(p in err for p in gone)


def test_faults_of_the_files_of_groups(evaluate: Callable[..., str], folder: Path) -> None:
    assert "no column 'house'" in evaluate("homes.toml", "--group", "house", code=2)
    lines = (folder / "groups.csv").read_text().splitlines()
    (folder / "groups.csv").write_text("\n".join(lines[:-1]) + "\n")
    assert "members of no group in groups.csv" in evaluate("homes.toml", code=2)


def test_a_kind_that_needs_what_is_not_there(
    evaluate: Callable[..., str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_spec = kinds.find_spec
    monkeypatch.setattr(kinds, "find_spec", lambda n: None if n == "jax" else find_spec(n))
    (folder / "homes.toml").write_text(ALONE.replace('"independent"', '"hpd-fixed"'))
    err = evaluate("homes.toml", code=2)
    assert "kind 'hpd-fixed' needs JAX; in a clone of stream-dp: pip install '.[batch]'" in err
    assert len(err.splitlines()) == 1
