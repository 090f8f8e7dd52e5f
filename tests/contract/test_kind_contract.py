"""Every kind of release keeps the contract, and a part that is left out is named."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kit import kind_trial
from kit.kind_contract import CHECKS, FOLDER

from stream_dp.study.families import Family, Kind, Registry

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("part", list(CHECKS))
@pytest.mark.parametrize("kind", list(Kind))
def test_a_kind_keeps_the_contract(kind, part):
    CHECKS[part](kind)


@pytest.mark.parametrize("left_out", list(Family))
def test_a_table_without_a_family_is_refused(left_out):
    parts = {family: family.value for family in Family if family is not left_out}
    with pytest.raises(TypeError, match=f"^judges: no part for '{left_out}'$"):
        Registry("judges", Family, parts)


# A new kind of household, in the files that docs/how-to/add-a-kind.md names.
MEMBER = """    TRIED = (
        "tried",
        DataSetKind(
            family=Family.HOUSEHOLDS,
            about="A synthesizer for a trial.",
            mechanism="a mechanism for a trial",
            declaration="group_releases:BatchRelease",
            settings=(),
            relations=("replace_in_place",),
            measured=Measured.MARGINALS,
            faults="group_faults:grouped_faults",
            plan="groups.tried:planned_tried",
            fit="groups.tried:fit_tried",
            jax=False,
        ),
    )
"""
MODULE = '''"""A synthesizer for a trial: every attribute by itself."""

from .independent import fit_independent
from .workload.groups_plan import planned_independent


def planned_tried(study, release):
    return planned_independent(study, release)


def fit_tried(hierarchy, release, context):
    return fit_independent(hierarchy, release, context)
'''
ROW = "| `tried` | a trial | `every` or `at` |\n"
REDRAWN = (
    "    return fit_independent(hierarchy, release, context)",
    "    from stream_dp.privacy.noise import SeededNoise, system_entropy\n"
    "    from ..synthesizer import FitContext\n"
    "    fit_independent(hierarchy, release, context)\n"
    "    again = FitContext(SeededNoise(int.from_bytes(system_entropy(8), 'big')))\n"
    "    noisy = release.model_copy(update={'rho': release.rho / 10**6})\n"
    "    return fit_independent(hierarchy, noisy, again)",
)
# By the part that a check is to name: what stands in a file of the new kind, and in its place.
LEFT_OUT = {
    "nothing": ("", ""),
    "table, a field": ('            about="A synthesizer for a trial.",\n', ""),
    "about": ("A synthesizer for a trial.", ""),
    "title": ("a mechanism for a trial", ""),
    "relations": ('relations=("replace_in_place",)', "relations=()"),
    "fit": (MODULE, ""),
    "fit, its function": ("def fit_tried", "def fit_others"),
    "settings": ("settings=()", 'settings=("spread",)'),
    "planned": ("def planned_tried", "def planned_others"),
    "planned, half of it": (
        "(study, release)\n\n\ndef fit",
        "(study, release.model_copy(update={'rho': release.rho / 2}))\n\n\ndef fit",
    ),
    "certificate": (
        "    return fit_independent(hierarchy, release, context)",
        "    from dataclasses import replace\n"
        "    return replace(fit_independent(hierarchy, release, context), title='another')",
    ),
    "replay": REDRAWN,
    "answers": ("Measured.MARGINALS", "Measured.RESIDUALS"),
    "documentation": (ROW, ""),
}


def product_with(folder, replaced, by):
    """A copy of the product with the new kind, in which one text is another."""
    package = folder / "stream_dp"
    (package / "batch" / "groups").mkdir(parents=True)
    for inside in ("", "batch", "batch/groups"):
        for path in (FOLDER / inside).iterdir():
            if path.relative_to(FOLDER).as_posix() not in ("study", "batch", "batch/groups"):
                (package / inside / path.name).symlink_to(path)
    for path in FOLDER.glob("study/**/*.py"):
        target = package / path.relative_to(FOLDER)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(path.read_text("utf-8"), "utf-8")
    families = package / "study" / "families.py"
    text = families.read_text("utf-8")
    after = '    HPD_FIXED = "hpd-fixed", _HOUSEHOLDS\n'
    assert text.count(after) == 1
    text = text.replace(after, after + MEMBER.replace(replaced, by))
    families.write_text(text, "utf-8")
    if module := MODULE.replace(replaced, by):
        (package / "batch" / "groups" / "tried.py").write_text(module, "utf-8")
    page = folder / "docs" / "reference" / "releases.md"
    page.parent.mkdir(parents=True)
    rule = "|---|---|---|\n"
    text = (ROOT / "docs" / "reference" / "releases.md").read_text("utf-8")
    page.write_text(text.replace(rule, rule + ROW.replace(replaced, by), 1), "utf-8")
    return folder


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """By part that was left out, the first fault that the contract finds."""
    base = tmp_path_factory.mktemp("trial")
    folders = [product_with(base / part, replaced, by) for part, (replaced, by) in LEFT_OUT.items()]
    paths = [ROOT / "tests", ROOT / "docs" / "hooks"]
    done = subprocess.run(
        [sys.executable, "-B", "-m", kind_trial.__name__, "tried", *map(str, folders)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(LEFT_OUT, map(json.loads, done.stdout.splitlines()), strict=True))


def test_a_kind_touches_two_files(trial):
    assert trial["nothing"] is None


@pytest.mark.parametrize("part", [part for part in LEFT_OUT if part != "nothing"])
def test_a_part_that_is_left_out_is_named(trial, part):
    named, line = trial[part]
    assert named == part.partition(",")[0]
    if named == "table":
        assert "'about'" in line
