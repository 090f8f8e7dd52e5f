"""Snapshots: complete, named for their journal, beside those of others, in a folder or at a URL."""

import hashlib
import uuid
from contextlib import suppress

import pytest

from stream_dp.errors import Inconsistent, UserError
from stream_dp.population.population import Population
from stream_dp.services.storage.snapshots import Snapshots
from stream_dp.study import Attribute, DeclaredPopulation, Study, WindowRelease
from stream_dp.study.periods import Periods

STUDY = Study(
    name="kept",
    unit="person",
    neighbours="replace_one",
    rho="1/10",
    delta="1e-6",
    periods=Periods(first="1", every="step", count=5),
    population=DeclaredPopulation(size=7),
    attributes={"a": Attribute(values=(0, 1), missing=0)},
    releases=(WindowRelease(kind="window", name="w", attribute="a", width=1, rho="1/10"),),
)


@pytest.fixture(params=["folder", "file://", "memory://"])
def place(request, tmp_path):
    if request.param == "folder":
        return str(tmp_path / "deep" / "snapshots")
    if request.param == "file://":
        return f"file://{tmp_path}/snapshots"
    return f"memory://{uuid.uuid4()}"


def closed(periods):
    population = Population(STUDY)
    for _ in range(periods):
        population.close()
    return population


def test_what_is_written_is_read_and_loaded(place, tmp_path):
    snapshots = Snapshots(place, tmp_path).of("abc")
    snapshots.prepare()
    name, digest = snapshots.write(closed(2))
    assert name.startswith("abc-period-00002-")
    with snapshots.opened(name, digest) as file:
        assert hashlib.sha256(file.read()).hexdigest() == digest
    with snapshots.opened(name, digest) as file:
        assert Population.load(STUDY, file).period == 2
    assert not is_there(snapshots, "abc-period-00003-0.npz", digest)
    with pytest.raises(Inconsistent, match="not the bytes"):
        is_there(snapshots, name, "0" * 64)


def is_there(snapshots, name, digest):
    with snapshots.opened(name, digest) as file:
        return file is not None


def test_only_the_journals_own_snapshots_are_removed(place, tmp_path):
    mine, others = Snapshots(place, tmp_path).of("mine"), Snapshots(place, tmp_path).of("other")
    mine.prepare()
    old, new, theirs = mine.write(closed(1)), mine.write(closed(2)), others.write(closed(1))
    mine.keep({new[0]})
    assert not is_there(mine, *old)
    assert is_there(mine, *new)
    assert is_there(others, *theirs)


def test_a_users_file_stays(tmp_path):
    (tmp_path / "period-notes.csv").touch()
    snapshots = Snapshots(str(tmp_path), tmp_path).of("mine")
    snapshots.prepare()
    snapshots.keep(set())
    assert [path.name for path in tmp_path.iterdir()] == ["period-notes.csv"]


@pytest.mark.parametrize("call", ["os.fsync", "os.unlink", "os.rename"])
def test_a_crash_while_the_folder_is_tried_leaves_nothing_for_good(call, tmp_path, monkeypatch):
    snapshots = Snapshots(str(tmp_path / "kept"), tmp_path).of("mine")

    def crashed(*_arguments, **_named):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(call, crashed)
        with suppress(KeyboardInterrupt):
            snapshots.prepare()
    snapshots.prepare()
    assert list((tmp_path / "kept").iterdir()) == []


@pytest.mark.parametrize("wrong", ["nix://x", "/proc/nothing/here"])
def test_a_place_that_cannot_be_used_is_refused_before_anything_is_drawn(wrong, tmp_path):
    with pytest.raises(UserError, match="snapshots"):
        Snapshots(wrong, tmp_path).prepare()
