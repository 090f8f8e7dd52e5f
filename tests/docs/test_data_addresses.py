"""The benchmarks' data sets: made of the downloads that are named, and of no others."""

import hashlib
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"


@pytest.fixture(scope="module")
def data_sets():
    spec = importlib.util.spec_from_file_location("data_sets", ROOT / "benchmarks/data_sets.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "data_sets", module)
        spec.loader.exec_module(module)
        yield module


def test_another_content_is_refused(data_sets, tmp_path):
    (tmp_path / "one.csv").write_bytes(b"a\r\n")
    address = (tmp_path / "one.csv").as_uri()
    sha256 = hashlib.sha256(b"a\r\n").hexdigest()
    assert data_sets.as_it_is(data_sets.downloaded(address, sha256)) == b"a\n"
    with pytest.raises(ValueError, match=r"SHA-256 .* instead of 0"):
        data_sets.downloaded(address, "0")


def test_every_address_is_of_one_commit_and_every_data_set_has_a_licence(data_sets):
    for one in data_sets.DATA_SETS.values():
        assert one.licence
        for address, sha256 in one.downloads:
            assert any(len(part) == 40 for part in address.split("/"))
            assert len(sha256) == 64


def test_blocks_have_the_columns_that_count(data_sets):
    raw = b"GEOID,state,county,vtd,pop,pop_white,pop_nhpi\n1500,15,001,9,7,4,2\n"
    made = data_sets.blocks(raw)
    assert made == b"block,state,county,pop,pop_white,pop_nhpi\n1500,15,001,7,4,2\n"


def test_a_folder_takes_the_place_of_the_downloads(data_sets, tmp_path, monkeypatch):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "nist_ma2018.csv").touch()
    monkeypatch.setenv("BENCHMARK_DATA", str(tmp_path))
    assert data_sets.data_file("nist_ma2018.csv") == tmp_path / "deep" / "nist_ma2018.csv"
    with pytest.raises(SystemExit, match=r"no data set nist_ma2019\.csv: python benchmarks/"):
        data_sets.data_file("nist_ma2019.csv")


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared/data")
def test_the_folder_beside_the_project_has_them_all(data_sets):
    assert all(any(SHARED.rglob(name)) for name in data_sets.DATA_SETS)
