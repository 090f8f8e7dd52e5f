"""Data sets of a study that is closed in parts, its reports and tables on a real broker."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from kit.panels import fix_secrets
from kit.parts_of_tables import TablesFolder, TablesInParts


@pytest.mark.parametrize(
    "name",
    ["groups", *(pytest.param(n, marks=pytest.mark.slow) for n in ("places", "sized, too small"))],
)
def test_jobs_look_at_what_they_look_at_in_one_process(
    name: str, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix_secrets(monkeypatch)
    url = f"kafka://{kafka}/tables-{uuid.uuid4().hex[:12]}"
    here = TablesFolder(tmp_path / "here", name=name)
    place = TablesInParts(tmp_path / "parts", name=name, kafka=url, parts=4)
    for one in (here, place):
        one.begin()
        for number in range(1, one.periods + 1):
            one.send(one.period(number))
        one.run()
    assert place.outcome() == here.outcome()
    assert list(place.inputs().values()) == list(here.inputs().values())
    assert here.jobs()
