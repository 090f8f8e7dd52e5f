"""A witness on a cluster, of a study in files."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from kit.panels import StudyFolder, script

from stream_dp.errors import Inconsistent
from stream_dp.log import open_log
from stream_dp.log.log import Log
from stream_dp.services.storage.witness import Sight, Witness


@pytest.fixture
def place(tmp_path: Path) -> StudyFolder:
    place = StudyFolder(tmp_path / "place")
    for records in script():
        place.send(records)
    return place


def test_a_restored_pair_is_refused(kafka: str, place: StudyFolder, tmp_path: Path) -> None:
    prefix = f"w-{uuid.uuid4().hex[:12]}"

    @contextmanager
    def witness() -> Iterator[Log]:
        url = f"kafka://{kafka}/{prefix}"
        with closing(open_log(url, tmp_path, public=True, insecure=True, replication=1)) as log:
            yield log

    class Stop(Exception):
        pass

    def stop(name: str) -> None:
        if name == "cleaned":
            raise Stop

    with witness() as log, pytest.raises(Stop):
        place.run(witness=log, at=stop)
    older = shutil.copytree(place.folder, tmp_path / "older")
    with witness() as log:
        assert place.run(witness=log)
        assert Witness(log).sight == Sight.of(place.entries())
    shutil.rmtree(place.folder)
    shutil.copytree(older, place.folder)
    with witness() as log, pytest.raises(Inconsistent, match="an older backup was restored"):
        place.run(witness=log, moved=True)
