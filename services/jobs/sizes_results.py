"""Sizes of places as a job's result: from the fit to the tables, and from these to the certificate.

Of how a level was measured a result states the method alone, which may have been chosen privately.
Cost and noise follow from the declaration.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from stream_dp.batch.sizes.declared_sizes import declared_plan, fit_release, title
from stream_dp.batch.sizes.regions import Regions
from stream_dp.batch.sizes.sizes_plan import SizesPlan
from stream_dp.batch.synthesizer import FitContext
from stream_dp.errors import UserError
from stream_dp.release.published_sizes import SizesTables
from stream_dp.release.published_tables import Provenance
from stream_dp.release.sizes_certificate import LevelCertificate
from stream_dp.study import SizesRelease, Study

_METHODS = "methods"


def fitted_sizes(
    study: Study, release: SizesRelease, counts: pa.Table, context: FitContext
) -> tuple[Provenance, SizesTables]:
    """Measures a job's places. counts: its snapshot, confidential. Raises UserError."""
    fitted = fit_release(study, release, counts, context)
    tree, none = fitted.plan.regions, np.zeros(0, np.int64)
    values = [
        level.values or [none] * len(paths)
        for level, paths in zip(fitted.levels, tree.levels, strict=True)
    ]
    tables = SizesTables.of(
        tree.columns,
        [
            (depth, path, places)
            for depth, paths in enumerate(tree.levels)
            for path, places in zip(paths, tree.counts[depth].tolist(), strict=True)
        ],
        [(sizes.size, sizes.groups) for level in fitted.sizes for sizes in level],
        list(chain(*values)),
    )
    notes = {_METHODS: [level.method for level in fitted.levels]}
    return Provenance(title(fitted.plan), notes, context.source.simulated), tables


def stated_levels(
    study: Study, release: SizesRelease, tables: SizesTables, provenance: Provenance
) -> tuple[LevelCertificate, ...]:
    """What a certificate states of each level. Raises UserError for a method not declared."""
    plan = declared_plan(study, release, _tree(study, tables))
    methods = provenance.notes.get(_METHODS)
    if not isinstance(methods, list) or len(methods) != len(plan.levels):
        raise UserError("a result does not say how it was fitted")
    if provenance.mechanism != title(plan) or any(
        method not in level.methods for method, level in zip(methods, plan.levels, strict=True)
    ):
        raise UserError("a result of other methods than its release declares")
    return _levels(plan, methods)


def _levels(plan: SizesPlan, methods: Sequence[str]) -> tuple[LevelCertificate, ...]:
    names = ("all", *plan.regions.columns)
    return tuple(
        LevelCertificate.model_validate(
            {
                "name": name,
                "regions": len(paths),
                "method": method,
                "rho": level.rho,
                "noise": "double-geometric" if level.pure else "discrete Gaussian",
                "parameter": level.parameter(method),
            }
        )
        for name, paths, method, level in zip(
            names, plan.regions.levels, methods, plan.levels, strict=True
        )
    )


def _tree(study: Study, tables: SizesTables) -> Regions:
    """The tree of regions in a result."""
    assert study.places is not None
    columns = study.places.regions
    level = tables.regions["level"].to_numpy()
    leaves = tables.regions.filter(pa.array(level == len(columns)))
    paths = zip(*(leaves[name].to_pylist() for name in columns), strict=True)
    return Regions.of(columns, dict(zip(paths, leaves["places"].to_pylist(), strict=True)))
