"""The witness as an object in a bucket: one of two releasers wins, and kills are no fault."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from kit.object_store import ObjectStore, object_store
from kit.panels import StudyFolder
from kit.stops import Stop, killed_at, stop_at

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.log import Fenced, Record
from stream_dp.services.storage.witness import WITNESS, Sight, Witness, WitnessObject
from stream_dp.study.topics import RELEASES

pytest.importorskip("s3fs", reason="needs the extra s3: pip install '.[s3]'")
pytest.importorskip("moto", reason="needs a server that speaks S3: pip install '.[test]'")


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with object_store() as started:
        yield started


@pytest.fixture
def url(server: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    for name, value in server.environment.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    server.create("kept")
    return f"s3://kept/{tmp_path.name}/witness"


def run_until(place: StudyFolder, url: str, step: str) -> None:
    with pytest.raises(Stop):
        place.run(witness=WitnessObject(url), at=stop_at(step))


# The other steps are in test_witness.py: the releaser takes them with any witness.
@pytest.mark.parametrize("step", ["witnessed", "committed"])
def test_a_kill_is_no_fault(step: str, sent: StudyFolder, url: str) -> None:
    killed_at(lambda at: sent.run(witness=WitnessObject(url), at=at), step)
    before = sent.rows(RELEASES) if sent.public_db.exists() else []
    assert sent.run(witness=WitnessObject(url))
    assert sent.rows(RELEASES)[: len(before)] == before
    assert Witness(WitnessObject(url)).sight == Sight.of(sent.entries())


def test_a_restored_pair_is_refused(sent: StudyFolder, url: str, tmp_path: Path) -> None:
    run_until(sent, url, "cleaned")
    older = shutil.copytree(sent.folder, tmp_path / "older")
    assert sent.run(witness=WitnessObject(url))
    shutil.rmtree(sent.folder)
    shutil.copytree(older, sent.folder)
    with pytest.raises(Inconsistent, match="an older backup was restored"):
        sent.run(witness=WitnessObject(url), moved=True)


def test_one_of_two_releasers_wins(url: str) -> None:
    """Both have read the same sight; the second to advance it is fenced, and has not written."""
    sights = [Sight("a" * 64, 2, head * 64) for head in "bc"]
    first, second = WitnessObject(url), WitnessObject(url)
    for start in (None, Sight("a" * 64, 1, "a" * 64)):
        one, other = Witness(first), Witness(second)
        assert one.sight == other.sight == start
        winner = Sight("a" * 64, 1, "a" * 64) if start is None else sights[0]
        advance(first, winner)
        with pytest.raises(Fenced, match="another process has advanced it"):
            advance(second, sights[1])
        assert Witness(WitnessObject(url)).sight == winner


def advance(log: WitnessObject, sight: Sight) -> None:
    log.commit([Record(WITNESS, msgspec.json.encode(sight), partition=0)])


def test_a_copy_that_has_drawn_at_the_same_time_publishes_nothing(
    sent: StudyFolder, url: str, tmp_path: Path
) -> None:
    run_until(sent, url, "cut")
    twin = StudyFolder(tmp_path / "twin", sent.text)
    shutil.copytree(sent.folder, twin.folder, dirs_exist_ok=True)
    public: list[object] = []

    def at(name: str) -> None:
        if name == "committed" and not public:
            assert twin.run(witness=WitnessObject(url), moved=True)
            public.extend(sent.rows(RELEASES))

    with pytest.raises(Fenced):
        sent.run(witness=WitnessObject(url), at=at)
    assert sent.rows(RELEASES) == public


def test_a_bucket_that_is_not_there_is_one_line(url: str) -> None:
    with pytest.raises(UserError, match="there is no such bucket"):
        Witness(WitnessObject("s3://nowhere/witness"))


def test_a_damaged_object_is_refused(url: str) -> None:
    log = WitnessObject(url)
    log.read("witness", {0: 0}, 1, 0)
    log._object.replace(b"no number")
    with pytest.raises(Inconsistent, match="its object is damaged"):
        Witness(WitnessObject(url))
