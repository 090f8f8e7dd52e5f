"""What a release looks at, from the tables of its job's snapshot, and a sample as tables again."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.batch.base import release_domain
from stream_dp.batch.data.domain import Hierarchy
from stream_dp.batch.people.table import People, study_people
from stream_dp.errors import UserError
from stream_dp.release.data_sets import Tables, coded_people, coded_tables, column_values
from stream_dp.study import BatchRelease, DataSetRelease, PeopleRelease, Study
from stream_dp.study.groups import KEY_COLUMN


def looked_at(study: Study, release: DataSetRelease, tables: Tables) -> Hierarchy | People:
    """The people, or the groups and their members, in the tables of a snapshot. Confidential.

    Raises UserError where they are not of what the release declares.
    """
    names = column_values(study, release)
    try:
        codes = {which: _codes(tables[which], tuple(names[which])) for which in names}
        if isinstance(release, PeopleRelease):
            return People(study_people(study, release), codes["people"])
        assert isinstance(release, BatchRelease)
        group_of = tables["people"][KEY_COLUMN].to_numpy().astype(np.int64)
        domain = release_domain(study, release)
        return Hierarchy(domain, codes["groups"], codes["people"], group_of)
    except (ValueError, KeyError):
        raise UserError("the job's snapshot is not of what its release declares") from None


def sample_tables(study: Study, release: DataSetRelease, sample: Hierarchy | People) -> Tables:
    """The tables of a sample as codes."""
    names = column_values(study, release)
    if isinstance(sample, People):
        return {"people": coded_people(names["people"], sample.codes)}
    return coded_tables(names, sample.groups, sample.people, sample.group_of)


def _codes(table: pa.Table, columns: tuple[str, ...]) -> NDArray[np.integer]:
    return np.stack([table[name].to_numpy() for name in columns], axis=1)
