"""A fit by JAX that is killed: its worker is a process of its own, which is never forked."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from kit import fork_server
from kit.households import LABELS, TEXT, HouseholdFolder, edit, handed_in, results
from kit.killed import in_memory

from stream_dp.services.intake.markers import close_marker
from stream_dp.study.topics import RESULTS

pytest.importorskip("jax")

ROUNDS = 4
RECORDS = 1 + 1 + ROUNDS  # the seed, the opening, the picks
HPD = (
    TEXT.replace('"independent"', f'"hpd-fixed"\nrows = 20\nrounds = {ROUNDS}')
    .replace('at = ["2021-02"]', "every = 3")
    .replace("count = 3", "count = 4")
    + "worker = false\n"
)
MONTHLY = (
    TEXT.replace('"independent"', '"hpd-fixed"\nrows = 5\nrounds = 1\nways = 2').replace(
        'at = ["2021-02"]', "every = 1"
    )
    + "worker = false\n"
)
FIT = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from kit.households import HouseholdFolder, NotedNoise, dying
note = lambda line: print(line, flush=True)
homes = HouseholdFolder(Path({folder!r}), Path({folder!r}, "homes.toml").read_text())
homes.work(source=NotedNoise(note), at=dying({call}, {name!r}, note))
"""


def fit(homes: HouseholdFolder, name: str = "", call: int = 0) -> tuple[int, list[str]]:
    """A worker's exit code, and its steps and draws; it dies at that call (from 0) of a step."""
    tests, folder = str(Path(__file__).parents[1]), str(homes.folder)
    command = FIT.format(tests=tests, folder=folder, call=call, name=name)
    # What one process compiled, the next one loads.
    kept = {
        "JAX_COMPILATION_CACHE_DIR": str(homes.folder.parent / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    done = fork_server.run("-c", command, env={**kept, **os.environ})
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode, done.stdout.split()


@pytest.fixture
def homes() -> Iterator[HouseholdFolder]:
    with in_memory() as folder:
        yield HouseholdFolder(folder / "homes", HPD).prepare()


def published(homes: HouseholdFolder) -> list[tuple[str, str]]:
    certificates = [d.certificate for d in homes.public().published]
    return [(c.release, c.period) for c in certificates]


def test_a_killed_fit_goes_on_from_its_transcript(homes: HouseholdFolder) -> None:
    assert not homes.run()
    panels = [("pairs", LABELS[1]), ("pairs", LABELS[2])]
    assert published(homes) == panels

    code, _ = fit(homes, "recorded", 3)
    assert code == -signal.SIGKILL
    before = homes.rounds()
    assert len(before) == 4
    assert handed_in(homes) == 0

    # Panels go on meanwhile.
    homes.send([close_marker(4, 0)])
    assert not homes.run()
    panels.append(("pairs", "2021-04"))
    assert published(homes) == panels

    code, steps = fit(homes)
    assert code == 0
    assert steps.count("draw") == steps.count("pick") == steps.count("round") == RECORDS - 4
    assert steps.count("progress") == RECORDS - 1
    after = homes.rounds()
    assert {name: after[name] for name in before} == before
    assert homes.written().total() == len(after) == RECORDS
    assert handed_in(homes) == 1

    # The whole transcript makes the same data set again, to the byte, and nothing is drawn.
    twin = HouseholdFolder(homes.folder.parent / "twin", HPD)
    shutil.copytree(homes.folder, twin.folder, dirs_exist_ok=True)
    edit(twin, "DELETE FROM records WHERE topic = ?", RESULTS)
    code, steps = fit(twin)
    assert (code, steps.count("draw"), steps.count("pick")) == (0, 0, 0)
    assert results(twin) == results(homes)

    assert homes.run()
    assert homes.run()
    assert published(homes) == [*panels, ("households", LABELS[2])]
    assert homes.public().data_set("households").certificate.notes["rounds"] == 1 + ROUNDS
    homes.public().verify()


def test_a_killed_fit_of_a_later_month_uses_the_months_before(homes: HouseholdFolder) -> None:
    """The third month has two ancestors, whose charges its certificate counts."""
    of_each = 1 + 1 + 1  # the seed, the opening, a round
    months = HouseholdFolder(homes.folder.parent / "months", MONTHLY).prepare()
    assert not months.run()
    code, _ = fit(months, "recorded", 2 * of_each)  # the seed of the third month
    assert code == -signal.SIGKILL
    assert handed_in(months) == 2
    before = months.rounds()
    code, steps = fit(months)
    assert (code, steps.count("draw")) == (0, of_each - 1)
    assert {name: months.rounds()[name] for name in before} == before

    twin = HouseholdFolder(homes.folder.parent / "twin", MONTHLY)
    shutil.copytree(months.folder, twin.folder, dirs_exist_ok=True)
    edit(twin, "DELETE FROM records WHERE topic = ?", RESULTS)
    code, steps = fit(twin)
    assert (code, steps.count("draw"), steps.count("pick")) == (0, 0, 0)
    assert results(twin) == results(months)

    months.run()
    months.run()
    public = months.public()
    public.verify()
    each = Fraction(1, 10)
    for number, label in enumerate(LABELS):
        certificate = public.data_set("households", label).certificate
        assert certificate.ancestors == dict.fromkeys(LABELS[:number], each)
        assert certificate.rho == each
        assert ("errors" in certificate.notes) == (number > 0)
        assert "fuse" not in certificate.parameters
    spent = [one.certificate.rho_spent for one in public.published]
    assert spent[-1] == Fraction(1, 5) + 3 * each  # of the panel, too
    answer = public.answer("households", "work=1")
    assert answer.standard_error is not None
    assert answer.fused is None
