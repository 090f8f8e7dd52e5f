"""Results of jobs of tables: from the fit to the parts, and to the certificate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from hashlib import sha256
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.batch.synthesizer import FitContext, Synthesizer
from stream_dp.errors import UserError
from stream_dp.release.arrow import NamedParts, measurement_table
from stream_dp.release.published_rules import keeps_rules
from stream_dp.release.published_tables import (
    BatchCertificate,
    Provenance,
    Tables,
    batch_certificate,
    column_values,
    data_set_parts,
    has_declared_roles,
    read_tables,
)
from stream_dp.study import Study, TableRelease

OTHER_RELEASE = "the job's snapshot is not of what its release declares"
D = TypeVar("D")
R = TypeVar("R", bound=TableRelease)


def codes_of(table: pa.Table, columns: tuple[str, ...]) -> NDArray[np.integer]:
    """Columns of codes side by side, (rows, columns)."""
    return np.stack([table[name].to_numpy() for name in columns], axis=1)


def fitted_table_parts(
    fit: Synthesizer[D, R],
    data: D,
    release: R,
    context: FitContext,
    coded: Callable[[D], Tables],
) -> tuple[Provenance, list[tuple[str, bytes]]]:
    """Fits a job: provenance and published parts.

    data: confidential.
    coded: gives the tables of a sample as codes.
    """
    model = fit(data, release, context)
    tables = coded(model.sample(seed_of(context.transcript.rounds())))
    parts = data_set_parts(tables, measurement_table(model.measurements))
    return Provenance(model.title, dict(model.notes), context.source.simulated), parts


def seed_of(rounds: Sequence[bytes]) -> int:
    """The seed of the sample: derived from the seed in round 0, and different from it."""
    return int.from_bytes(sha256(b"sample" + rounds[0]).digest(), "big")


def table_certificate(
    study: Study,
    release: TableRelease,
    parts: NamedParts,
    provenance: Provenance,
    *,
    number: int,
    rho: Fraction,
    spent: Fraction,
) -> BatchCertificate:
    """The certificate of a result. Raises UserError for parts of another release."""
    tables, measured = read_tables(column_values(study, release), parts)
    if not has_declared_roles(study, tables):
        raise UserError("a result has groups whose roles are not as the study declares")
    if not keeps_rules(study, release, tables):
        raise UserError("a result has groups that break a rule of the study")
    return batch_certificate(
        study,
        release,
        number=number,
        tables=tables,
        measured=measured.num_rows,
        provenance=provenance,
        rho=rho,
        spent=spent,
    )
