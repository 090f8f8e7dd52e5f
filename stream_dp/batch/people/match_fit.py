"""A fitted two-phase table of people: what was measured, and samples of its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Never

import numpy as np
from numpy.typing import NDArray

from stream_dp.privacy.measurements import Measurements

from ..rounds.loop import AdaptiveFit
from .compress.compression import Compression
from .compress.encoding import Encoding
from .known import Known
from .measure.residual_counts import Columns, Residuals
from .measure.targets import Targets
from .people_table import People

_COUNTED = ("rounds", "candidates", "measured")


@dataclass(frozen=True, eq=False)
class MatchFit:
    """See `synthesizer.FittedModel`.

    encoding, compression: how the table's columns become those of the second phase, and back.
    first, second: what each phase measured; the second has the model.
    known: what the model learnt besides: single columns, and what others have published.
    dropped: listed marginals that were too large, by their columns' names.
    """

    encoding: Encoding
    compression: Compression
    first: AdaptiveFit[Residuals, Never]
    second: AdaptiveFit[Residuals, People]
    known: tuple[Known, ...]
    dropped: tuple[str, ...]

    @property
    def title(self) -> str:
        return self.second.title

    @property
    def measurements(self) -> Measurements:
        return Measurements.joined([self.first.measurements, self.second.measurements])

    @property
    def notes(self) -> Mapping[str, int | float | str]:
        own, later = self.first.notes, self.second.notes
        added = {name: int(own[name]) + int(later[name]) for name in _COUNTED}
        columns = zip(self.encoding.names, self.compression.columns, strict=True)
        merged = [f"{column.merged} of {name}" for name, column in columns if column.merged]
        more = {"values_merged": ", ".join(merged) or "none"}
        if self.dropped:
            more["triples_too_large"] = "; ".join(self.dropped)
        error = {name: later[name] for name in ("error_on_measurements",) if name in later}
        return {**added, **error, **more}

    def sample(self, seed: int) -> People:
        groups = self.second.sample(seed)
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
        return self.encoding.decoded(self.compression.undone(groups.codes, rng), rng)

    @property
    def measured(self) -> frozenset[Columns]:
        """The sets of the table's columns of which all that their marginal says was measured."""
        single = {(place,) for place in range(len(self.encoding.names))}
        unmerged = [p for (p,) in single if self.compression.columns[p].identity]
        later = {self.second.workload.sets[i] for i in self.second.answers.candidates}
        sets = single | {a for a in later if {*a} <= {*unmerged}}
        return frozenset(
            part
            for a in sets
            for columns in [sorted(c for place in a for c in self.encoding.parts[place])]
            for ways in range(1, len(columns) + 1)
            for part in combinations(columns, ways)
        )

    def shares(self, columns: Columns) -> NDArray[np.float64]:
        """The noisy shares of a marginal of `measured`, one axis for each column."""
        of = {c: place for place, own in enumerate(self.encoding.parts) for c in own}
        places = tuple(sorted({of[c] for c in columns}))
        if len(places) == 1:
            noisy = self.compression.columns[places[0]].noisy
            values = noisy.counts() / max(noisy.people, 1)
        else:
            targets = Targets.of(self.second.workload, self.second.answers, self.known)
            values = targets.marginal(places)
        parts = [c for place in places for c in self.encoding.parts[place]]
        values = values.reshape([self.encoding.source.sizes[c] for c in parts])
        values = values.sum(axis=tuple(i for i, c in enumerate(parts) if c not in columns))
        kept = [c for c in parts if c in columns]
        return np.transpose(values, [kept.index(c) for c in columns])
