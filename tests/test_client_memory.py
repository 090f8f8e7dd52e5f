"""How much memory an analyst needs: a small multiple of the panel, however many periods it has."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit import public_logs

from stream_dp.client import PublicLog
from stream_dp.log.message import MAX_PART, message_records
from stream_dp.log.sqlite import SqliteLog
from stream_dp.privacy.noise import SeededNoise
from stream_dp.services.commands.cli import main
from stream_dp.studyfile import parse_study

PEOPLE, PERIODS = 100_000, 40
PANEL = PEOPLE * PERIODS  # bytes: a code is one
READ = 22 * MAX_PART  # one read of the log, and a message


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The public log of a panel of many periods."""
    head = {
        "name": "long",
        "unit": "person",
        "neighbours": "replace_one",
        "rho": 1,
        "delta": "1/1000000",
        "periods": {"first": "2021-01", "every": "month", "count": PERIODS},
        "population": {"size": PEOPLE},
    }
    release = {"name": "pairs", "kind": "window", "attribute": "poor", "width": 2, "rho": 1}
    attributes = {"poor": {"values": [0, 1], "missing": 0}}
    study = parse_study({"study": head, "attributes": attributes, "releases": [release]})
    truth = np.random.default_rng(1).integers(0, 2, (PEOPLE, PERIODS), np.uint8)
    path = tmp_path_factory.mktemp("long") / "public.db"
    with closing(SqliteLog(path, public=True)) as log:
        log.create({"releases": 1})
        for sent in public_logs.published(study, {"poor": truth}, SeededNoise(1)):
            log.append(
                message_records(sent, "releases", kind="k", source="s", content="c", time=None)
            )
    return path


@pytest.fixture
def peak() -> Iterator[Callable[..., int]]:
    """Bytes that a call has in memory at its worst: of Python and NumPy, and of Arrow."""

    def measured(call: Callable[..., Any], *words: Any) -> int:
        before = pa.default_memory_pool()
        pool = pa.proxy_memory_pool(before)
        pa.set_memory_pool(pool)
        tracemalloc.start()
        try:
            call(*words)
            return tracemalloc.get_traced_memory()[1] + int(pool.max_memory())
        finally:
            tracemalloc.stop()
            pa.set_memory_pool(before)

    return measured


def quietly(*words: object) -> None:
    assert main([str(word) for word in words]) == 0


def test_a_panel_takes_its_bytes_as_released_and_as_a_table(
    log: Path, peak: Callable[..., int]
) -> None:
    def look() -> None:
        with closing(SqliteLog(log, readonly=True)) as opened:
            public = PublicLog(opened)
        panel = public.panel("pairs")
        assert panel.symbols.shape == (PEOPLE, PERIODS)

    assert PANEL < peak(look) < 3 * PANEL + READ


@pytest.mark.parametrize(
    "words",
    [
        ("estimate", "pairs", "pattern 1 1"),
        ("estimate", "pairs", "pattern 1 1", "--period", "2021-06"),
        ("export", "pairs", "out.csv"),
        ("export", "pairs", "out.parquet"),
    ],
)
def test_commands_take_a_small_multiple_of_the_panel(
    words: tuple[str, ...],
    log: Path,
    peak: Callable[..., int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    command, *rest = words
    # Modules are imported and expressions compiled once.
    quietly("export", f"sqlite:{log}", "pairs", "small.csv", "--period", "2021-02")
    assert peak(quietly, command, f"sqlite:{log}", *rest) < 4 * PANEL + READ


@pytest.mark.parametrize("command", ["verify", "releases"])
def test_what_needs_no_panel_keeps_none(command: str, log: Path, peak: Callable[..., int]) -> None:
    quietly("releases", f"sqlite:{log}")
    assert peak(quietly, command, f"sqlite:{log}") < PANEL


def test_an_exported_file_has_every_row_once(log: Path, tmp_path: Path) -> None:
    quietly("export", f"sqlite:{log}", "pairs", tmp_path / "out.parquet", "--period", "2023-02")
    table = pq.read_table(tmp_path / "out.parquet")
    with closing(SqliteLog(log, readonly=True)) as opened:
        panel = PublicLog(opened).panel("pairs", "2023-02")
    assert table.column_names == ["row", *panel.periods]
    assert table["row"].to_pylist() == list(range(PEOPLE))
    exported = np.stack([table[label].to_numpy() for label in panel.periods], axis=1)
    assert np.array_equal(exported, panel.symbols)
