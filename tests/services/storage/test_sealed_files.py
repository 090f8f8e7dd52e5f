"""Encrypted files: read as they were written, and only so."""

import hashlib
import io
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from stream_dp.errors import Inconsistent
from stream_dp.log.sealing import Keyring
from stream_dp.services.storage import file_stores
from stream_dp.services.storage.file_stores import InvalidSeal, open_sealed, write_sealed
from stream_dp.services.storage.snapshots import Snapshots

pytest.importorskip("cryptography")

OLD, NEW = "1" * 64, "2" * 64
KEYS = Keyring.of_text(OLD)
PIECE, TAG = 64, 16


@pytest.fixture
def sealed(tmp_path, monkeypatch):
    """Writes a file in pieces of PIECE bytes, of the content that is given to it."""
    monkeypatch.setattr(file_stores, "_CHUNK_SIZE", PIECE)

    def sealed(content, name="a.npz", keys=KEYS):
        path = tmp_path / name
        with path.open("wb") as file:
            digest = write_sealed(file, keys, name, lambda sink: sink.write(content))
        assert digest == hashlib.sha256(content).hexdigest()
        return path

    return sealed


def content_of(path, keys=KEYS, name="a.npz"):
    with open_sealed(path.open("rb"), keys, name) as file:
        return file.read()


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 10 * PIECE + 7])
def test_what_is_written_is_read_from_any_place(sealed, size):
    content = np.random.default_rng(size).bytes(size)
    path = sealed(content)
    assert content_of(path) == content
    with open_sealed(path.open("rb"), KEYS, "a.npz") as file:
        for start in range(0, size + 3, 13):
            file.seek(start)
            assert file.read(PIECE) == content[start : start + PIECE]
        assert file.seek(0, io.SEEK_END) == size


def test_archives_and_tables_are_written_and_read(sealed, tmp_path):
    arrays = {"a": np.arange(1000), "b": np.zeros(0)}
    table = pa.table({"x": range(500)})
    for save in (
        lambda file: np.savez(file, **arrays),
        lambda file: pyarrow.parquet.write_table(table, file),
    ):
        with (tmp_path / "f").open("wb") as file:
            write_sealed(file, KEYS, "a.npz", save)
        with open_sealed((tmp_path / "f").open("rb"), KEYS, "a.npz") as file:
            if zipfile.is_zipfile(file):
                file.seek(0)
                assert np.array_equal(np.load(file)["a"], arrays["a"])
            else:
                file.seek(0)
                assert pyarrow.parquet.read_table(file) == table


def test_the_file_shows_nothing_and_differs_each_time(sealed):
    first = sealed(b"income 7000" * 20).read_bytes()
    assert b"income" not in first
    assert first != sealed(b"income 7000" * 20).read_bytes()


HEAD = file_stores._HEADER_SIZE
CHANGES = {
    "cut off at a piece": lambda data: data[: HEAD + 2 * (PIECE + TAG)],
    "cut off inside": lambda data: data[:-5],
    "longer": lambda data: data + b"x",
    "swapped": lambda data: (
        data[:HEAD]
        + data[HEAD + PIECE + TAG : HEAD + 2 * (PIECE + TAG)]
        + data[HEAD : HEAD + PIECE + TAG]
        + data[HEAD + 2 * (PIECE + TAG) :]
    ),
    "a bit": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "salt": lambda data: data[: HEAD - 1] + b"~" + data[HEAD:],
    "empty": lambda data: b"",
    "plain": lambda data: b"income 7000",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_was_changed_does_not_open(sealed, change):
    path = sealed(b"income 7000" * 20)
    path.write_bytes(CHANGES[change](path.read_bytes()))
    with pytest.raises(InvalidSeal):
        content_of(path)


def test_neither_another_name_nor_another_key_opens_it(sealed):
    path = sealed(b"x" * 100)
    for keys, name in ((KEYS, "b.npz"), (Keyring.of_text(NEW), "a.npz")):
        with pytest.raises(InvalidSeal):
            content_of(path, keys, name)
    assert content_of(path, Keyring.of_text(f"{NEW} {OLD}")) == b"x" * 100


def test_snapshots_are_sealed_under_the_digest_of_their_content(tmp_path):
    plain, snapshots = (Snapshots("s", tmp_path, keys).of("abc") for keys in (None, KEYS))
    snapshots.prepare()
    first, other = (
        snapshots.store(what, ".npz", lambda file: file.write(b"income 7000") and None)
        for what in ("period-1", "period-2")
    )
    assert first[1] == other[1] == hashlib.sha256(b"income 7000").hexdigest()
    assert b"income" not in (tmp_path / "s" / first[0]).read_bytes()
    with snapshots.opened(*first) as file:
        assert file.read() == b"income 7000"
    (tmp_path / "s" / first[0]).write_bytes((tmp_path / "s" / other[0]).read_bytes())
    for reader, words in ((snapshots, "does not open with"), (plain, "not the bytes")):
        with pytest.raises(Inconsistent, match=words), reader.opened(*first):
            pass
