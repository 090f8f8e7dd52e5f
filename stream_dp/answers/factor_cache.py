"""A cache of factors on disk, beside a public log, so that a long study is solved once.

All that a stream's questions share depends only on what is published up to a message, the head, so
the hash of the head names its file. Files contain numbers and nothing else. A file counts if it
belongs to the user who asks, nobody else may write to it, and it has the hash that it begins with;
otherwise its numbers are computed anew. Where the folder cannot be written to, nothing is cached
and no error is raised.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np
from scipy.linalg import solve_triangular

from .blocks import Floats, Ints

_FORM = "2"  # of a file; another one has another name
_HASH = 32  # bytes
_OTHERS_WRITE = 0o022


@dataclass(frozen=True, eq=False)
class Factor:
    """The Cholesky factor of S in units of its diagonal, for a full-rank subset of the equalities.

    rows: (rank,) the equalities of the subset
    sizes: (rank,) the roots of their variances
    lower: (rank, rank) the factor
    gap: (rank,) the inverse factor times f - G u0, how far the blocks' own estimates miss them
    """

    rows: Ints
    sizes: Floats
    lower: Floats
    gap: Floats

    @staticmethod
    def of(rows: Ints, sizes: Floats, lower: Floats, missed: Floats) -> Factor:
        """missed: f - G u0, of all equalities"""
        gap = solve_triangular(lower, missed[rows] / sizes, lower=True)
        return Factor(rows, sizes, lower, np.asarray(gap))

    def solved(self, right: Floats) -> Floats:
        """The inverse factor times (equalities, m): (rank, m)."""
        scaled = right[self.rows] / self.sizes[:, None]
        return np.asarray(solve_triangular(self.lower, scaled, lower=True))

    def numbers(self) -> Floats:
        """Rows, sizes, gap, and the factor's rows up to the diagonal: rank (rank + 7) / 2."""
        below = self.lower[np.tri(self.rows.size, dtype=bool)]
        return np.concatenate([self.rows.astype(np.float64), self.sizes, self.gap, below])


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
        """The factor in the file; None without one that counts.

        size: the number of equalities of the system
        """
        most = _HASH + 8 * size * (size + 7) // 2
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as file:
                facts = os.fstat(handle)
                if facts.st_uid != os.geteuid() or facts.st_mode & _OTHERS_WRITE:
                    return None
                data = file.read(most + 1)
        except OSError:
            return None
        own, count = data[_HASH:], (len(data) - _HASH) // 8
        # r rows, sizes and gaps, and r (r + 1) / 2 numbers of the factor.
        rank = int(np.sqrt(max(0, 8 * count + 49)) - 7) // 2
        fits = len(own) == 4 * rank * (rank + 7) and len(data) <= most
        if rank < 1 or not fits or hashlib.sha256(own).digest() != data[:_HASH]:
            return None
        numbers = np.frombuffer(own, "<f8")
        lower = np.zeros((rank, rank))
        lower[np.tri(rank, dtype=bool)] = numbers[3 * rank :]
        rows, sizes, gap = numbers[: 3 * rank].reshape(3, rank)
        return Factor(rows.astype(np.int64), sizes, lower, gap)

    def write(self, factor: Factor) -> None:
        """Replaces the stream's cached factor. A folder that cannot be written to is no error."""
        with suppress(OSError):
            self.folder.mkdir(exist_ok=True)
            with NamedTemporaryFile(dir=self.folder, suffix=".part", delete=False) as file:
                data = factor.numbers().astype("<f8").tobytes()
                file.write(hashlib.sha256(data).digest() + data)
            Path(file.name).replace(self._path)
            for older in self.folder.glob(f"{self._prefix}*.factor"):
                if older != self._path:
                    older.unlink(missing_ok=True)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
