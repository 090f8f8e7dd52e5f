"""Faults of a batch release's domain: the reasons why its synthesizer could not fit it."""

from __future__ import annotations

from collections.abc import Iterator

from stream_dp.batch.base import declared_domain
from stream_dp.batch.mwem import grouptypes
from stream_dp.batch.people.table import declared_people
from stream_dp.errors import UserError
from stream_dp.study.data_sets import DataSetRelease, PeopleRelease
from stream_dp.study.group_faults import role_column_faults
from stream_dp.study.groups import BatchRelease
from stream_dp.study.sections import Sections


def domain_faults(batch: DataSetRelease, sections: Sections) -> Iterator[str]:
    """Faults of a batch release's domain, to be put after its place in the file."""
    groups, population = sections.groups, sections.population
    attributes = [sections.attributes.get(name) for name in batch.questions]
    if any(a is None or a.problems("") for a in attributes):
        return
    if isinstance(batch, PeopleRelease) and len(set(batch.names)) < max(2, len(batch.names)):
        return  # batch_faults reports it
    try:
        if isinstance(batch, PeopleRelease) and sections.neighbours and population:
            declared_people(
                batch, sections.attributes, neighbours=sections.neighbours, size=population.size
            )
        if isinstance(batch, BatchRelease) and groups is not None:
            if any(role_column_faults(groups, sections.attribute_names)):
                groups = groups.model_copy(update={"roles": None})  # section_faults reports them
            columns = declared_domain(groups, sections.attributes, batch)
            if batch.kind == "mwem":
                grouptypes.require_few_types(columns)
    except UserError as error:
        yield from (f": {line}" for line in error.lines)
