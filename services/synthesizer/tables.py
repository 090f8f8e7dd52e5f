"""What a release looks at, from the tables of its job's snapshot, and its fit as tables again."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.batch import kinds
from stream_dp.batch.base import FitContext, release_domain
from stream_dp.batch.data.domain import Hierarchy
from stream_dp.batch.people.table import People, study_people
from stream_dp.errors import UserError
from stream_dp.release.arrow import measurement_table
from stream_dp.release.data_sets import (
    Provenance,
    Tables,
    coded_people,
    coded_tables,
    column_values,
    data_set_parts,
    with_derived,
)
from stream_dp.study import (
    BatchRelease,
    DataSetRelease,
    PeopleRelease,
    SizesRelease,
    Study,
    TableRelease,
)
from stream_dp.study.groups import KEY_COLUMN

from ..jobs.sizes import fitted_sizes

_OTHER = "the job's snapshot is not of what its release declares"


def fitted_parts(
    study: Study, release: DataSetRelease, tables: Tables, context: FitContext
) -> tuple[Provenance, list[tuple[str, bytes]]]:
    """How a job was fitted, and the parts of what is published of it.

    tables: of the job's snapshot. Confidential.
    context: its transcript has the rounds.

    Raises UserError where the tables are not of what the release declares.
    """
    if isinstance(release, SizesRelease):
        if "sizes" not in tables:
            raise UserError(_OTHER)
        provenance, sizes = fitted_sizes(study, release, tables["sizes"], context)
        return provenance, sizes.parts()
    assert isinstance(release, TableRelease)
    data = looked_at(study, release, tables)
    model = kinds.load_synthesizer(release.kind)(data, release, context)
    sample = model.sample(seed_of(context.transcript.rounds()))
    measurements = measurement_table(model.measurements)
    parts = data_set_parts(sample_tables(study, release, sample), measurements)
    return Provenance(model.title, dict(model.notes), context.source.simulated), parts


def looked_at(study: Study, release: TableRelease, tables: Tables) -> Hierarchy | People:
    """The people, or the groups and their members, in the tables of a snapshot. Confidential.

    Raises UserError where they are not of what the release declares.
    """
    names = column_values(study, release)
    try:
        if isinstance(release, PeopleRelease):
            answers = _codes(tables["people"], release.names)
            return People.of_answers(study_people(study, release), answers)
        codes = {which: _codes(tables[which], tuple(names[which])) for which in names}
        assert isinstance(release, BatchRelease)
        group_of = tables["people"][KEY_COLUMN].to_numpy().astype(np.int64)
        domain = release_domain(study, release)
        return Hierarchy(domain, codes["groups"], codes["people"], group_of)
    except (ValueError, KeyError):
        raise UserError(_OTHER) from None


def sample_tables(study: Study, release: TableRelease, sample: Hierarchy | People) -> Tables:
    """The tables of a sample as codes."""
    names = column_values(study, release)
    if isinstance(sample, People):
        assert isinstance(release, PeopleRelease)
        people = with_derived(study, release, sample.answers)
        return {"people": coded_people(names["people"], people)}
    return coded_tables(names, sample.groups, sample.people, sample.group_of)


def _codes(table: pa.Table, columns: tuple[str, ...]) -> NDArray[np.integer]:
    return np.stack([table[name].to_numpy() for name in columns], axis=1)


def seed_of(rounds: Sequence[bytes]) -> int:
    """The seed of the sample: derived from the seed in round 0, and different from it."""
    return int.from_bytes(sha256(b"sample" + rounds[0]).digest(), "big")
