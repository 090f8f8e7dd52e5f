"""A cache of factors on disk, beside a public log, so that a long study is solved once.

A factor depends only on what is published up to a message, the head, so the hash of the head names
its file. Files are not trusted: `System.factor` checks the numbers against the measurements, and
computes the factor anew where a file was cut or forged. Files contain numbers and nothing else.
Where the folder cannot be written to, nothing is cached and no error is raised.
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

_FORM = "1"  # of a file; another one has another name


@dataclass(frozen=True, eq=False)
class Factor:
    """The Cholesky factor of S in units of its diagonal, for a full-rank subset of the equalities.

    rows: (rank,) the equalities of the subset
    sizes: (rank,) the roots of their variances
    lower: (rank, rank) the factor
    """

    rows: Ints
    sizes: Floats
    lower: Floats

    def solved(self, right: Floats) -> Floats:
        """The inverse factor times (equalities, m): (rank, m)."""
        scaled = right[self.rows] / self.sizes[:, None]
        return np.asarray(solve_triangular(self.lower, scaled, lower=True))

    def inverse(self, right: Floats) -> Floats:
        """The inverse of S, on the subset, times (equalities,): (rank,)."""
        solved = self.solved(right[:, None])[:, 0]
        return np.asarray(solve_triangular(self.lower, solved, lower=True, trans="T")) / self.sizes

    def numbers(self) -> Floats:
        """Rows, sizes and factor, (rank (rank + 2),)."""
        return np.concatenate([self.rows.astype(np.float64), self.sizes, self.lower.ravel()])


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
        """The factor in the file, unchecked; None without a file of a possible form.

        size: the number of equalities of the system
        """
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as file:
                data = file.read(8 * size * (size + 2) + 1)
        except OSError:
            return None
        # r rows, r sizes and r^2 numbers: 8 r (r + 2) bytes.
        rank = int(np.sqrt(len(data) // 8 + 1)) - 1
        if not 0 < rank <= size or len(data) != 8 * rank * (rank + 2):
            return None
        numbers = np.frombuffer(data, "<f8")
        rows, sizes, lower = numbers[:rank], numbers[rank : 2 * rank], numbers[2 * rank :]
        possible = np.isfinite(numbers).all() and np.isin(rows, np.arange(size)).all()
        if not possible or np.unique(rows).size < rank or not (sizes > 0).all():
            return None
        lower = np.tril(lower.reshape(rank, rank))
        return Factor(rows.astype(np.int64), sizes, lower) if (lower.diagonal() > 0).all() else None

    def write(self, factor: Factor) -> None:
        """Replaces the stream's cached factor. A folder that cannot be written to is no error."""
        with suppress(OSError):
            self.folder.mkdir(exist_ok=True)
            with NamedTemporaryFile(dir=self.folder, suffix=".part", delete=False) as file:
                file.write(factor.numbers().astype("<f8").tobytes())
            Path(file.name).replace(self._path)
            for older in self.folder.glob(f"{self._prefix}*.factor"):
                if older != self._path:
                    older.unlink(missing_ok=True)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
