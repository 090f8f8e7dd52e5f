"""Data sets of a study that is closed in parts look at what they look at in one process."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet
import pytest
from kit.panels import fix_secrets
from kit.parts_of_tables import TEXTS, TablesFolder, TablesInParts


@pytest.fixture(autouse=True)
def _fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    fix_secrets(monkeypatch)


def closed(place: TablesFolder, most: int = 1 << 18) -> TablesFolder:
    """All periods, one after the other."""
    place.begin()
    how = {"aggregator": {"most": most}} if isinstance(place, TablesInParts) else {}
    for number in range(1, place.periods + 1):
        place.send(place.period(number))
        place.run(**how)
    return place


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(
    ("parts", "most"),
    [(8, 37), *(pytest.param(*p, marks=pytest.mark.slow) for p in ((1, 1000), (64, 1000)))],
)
def test_jobs_look_at_the_same_bytes_as_in_one_process(
    parts: int, most: int, name: str, folder: Path
) -> None:
    here = closed(TablesFolder(folder / "here", name=name))
    place = closed(TablesInParts(folder / "parts", name=name, parts=parts), most)
    assert here.jobs()
    assert place.outcome() == here.outcome()
    assert list(place.inputs().values()) == list(here.inputs().values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["groups", "sized", "places"])
def test_everything_that_is_written_is_encrypted_where_the_rest_is(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAM_DP_TEST_KEY", "0f" * 32)
    sealed = 'encryption = { env = "STREAM_DP_TEST_KEY" }'
    here = closed(TablesFolder(folder / "here", name=name))
    place = closed(TablesInParts(folder / "parts", name=name, run_more=sealed))
    assert place.outcome() == here.outcome()
    for data in (*place.inputs().values(), *(p.read_bytes() for p in place.parts_files())):
        assert data[:4] not in (b"PAR1", b"PK\x03\x04", b'{"ac')


def test_the_input_in_words(folder: Path) -> None:
    place = closed(TablesInParts(folder / "place", name="sized", parts=4))
    (last,) = (p for p in (place.folder / "homes-snapshots").glob("*-histories-2021-03-*people*"))
    table = pyarrow.parquet.read_table(last)
    assert table.column_names == ["sex", "work_1_ago", "work"]
    assert table.num_rows == 100  # those who never reported have the answers of nobody
