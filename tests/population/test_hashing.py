"""Hashes of ids, many at once: those that hashlib gives of each, whatever is kept in memory."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.arrivals import KEY

from stream_dp.population import id_index, report_decoding
from stream_dp.population.id_index import LONGEST, Fingerprints, KeptHashes
from stream_dp.population.report_decoding import Hasher


def array(ids):
    return pa.array(ids, pa.large_binary())


def digests(ids):
    """The halves of each hash, one by one."""
    hashes = [hashlib.blake2b(one, key=KEY, digest_size=16).digest() for one in ids]
    return [[int.from_bytes(h[:8]), int.from_bytes(h[8:])] for h in hashes]


HOSTILE = st.one_of(
    st.binary(max_size=3),
    st.sampled_from([b"a" * n + tail for n in (7, 8, 39, 40, 41) for tail in (b"", b"\0", b"b")]),
    st.sampled_from([b"", b"\0", b"\0\0", b"\xff" * 40, b"\xff" * 256, b"p1", b"p1\0", b"p1 "]),
    st.integers(0, 50).map(lambda n: b"person-%d" % n),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(HOSTILE, max_size=60), max_size=6), st.sampled_from([0, 2, 16, 1 << 19]))
def test_of_any_bytes_in_any_order_they_are_those_of_hashlib(batches, room):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_decoding, "_FEW", 0)
        patch.setattr(id_index, "KEPT", room)
        patch.setattr(id_index, "_FIRST_BITS", 3)
        hasher = Hasher(KEY)
        for ids in batches:
            assert hasher.hashes(array(ids)).tolist() == digests(ids)
            assert hasher.hashes(array([b"0", *ids, b"1"])[1:-1]).tolist() == digests(ids)


@pytest.mark.parametrize("rows", ["as they are", "none"])
def test_ids_that_fall_together_are_kept_apart(rows, monkeypatch):
    """If all ids fall into the first row, most find no row."""
    if rows == "none":
        monkeypatch.setattr(
            KeptHashes, "_first_rows", lambda self, keys: np.zeros(len(keys), np.int64)
        )
    hasher = Hasher(KEY)
    for size in (20, 500, 3000, 3000):
        ids = [b"person-%d" % (n % 2000) for n in range(size)]
        assert hasher.hashes(array(ids)).tolist() == digests(ids)
    kept = np.count_nonzero(hasher._kept._table[:, 0])
    assert kept == 8 if rows == "none" else 1950 < kept <= 2000


def test_those_that_are_kept_are_not_computed_again(monkeypatch):
    ids = [b"%036d" % n for n in range(5000)]
    hasher = Hasher(KEY)
    hasher.hashes(array(ids[:100]))
    hasher.hashes(array(ids))
    computed = []
    monkeypatch.setattr(Hasher, "_computed", lambda self, some: computed.extend(some) or [[0, 0]])
    assert hasher.hashes(array(ids[::-1])).tolist() == digests(ids[::-1])
    assert not computed


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(id_index, "KEPT", 1 << 12)
    kept, prints, rng = KeptHashes(), Fingerprints(KEY), np.random.default_rng(1)
    for start in range(0, 40_000, 1000):
        keys = prints.of(array([b"p%d" % n for n in range(start, start + 1000)]))
        hashes = rng.integers(0, 1 << 63, (1000, 2)).astype(np.uint64)
        kept.add(keys, hashes)
        answers, unknown = kept.find(keys)
        rows = np.delete(np.arange(1000), unknown)
        assert (answers[rows] == hashes[rows]).all()
    assert len(kept._table) == 1 << 13
    assert np.count_nonzero(kept._table[:, 0]) == 1 << 12


def test_fingerprints_are_those_of_the_equation():
    """However long the other ids of the column are."""
    prints = Fingerprints(KEY)
    ids = [b"", b"a", b"abcd", b"abcde", b"\xff" * LONGEST, b"p%08d" % 7]
    for one, found in zip(ids, prints.of(array(ids)).tolist(), strict=True):
        assert prints.of(array([one])).tolist() == [found]
        data = one.ljust(LONGEST, b"\0")
        words = [1, len(one), *(int.from_bytes(data[i : i + 4], "little") for i in range(0, 40, 4))]
        factors = np.vstack([prints._constant, prints._of_length, prints._of_words]).tolist()
        sums = [sum(w * f[k] for w, f in zip(words, factors, strict=True)) for k in range(4)]
        halves = [total % 2**64 >> 32 for total in sums]
        assert found == [halves[0] << 32 | halves[1] | 1, halves[2] << 32 | halves[3]]


def test_fingerprints_follow_the_key_alone():
    ids = array([b"p%d" % n for n in range(50)])
    assert (Fingerprints(KEY).of(ids) == Fingerprints(KEY).of(ids)).all()
    assert (Fingerprints(KEY).of(ids) != Fingerprints(b"x" * 32).of(ids)).all()


def test_of_each_length_the_bytes_are_distinguished():
    ids = [b"\0" * n for n in range(LONGEST + 1)]
    assert len(np.unique(Fingerprints(KEY).of(array(ids)), axis=0)) == len(ids)
