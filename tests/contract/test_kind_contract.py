"""Every kind of release keeps the contract, and a part that is left out is named."""

import shutil

import pytest
from kit import kind_contract
from kit.kind_contract import CHECKS, FOLDER
from kit.product_trial import first_faults

from stream_dp.study.families import Family, Kind, Registry


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
            faults="data_set_faults:grouped_faults",
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
# A new kind of people: every column by itself, whose announcements are true.
OF_PEOPLE = """    TRIED = (
        "tried",
        replace(
            _PEOPLE,
            about="A synthesizer for a trial.",
            mechanism="a mechanism for a trial",
            settings=(),
            plan="people.tried:planned_tried",
            fit="people.tried:fit_tried",
            learns=False,
        ),
    )
"""
MODULE_OF_PEOPLE = '''"""A synthesizer for a trial: every column of people by itself."""

from ..planned_phases import FitPlan
from .all_pairs import NUMBER
from .pair_filter import residual_phase
from .people_plan import PeoplePlan, Steps, _counting, single_columns
from .people_synthesizer import fit_plan
from .people_table import study_people
from .planned_people import people_phases
from .residual_counts import all_residuals
from .tree_model import OF_FEW_PAIRS, TreeModel


def columns_plan(domain, release):
    workload = all_residuals(domain, 1, 1 << 20)
    counting, before = _counting(workload, release)
    rho = (1 - NUMBER * domain.moves) * release.rho
    singles = residual_phase(workload, single_columns(domain), rho, before=before)
    tree = TreeModel(workload, (), (), solver=OF_FEW_PAIRS)
    steps = Steps(release.data_set.mechanism, (singles,), tree=tree)
    return PeoplePlan(workload, (), lambda people: steps, domain.size, counting)


def fit_tried(people, release, context):
    return fit_plan(people, columns_plan(people.domain, release), context)


def planned_tried(study, release):
    plan = columns_plan(study_people(study, release), release)
    return FitPlan(plan.titles, lambda: people_phases(plan, release))
'''
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
    "fit": (MODULE, ""),
    "fit, its function": ("def fit_tried", "def fit_others"),
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
    "phases, done": (
        "    return planned_independent(study, release)",
        "    from dataclasses import replace\n"
        "    from ..planned_phases import FitPlan\n"
        "    plan = planned_independent(study, release)\n"
        "    halves = [replace(phase, rho=phase.rho / 2) for phase in plan.phases * 2]\n"
        "    return FitPlan(plan.titles, lambda: halves)",
    ),
    # In the table, with which the product is loaded anew.
    "table, a field": ('            about="A synthesizer for a trial.",\n', ""),
    "about": ("A synthesizer for a trial.", ""),
    "title": ("a mechanism for a trial", ""),
    "relations": ('relations=("replace_in_place",)', "relations=()"),
    "settings": ("settings=()", 'settings=("spread",)'),
    "answers": ("Measured.MARGINALS", "Measured.RESIDUALS"),
    "keys, done": ("settings=()", 'settings=("ways",)'),
}
# False announcements of the kind of people: what a fit never does, by the part that is to fail.
FALSE = {
    "nothing": ("", ""),
    "titles, done": ("settings=()", 'settings=("rounds",)'),
    "charges, done": ("settings=()", 'settings=("fuse", "first")'),
    "charges, done: panels": ("learns=False", "learns=True"),
}


def product_with(folder, replaced, by, room="groups", member=MEMBER, module=MODULE):
    """A copy of the product with the new kind, in which one text is another."""
    package = folder / "stream_dp"
    (package / "batch" / room).mkdir(parents=True)
    for inside in ("", "batch", f"batch/{room}"):
        for path in (FOLDER / inside).iterdir():
            if path.relative_to(FOLDER).as_posix() not in ("study", "batch", f"batch/{room}"):
                (package / inside / path.name).symlink_to(path)
    shutil.copytree(FOLDER / "study", package / "study")  # with what Python has compiled
    families = package / "study" / "families.py"
    text = families.read_text("utf-8")
    after = '    HPD_FIXED = "hpd-fixed", _HOUSEHOLDS\n'
    assert text.count(after) == 1
    assert replaced in member + module
    text = text.replace(after, after + member.replace(replaced, by))
    families.write_text(text, "utf-8")
    if module := module.replace(replaced, by):
        (package / "batch" / room / "tried.py").write_text(module, "utf-8")
    return folder


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """By part that was left out, the first fault that the contract finds."""
    base = tmp_path_factory.mktemp("trial")
    folders = [product_with(base / part, *change) for part, change in LEFT_OUT.items()]
    return dict(zip(LEFT_OUT, first_faults(kind_contract.__name__, "tried", folders), strict=True))


def test_a_kind_touches_two_files(trial):
    assert trial["nothing"] is None


@pytest.mark.parametrize("part", [part for part in LEFT_OUT if part != "nothing"])
def test_a_part_that_is_left_out_is_named(trial, part):
    named, line = trial[part]
    assert part in (named, f"{named}, its function", f"{named}, half of it", f"{named}, a field")
    if named == "table":
        assert "'about'" in line


def test_a_false_announcement_is_named(tmp_path):
    """A kind of people announces mechanisms, charges or panels that its fit does not know."""
    of_people = {"room": "people", "member": OF_PEOPLE, "module": MODULE_OF_PEOPLE}
    folders = [product_with(tmp_path / part, *FALSE[part], **of_people) for part in FALSE]
    for part, fault in zip(
        FALSE, first_faults(kind_contract.__name__, "tried", folders), strict=True
    ):
        named = "nothing" if fault is None else fault[0]
        assert named == part.partition(":")[0], fault
