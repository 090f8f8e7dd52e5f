"""The keyed hash by which people are known in every state that is written."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

# Ids whose hashes are kept in memory, at about 200 bytes each. With more people than this none are:
# of so many, few would be there when they are needed again.
KEPT = 1 << 17


class Hasher:
    """Keyed BLAKE2b (RFC 7693) of 128 bits. key: secret."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._kept: dict[bytes, bytes] | None = {}

    def hashes(self, ids: Sequence[bytes]) -> NDArray[np.uint64]:
        """The hash of each id, as its two halves, (n, 2)."""
        flat = np.frombuffer(b"".join(self._digests(ids)), ">u8").astype(np.uint64)
        return flat.reshape(-1, 2)

    def _digests(self, ids: Sequence[bytes]) -> list[bytes]:
        kept = self._kept
        if kept is None:
            return self._computed(ids)
        digests = list(map(kept.get, ids))
        if None in digests:
            new = [one for one, digest in zip(ids, digests, strict=True) if digest is None]
            kept.update(zip(new, self._computed(new), strict=True))
            digests = list(map(kept.get, ids))
            if len(kept) > KEPT:
                self._kept = None
        return cast(list[bytes], digests)

    def _computed(self, ids: Sequence[bytes]) -> list[bytes]:
        start = hashlib.blake2b(key=self._key, digest_size=16).copy
        digests = []
        for one in ids:
            state = start()
            state.update(one)
            digests.append(state.digest())
        return digests
