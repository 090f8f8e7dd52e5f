"""Faults of releases of people with their events, against the sections of a study file."""

from __future__ import annotations

from collections.abc import Iterator

from .alphabet import ABSENT
from .event_releases import EventsRelease, slot_attribute
from .group_faults import data_set_faults
from .hierarchy_releases import PERSON_COLUMN, SIZE_COLUMN
from .sections import Sections
from .study import Study


def events_faults(release: EventsRelease, sections: Sections) -> Iterator[str]:
    """Faults of a release of events, to be put after the release's key in the file."""
    yield from data_set_faults(release, sections)
    yield from slot_faults(release, sections)


def slot_faults(release: EventsRelease, sections: Sections) -> Iterator[str]:
    """Faults of the columns of events."""
    events = release.events
    for name in (*release.attributes, *events.columns):
        if name in {SIZE_COLUMN, PERSON_COLUMN}:
            yield f": the name '{name}' is reserved"
    for name in events.columns:
        if name in release.attributes:
            yield f".events.columns: '{name}' is an attribute of people in this release"
    if len(set(events.columns)) < len(events.columns):
        yield ".events.columns: a column stands there twice"
    for column, slots in zip(events.columns, release.slots, strict=True):
        declared = [sections.attributes.get(name) for name in slots]
        known = [attribute for attribute in declared if attribute is not None]
        if len(known) < len(declared):
            continue  # every missing attribute has its line
        if any(attribute.number is not None or attribute.place for attribute in known):
            yield f".events.columns: '{column}' must have listed values"
        elif any(attribute != known[0] for attribute in known):
            yield f".events.columns: the slots of '{column}' differ; declare them by `slots`"
        elif known[0].missing != ABSENT:
            yield f".events.columns: declare missing = 'absent' for '{column}': there may be fewer"


def events_relation_faults(sections: Sections) -> Iterator[str]:
    """Faults of the study's relation, with its key."""
    for kind in {release.data_set for release in sections.of(EventsRelease)}:
        if sections.neighbours is not None and sections.neighbours not in kind.relations:
            able = "' or '".join(reversed(kind.relations))
            yield (
                f"study.neighbours: what events cost under '{sections.neighbours}' is not proved;"
                f" declare neighbours = '{able}', or leave releases of events out"
            )


def event_warnings(study: Study) -> Iterator[str]:
    """A line for every column of events whose last slots no release of it counts."""
    for release in study.of(EventsRelease):
        most = release.events.most
        for column in release.events.columns:
            if slot_attribute(column, most + 1) in study.attributes:
                yield (
                    f"release '{release.name}', events.most: '{column}' has more slots than"
                    f" {most}, and events from number {most + 1} on do not count; raise most, or"
                    " declare fewer slots"
                )
