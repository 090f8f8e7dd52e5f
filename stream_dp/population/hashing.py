"""The keyed hash that stands for a person in every stored state."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .kept_hashes import LONGEST, Fingerprints, KeptHashes

_FEW = 16  # fewer ids are hashed without a look-up, which would take longer


class Hasher:
    """Keyed BLAKE2b (RFC 7693) of 128 bits. key: secret."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._fingerprints, self._kept = Fingerprints(key), KeptHashes()

    def hashes(self, ids: pa.Array) -> NDArray[np.uint64]:
        """Returns the two halves of the hash of every id, (n, 2).

        ids: an array of `large_binary` without nulls.
        """
        if len(ids) < _FEW:
            return self._computed(ids.to_pylist())
        keepable = pc.less_equal(pc.binary_length(ids), LONGEST)
        if pc.all(keepable).as_py():
            return self._looked_up(ids)
        hashes, keep = np.empty((len(ids), 2), np.uint64), keepable.to_numpy(zero_copy_only=False)
        hashes[keep] = self._looked_up(ids.filter(keepable))
        hashes[~keep] = self._computed(ids.filter(pc.invert(keepable)).to_pylist())
        return hashes

    def _looked_up(self, ids: pa.Array) -> NDArray[np.uint64]:
        """Returns hashes like `hashes`, for ids of at most LONGEST bytes."""
        keys = self._fingerprints.of(ids)
        hashes, unknown = self._kept.find(keys)
        if unknown.size:
            new = self._computed(ids.take(pa.array(unknown)).to_pylist())
            hashes[unknown] = new
            self._kept.add(keys[unknown], new)
        return hashes

    def _computed(self, ids: Sequence[bytes]) -> NDArray[np.uint64]:
        start = hashlib.blake2b(key=self._key, digest_size=16).copy
        digests = []
        for person_id in ids:
            state = start()
            state.update(person_id)
            digests.append(state.digest())
        return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64).reshape(-1, 2)
