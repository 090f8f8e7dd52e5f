"""A fitted two-phase table of people: what was measured, and samples of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from stream_dp.privacy.noise import Measurements

from ..rounds.loop import AdaptiveFit
from ..rounds.phases import CHARGES
from .compress.composite_columns import Encoding
from .compress.compression import Compression
from .known import Known
from .measure.residual_counts import Columns, Residuals
from .measure.targets import Targets
from .people_table import People

_COUNTED = ("rounds", "candidates", "measured")
_OF_THE_MODEL = ("error_on_measurements", "duality_gap")


@dataclass(frozen=True, eq=False)
class MatchFit:
    """See `synthesizer.FittedModel`.

    encoding, compression: how the table's columns become those of the second phase, and back.
    first, second: what each phase measured; the second has the model.
    known: what the model learnt besides: single columns, and what others have published.
    dropped: listed marginals that were too large, by their columns' names.
    anew: columns that earlier data sets say nothing of, as other values of theirs were merged.
    """

    encoding: Encoding
    compression: Compression
    first: AdaptiveFit[Residuals, People]
    second: AdaptiveFit[Residuals, People]
    known: tuple[Known, ...]
    dropped: tuple[str, ...]
    anew: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return self.second.title

    @property
    def measurements(self) -> Measurements:
        return Measurements.joined([self.first.measurements, self.second.measurements])

    @property
    def notes(self) -> Mapping[str, int | float | str]:
        earlier, later = self.first.notes, self.second.notes
        added = {name: int(earlier[name]) + int(later[name]) for name in _COUNTED}
        columns = zip(self.encoding.names, self.compression.columns, strict=True)
        merged = [f"{column.merged} of {name}" for name, column in columns if column.merged]
        extra = {"values_merged": ", ".join(merged) or "none"}
        if self.dropped:
            extra["triples_too_large"] = "; ".join(self.dropped)
        if self.anew:
            extra["begun_anew"] = ", ".join(self.anew)
        model = {name: later[name] for name in _OF_THE_MODEL if name in later}
        charge = CHARGES[self.first.exact and self.second.exact]
        return {**added, "charge": charge, **model, **extra}

    def sample(self, seed: int) -> People:
        groups = self.second.sample(seed)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
        return self.encoding.decoded(self.compression.undone(groups.codes, rng), rng)

    @property
    def measured(self) -> frozenset[Columns]:
        """The sets of the table's columns whose marginal was measured completely."""
        single = {(column,) for column in range(len(self.encoding.names))}
        unmerged = [p for (p,) in single if self.compression.columns[p].identity]
        later = {self.second.workload.sets[i] for i in self.second.answers.candidates}
        sets = single | {a for a in later if {*a} <= {*unmerged}}
        return frozenset(
            subset
            for a in sets
            for columns in [sorted(c for column in a for c in self.encoding.parts[column])]
            for ways in range(1, len(columns) + 1)
            for subset in combinations(columns, ways)
        )

    def shares(self, columns: Columns) -> NDArray[np.float64]:
        """The noisy shares of a marginal of `measured`, an axis a column."""
        column_of = {
            c: column for column, composite in enumerate(self.encoding.parts) for c in composite
        }
        measured = tuple(sorted({column_of[c] for c in columns}))
        if len(measured) == 1:
            noisy = self.compression.columns[measured[0]].noisy
            values = noisy.counts() / max(noisy.people, 1)
        else:
            targets = Targets.of(self.second.workload, self.second.answers, self.known)
            values = targets.marginal(measured)
        sources = [c for column in measured for c in self.encoding.parts[column]]
        values = values.reshape([self.encoding.source.sizes[c] for c in sources])
        values = values.sum(axis=tuple(i for i, c in enumerate(sources) if c not in columns))
        order = [c for c in sources if c in columns]
        return np.transpose(values, [order.index(c) for c in columns])
