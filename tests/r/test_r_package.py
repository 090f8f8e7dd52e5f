"""The package for R: `R CMD check` has nothing to say, and its numbers are Python's."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from kit.kinds_of_releases import public_log_of, published
from kit.monitors import publish
from kit.tools import needs

import stream_dp
from stream_dp.client import PublicLog
from stream_dp.client import open as open_public
from stream_dp.log.message import read_messages
from stream_dp.services.commands.cli import main
from stream_dp.study.families import Kind
from stream_dp.study.topics import RELEASES

PACKAGE = Path(__file__).parents[2] / "r"
MONTHS = [f"2021-{month:02}" for month in range(1, 6)]
PEOPLE = 200


def study_of(*, size: bool) -> dict[str, Any]:
    """Quarters of poverty of a public or of a noisy number of households."""
    return {
        "study": {
            **{"name": "poverty", "description": "Poverty, simulated", "unit": "household"},
            **{"rho": 10, "delta": "1/1000000"},
            "neighbours": "replace_one" if size else "add_remove",
            "population": {"size": PEOPLE} if size else {},
            "periods": {"first": MONTHS[0], "every": "month", "count": len(MONTHS)},
        },
        "attributes": {"poverty": {"values": [0, 1], "missing": 0}},
        "releases": [
            {"name": "quarters", "kind": "window", "attribute": "poverty", "width": 3, "rho": 10}
        ],
    }


def exported(messages: Any, folder: Path, release: str, name: str) -> PublicLog:
    """A public log, of which a release is in a folder of this name in CSV."""
    log = folder / f"{name}-public.db"
    publish(log, list(read_messages(messages, RELEASES, "public log")))
    words = ["export", f"sqlite:{log}", release, str(folder / name), "--format", "csv"]
    assert main(words) == 0
    return open_public(f"sqlite:{log}")


def expected(public: PublicLog, release: str, queries: list[tuple[str, str]]) -> list[Any]:
    """What Python answers to queries together, and the last less the first, by measure."""
    found = []
    for measure in ("share", "count"):
        asked = [(release, query, period) for query, period in queries]
        joint = public.answers(asked, count=measure == "count")
        weights = np.stack([np.full(len(asked), 1 / len(asked)), np.arange(len(asked)) - 1.5])
        sums, change = joint.combined(weights), joint.difference(len(asked) - 1, 0)
        rows = [[a.value, a.standard_error, *a.ends] for a in sums.answers]
        found.append(
            {
                **{"measure": measure, "query": [q for q, _ in queries]},
                "period": [period for _, period in queries],
                "value": joint.values.tolist(),
                "standard_error": [answer.standard_error for answer in joint.answers],
                "interval": [answer.ends for answer in joint.answers],
                "covariance": joint.covariance.ravel().tolist(),
                "difference": [change.value, change.standard_error, *change.ends],
                "weights": weights.ravel().tolist(),
                "combined": np.array(rows).T.ravel().tolist(),
            }
        )
    return found


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Exports, and beside each the answers of Python."""
    folder = tmp_path_factory.mktemp("exports")
    rng = np.random.default_rng(1)
    reports = pa.table(
        {
            "person": [f"p{i}" for i in range(PEOPLE)] * len(MONTHS),
            "period": np.repeat(MONTHS, PEOPLE),
            "poverty": rng.integers(0, 2, PEOPLE * len(MONTHS)),
        }
    )
    queries = [
        (query, month)
        for query in ("pattern 1", "pattern 0 1 1", "at-least 2 of last 3 poverty=1")
        for month in MONTHS[2:]
    ]
    for name, size in (("quarters", True), ("open", False)):
        log = public_log_of(stream_dp.parse_study(study_of(size=size)), reports)
        public = exported(log, folder, "quarters", name)
        answers = json.dumps(expected(public, "quarters", queries))
        (folder / f"{name}.json").write_text(answers)
    public = exported(published(Kind.CUMULATIVE), folder, "answers", "totals")
    totals = [("total at-least 1", "2026-01"), ("total at-least 2", "2026-02")]
    (folder / "totals.json").write_text(json.dumps(expected(public, "answers", totals)))
    exported(published(Kind.SIZES), folder, "answers", "sizes")
    return folder


def has_packages(*names: str) -> bool:
    names_in_r = ", ".join(f'"{name}"' for name in names)
    script = f"quit(status = !all(c({names_in_r}) %in% rownames(installed.packages())))"
    return subprocess.run(["Rscript", "-e", script], check=False).returncode == 0


@needs("Rscript")
def test_r_cmd_check_finds_nothing(exports: Path, tmp_path: Path) -> None:
    if not has_packages("digest", "jsonlite", "ggplot2"):
        pytest.skip("R lacks r-cran-digest, r-cran-jsonlite or r-cran-ggplot2: run tests/tools")
    shutil.copytree(PACKAGE, tmp_path / "r")
    settings = {
        "STREAMDP_EXPORTS": str(exports),
        "_R_CHECK_SYSTEM_CLOCK_": "0",  # this would ask a time server
        "_R_CHECK_FORCE_SUGGESTS_": "false",
        "LC_ALL": "C.UTF-8",
    }

    def r(*words: str) -> str:
        done = subprocess.run(
            ["R", "CMD", *words],
            cwd=tmp_path,
            env=os.environ | settings,
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stdout + done.stderr
        for log in tmp_path.glob("*.Rcheck/tests/*.Rout.fail"):
            said += log.read_text("utf-8")
        assert done.returncode == 0, said
        return done.stdout

    r("build", "--no-manual", "--no-build-vignettes", "r")
    (built,) = (path.name for path in tmp_path.glob("streamdp_*.tar.gz"))
    said = r("check", "--no-manual", built)
    faults = [line for line in said.splitlines() if re.search(r"ERROR|WARNING|NOTE", line)]
    assert not faults, said
    assert said.rstrip().endswith("Status: OK")
    compared = (tmp_path / "streamdp.Rcheck" / "tests" / "numbers.Rout").read_text("utf-8")
    assert "\n40 answers compared\n" in compared  # of three releases, as shares and as counts


def test_its_version_and_authors_are_the_projects() -> None:
    lines = (PACKAGE / "DESCRIPTION").read_text("utf-8").splitlines()
    assert f"Version: {stream_dp.__version__}" in lines
    assert 'person("The stream-dp authors"' in "\n".join(lines)


def test_its_dependencies_are_packages_of_debian() -> None:
    """What `tests/tools` installs as r-cran-*; R itself brings stats and utils."""
    words = (PACKAGE / "DESCRIPTION").read_text("utf-8")
    named = set(re.findall(r"\w+", " ".join(re.findall(r"(?:Imports|Suggests): (.*)", words))))
    tools = (PACKAGE.parent / "tests" / "tools").read_text("utf-8")
    assert named - {"stats", "utils"} == set(re.findall(r"r-cran-(\w+)", tools))
