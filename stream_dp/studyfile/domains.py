"""Faults of a batch release's domain: the reasons why no synthesizer could fit.

The synthesizers' modules are loaded for a study that has such a release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stream_dp.errors import UserError
from stream_dp.study.event_faults import slot_faults
from stream_dp.study.event_releases import EventsRelease
from stream_dp.study.families import DATA_SET_FAMILIES, Family, Registry
from stream_dp.study.group_faults import role_column_faults
from stream_dp.study.group_releases import BatchRelease
from stream_dp.study.sections import Sections
from stream_dp.study.table_releases import DataSetRelease, PeopleRelease


def domain_faults(batch: DataSetRelease, sections: Sections) -> Iterator[str]:
    """Faults of a batch release's domain, to be put after the release's key in the file."""
    attributes = [sections.attributes.get(name) for name in batch.questions]
    if any(a is None or a.problems("") for a in attributes):
        return
    try:
        _DOMAIN_CHECKS[batch.family](batch, sections)
    except UserError as error:
        yield from (f": {line}" for line in error.lines)


def _check_people(release: PeopleRelease, sections: Sections) -> None:
    population = sections.population
    if len(set(release.names)) < max(2, len(release.names)):
        return  # data_set_faults reports it
    if sections.neighbours and population:
        from stream_dp.batch.people.people_table import declared_people

        declared_people(
            release, sections.attributes, neighbours=sections.neighbours, size=population.size
        )


def _check_households(release: BatchRelease, sections: Sections) -> None:
    from stream_dp.batch.kinds import check_limits
    from stream_dp.batch.synthesizer import declared_domain

    groups = sections.groups
    if groups is None:
        return
    if any(role_column_faults(groups, sections.attribute_names)):
        groups = groups.model_copy(update={"roles": None})  # section_faults reports them
    check_limits(release, declared_domain(groups, sections.attributes, release))


def _check_events(release: EventsRelease, sections: Sections) -> None:
    if any(slot_faults(release, sections)):
        return  # data_set_faults reports them
    from stream_dp.batch.groups.workload.candidates import declared_workload
    from stream_dp.batch.synthesizer import events_domain

    declared_workload(events_domain(sections.attributes, release), release)


def _check_sizes(release: DataSetRelease, sections: Sections) -> None:
    """The domain of sizes is bounded by `largest`."""


_DOMAIN_CHECKS: Registry[Family, Callable[..., None]] = Registry(
    "domains of data sets",
    DATA_SET_FAMILIES,
    {
        Family.PEOPLE: _check_people,
        Family.HOUSEHOLDS: _check_households,
        Family.EVENTS: _check_events,
        Family.SIZES: _check_sizes,
    },
)
