"""A cache of factors on disk, beside a public log: a long study is solved once.

The factor of a stream depends only on the messages up to the head, so the hash of the head names
the file. Files contain only numbers. A file is valid if it belongs to the user, nobody else may
write to it, and its body has the hash at its beginning; otherwise the factor is computed anew.
If the folder cannot be written to, nothing is cached and no error is raised.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np
import scipy

from .blocks import Floats, Ints

_FORM = "2"  # of a file, part of the name
_HASH = 32  # bytes
_OTHERS_WRITE = 0o022


@dataclass(frozen=True, eq=False)
class Factor:
    """The Cholesky factor of S in units of its diagonal, for a full-rank subset of the equalities.

    rows: (rank,) the equalities of the subset
    sizes: (rank,) the roots of their variances
    lower: (rank, rank) the factor
    gap: (rank,) the inverse factor times f - G u0, the miss of the blocks' separate estimates
    """

    rows: Ints
    sizes: Floats
    lower: Floats
    gap: Floats

    @staticmethod
    def of(rows: Ints, sizes: Floats, lower: Floats, missed: Floats) -> Factor:
        """missed: f - G u0, of all equalities"""
        gap = scipy.linalg.solve_triangular(lower, missed[rows] / sizes, lower=True)
        return Factor(rows, sizes, lower, np.asarray(gap))

    def solved(self, right: Floats) -> Floats:
        """The inverse factor times (equalities, m): (rank, m)."""
        scaled = right[self.rows] / self.sizes[:, None]
        return np.asarray(scipy.linalg.solve_triangular(self.lower, scaled, lower=True))

    def numbers(self) -> Floats:
        """Rows, sizes, gap, and the factor's rows up to the diagonal: rank (rank + 7) / 2."""
        triangle = self.lower[np.tri(self.rows.size, dtype=bool)]
        return np.concatenate([self.rows.astype(np.float64), self.sizes, self.gap, triangle])


@dataclass(frozen=True)
class FactorCache:
    """The file of a stream's factor.

    folder: of all cached factors of a log
    stream: the name of the stream
    head: the hash of the last message
    """

    folder: Path
    stream: str
    head: str

    @property
    def _path(self) -> Path:
        return self.folder / f"{self._prefix}{_hash(self.head)}.factor"

    @property
    def _prefix(self) -> str:
        return f"{_hash(_FORM + self.stream)}-"

    def read(self, size: int) -> Factor | None:
        """Reads the factor, or None without a valid file.

        size: the number of equalities of the system
        """
        limit = _HASH + 8 * size * (size + 7) // 2
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as file:
                facts = os.fstat(handle)
                if facts.st_uid != os.geteuid() or facts.st_mode & _OTHERS_WRITE:
                    return None
                data = file.read(limit + 1)
        except OSError:
            return None
        body, count = data[_HASH:], (len(data) - _HASH) // 8
        # r rows, sizes and gaps, and r (r + 1) / 2 numbers of the factor.
        rank = int(np.sqrt(max(0, 8 * count + 49)) - 7) // 2
        fits = len(body) == 4 * rank * (rank + 7) and len(data) <= limit
        if rank < 1 or not fits or hashlib.sha256(body).digest() != data[:_HASH]:
            return None
        numbers = np.frombuffer(body, "<f8")
        lower = np.zeros((rank, rank))
        lower[np.tri(rank, dtype=bool)] = numbers[3 * rank :]
        rows, sizes, gap = numbers[: 3 * rank].reshape(3, rank)
        return Factor(rows.astype(np.int64), sizes, lower, gap)

    def write(self, factor: Factor) -> None:
        """Replaces the stream's cached factor; does nothing if the folder cannot be written to."""
        with suppress(OSError):
            self.folder.mkdir(0o755, exist_ok=True)
            with NamedTemporaryFile(dir=self.folder, suffix=".part", delete=False) as file:
                data = factor.numbers().astype("<f8").tobytes()
                file.write(hashlib.sha256(data).digest() + data)
            Path(file.name).replace(self._path)
            for older in self.folder.glob(f"{self._prefix}*.factor"):
                if older != self._path:
                    older.unlink(missing_ok=True)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
