"""The system of a stream's measurements, and the best linear unbiased answers from it.

The blocks of a system (`measurement_blocks.py`) are measured with independent noise: entries of
windows and the people present (`unknown_counts.py`), and the people whose total reaches b, for
every event, first period and b. Only the totals and the windows are bound to each other, by few
equalities G u = f of the true counts u, at most a few for each period and event:
- Those with the event in a period are the rises of all b, and the patterns with the event there.
- As long as a window reaches back to the first period of the totals, the sums S_b are the people
  of patterns with at least b events, and S_0 those with anybody there. Where newcomers' unknown
  past would itself be the event, this is not used of their past.

With u0 and V the blocks' own estimates and their covariance, the best linear unbiased estimates of
all together are
    u = u0 + V G' S^-1 (f - G u0),    their covariance V - V G' S^-1 G V,    S = G V G'
(generalized least squares with exact constraints). S has a row for each equality, so that a long
study is solved period by period in its blocks and once in this small matrix. An equality that
follows from others is left out by Cholesky with pivots.

Factors are cached on disk, beside a public log, so that a long study is solved once. The factor of
a stream depends only on the messages up to the head, so the hash of the head names the file. Files
contain only numbers. A file is valid if it belongs to the user, nobody else may write to it, and
its body has the hash at its beginning; otherwise the factor is computed anew. If the folder cannot
be written to, nothing is cached and no error is raised.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np
import scipy
from numpy.typing import NDArray

from .measurement_blocks import Block, Floats, Ints

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


_REPEATED = 1e-10  # of an equality's variance: below it, it follows from the others
_WORTH_KEEPING = 100  # equalities: fewer are solved in a moment
_MOST_UNITS = 2_000_000  # numbers in memory that make repeated answers fast
_MOST_DENSE = 100_000  # numbers: products of so few are faster than sparse ones
_CERTAIN = 1e-13  # of an answer's variance without equalities: below it, a rounding of floats


@dataclass(frozen=True, eq=False)
class Answers:
    """Best answers to n questions, with the terms of their covariances.

    values: (n,)
    coordinates: of the questions in all blocks, (n, unknowns)
    bound: the coordinates' reduction by the equalities, (n, equalities)
    """

    values: Floats
    coordinates: scipy.sparse.csr_array
    bound: Floats

    @property
    def value(self) -> float:
        """Of a single answer."""
        (value,) = self.values
        return float(value)

    @cached_property
    def variances(self) -> Floats:
        """(n,), 0 below the rounding of floats."""
        rows = np.repeat(np.arange(self.values.size), np.diff(self.coordinates.indptr))
        separate = np.bincount(rows, self.coordinates.data**2, self.values.size)
        variances = separate - (self.bound**2).sum(axis=1)
        return np.where(variances > _CERTAIN * separate, variances, 0.0)

    @property
    def variance(self) -> float:
        """Of a single answer."""
        (variance,) = self.variances
        return float(variance)

    def covariance(self, second: Answers) -> Floats:
        """The covariance with m answers from the same system: (n, m)."""
        if (self.values.size + second.values.size) * self.coordinates.shape[1] <= _MOST_DENSE:
            separate: Floats = self.coordinates.toarray() @ second.coordinates.toarray().T
        else:
            separate = (self.coordinates @ second.coordinates.T).toarray()
        return separate - self.bound @ second.bound.T

    def paired_covariance(self, second: Answers) -> Floats:
        """The covariance of each answer with its counterpart among n others, (n,)."""
        separate = self.coordinates.multiply(second.coordinates).sum(axis=1)
        return np.asarray(separate - (self.bound * second.bound).sum(axis=1))

    def chosen(self, positions: Ints) -> Answers:
        """The answers at `positions`, with possible repeats."""
        return Answers(self.values[positions], self.coordinates[positions], self.bound[positions])

    def minus(self, second: Answers, times: float) -> Answers:
        """The answers minus `times` the answers `second`, entry by entry."""
        return Answers(
            self.values - times * second.values,
            scipy.sparse.csr_array(self.coordinates - times * second.coordinates),
            self.bound - times * second.bound,
        )


@dataclass(frozen=True, eq=False)
class Equalities:
    """of_block: the columns of G on every block's unknowns, (equalities, n) each. right_side: f,
    (equalities,)
    """

    of_block: Sequence[scipy.sparse.csr_array]
    right_side: Floats


@dataclass(frozen=True, eq=False)
class System:
    """blocks: in the order of the unknowns
    starts: where the blocks' unknowns begin, and where the last end
    equalities: of all unknowns
    cache: of the factor; None to compute the factor every time
    """

    blocks: Sequence[Block]
    starts: Ints
    equalities: Equalities
    cache: FactorCache | None = None

    @cached_property
    def measured(self) -> NDArray[np.bool_]:
        """Whether an unknown is measured, (unknowns,)."""
        return np.concatenate([block.measured for block in self.blocks])

    def answers(self, questions: scipy.sparse.csr_array, constants: Floats) -> Answers:
        """The answers to Q u + c, of measured unknowns u.

        In the coordinates A (n, unknowns) of the questions, whose noise is white, Q V Q' = A A'. So
        with S = G V G' = L L', and B = (L^-1 G V Q')' the coordinates bound by the equalities,
            Q u + c = Q u0 + c + B L^-1 (f - G u0),  of covariance A A' - B B'.

        questions: Q, (n, unknowns).
        constants: c, (n,).
        """
        size = self.equalities.right_side.size
        values, bound = constants.copy(), np.zeros((constants.size, 0))
        gvq = np.zeros((size, constants.size))  # G V Q'
        if size and self._bound_units is not None:
            bound = np.zeros((constants.size, self.factor.rows.size))
        rows, columns, entries = [], [], []
        for i in np.unique(np.searchsorted(self.starts, questions.indices, side="right") - 1):
            start, end = self.starts[i : i + 2]
            block_questions = questions[:, start:end]
            questioned = np.flatnonzero(np.diff(block_questions.indptr))
            if questioned.size < constants.size:
                block_questions = block_questions[questioned]
            coordinates = self.blocks[i].coordinates(block_questions)
            values[questioned] += coordinates @ self.blocks[i].data
            if size and self._bound_units is not None:
                bound[questioned] += coordinates @ self._bound_units[start:end]
            elif size:
                block_equalities = self.equalities.of_block[i]
                gvq[:, questioned] += self.blocks[i].spread(block_equalities, coordinates)
            sparse = coordinates.tocoo()
            rows.append(questioned[sparse.row])
            columns.append(sparse.col + start)
            entries.append(sparse.data)
        positions = _joined(rows, np.int64), _joined(columns, np.int64)
        all_coordinates = scipy.sparse.csr_array(
            (_joined(entries, float), positions), shape=questions.shape
        )
        if size:
            bound = self.factor.solved(gvq).T if self._bound_units is None else bound
            values += bound @ self.factor.gap
        return _rounded(Answers(values, all_coordinates, bound))

    def errors(self, answers: Answers, data: Floats) -> Floats:
        """The errors of answers for other noise: (draws, n).

        answers: from this system.
        data: of all blocks, if the measurements are the noise alone: (draws, unknowns).
        """
        errors: Floats = answers.coordinates @ data.T
        size = self.equalities.right_side.size
        if size:
            g_u0 = np.zeros((size, len(data)))
            starts = zip(self.starts[:-1], self.starts[1:], strict=True)
            for block, g, (start, end) in zip(
                self.blocks, self.equalities.of_block, starts, strict=True
            ):
                if g.nnz:
                    g_u0 += block.spread(g, scipy.sparse.csr_array(data[:, start:end]))
            errors -= answers.bound @ self.factor.solved(g_u0)
        return errors.T

    @cached_property
    def _bound_units(self) -> Floats | None:
        """The rows of B for single coordinates, (unknowns, rank); None if they need much memory.

        B is linear in A, so that repeated answers are fast.
        """
        size, count = self.equalities.right_side.size, int(self.starts[-1])
        if size * count > _MOST_UNITS:
            return None
        coordinates = [
            block.coordinates(g).toarray()
            for block, g in zip(self.blocks, self.equalities.of_block, strict=True)
        ]
        return self.factor.solved(np.hstack(coordinates)).T

    @cached_property
    def factor(self) -> Factor:
        """The cached factor, or a new factor."""
        size = self.equalities.right_side.size
        cache = self.cache if size >= _WORTH_KEEPING else None
        cached = None if cache is None else cache.read(size)
        if cached is not None:
            return cached
        factor = self._factored()
        if cache is not None:
            cache.write(factor)
        return factor

    def _factored(self) -> Factor:
        """The factor L of S = G V G', of the equalities that follow from no others.

        S = sum over blocks of G_b V_b G_b', and G u0 = sum of G_b u0_b. Cholesky with pivots
        factors the correlations D^-1 S D^-1, D = sqrt(diag S): its first `rank` pivots are rows
        (rank,) of S, and the others follow from these.
        """
        size = self.equalities.right_side.size
        s, g_u0 = np.zeros((size, size)), np.zeros(size)
        for block, g in zip(self.blocks, self.equalities.of_block, strict=True):
            used = np.flatnonzero(np.diff(g.indptr))  # the equalities with unknowns of the block
            if used.size:
                s[np.ix_(used, used)] += block.gram(g[used])
                g_u0 += block.spread(g, scipy.sparse.csr_array(block.data[None]))[:, 0]
        deviations = np.sqrt(s.diagonal())
        deviations[deviations == 0] = 1.0
        correlations = s / np.outer(deviations, deviations)
        lower, pivots, rank, _ = scipy.linalg.lapack.dpstrf(correlations, tol=_REPEATED, lower=1)
        rows = pivots[:rank].astype(np.int64) - 1  # LAPACK counts from 1
        gap = self.equalities.right_side - g_u0
        return Factor.of(rows, deviations[rows], np.tril(lower[:rank, :rank]), gap)


def _joined(arrays: Sequence[Ints], kind: type) -> Ints:
    return np.concatenate([np.zeros(0, kind), *arrays])


def _rounded(answers: Answers) -> Answers:
    """The answers, rounded to integers without an error."""
    certain = (answers.variances == 0) & (np.abs(answers.values % 1 - 0.5) > 0.5 - 1e-6)
    if not certain.any():
        return answers
    coordinates, bound = answers.coordinates, answers.bound.copy()
    uncertain = np.repeat(~certain, np.diff(coordinates.indptr))
    coordinates.data = coordinates.data * uncertain
    bound[certain] = 0
    values = np.where(certain, np.rint(answers.values), answers.values)
    return Answers(values, coordinates, bound)
