"""Faults of places and of releases of sizes, against the sections of a study file."""

from __future__ import annotations

from collections.abc import Iterator

from .group_faults import data_set_faults
from .place_releases import (
    LEAST_EPSILON,
    NOTHING_TO_PROTECT,
    RELATIONS,
    RESERVED_COLUMNS,
    SizesRelease,
)
from .sections import Sections


def sizes_faults(release: SizesRelease, sections: Sections) -> Iterator[str]:
    """Faults of a release of sizes, to be put after the release's key in the file."""
    yield from data_set_faults(release, sections)
    if not sections.has_places:
        yield ": 'sizes' is about places of people: declare [places]"
    places = sections.places
    if places is None:
        return
    if places.counted:
        if release.attribute is not None:
            yield ".attribute: with places.counted nobody reports; leave it out"
    elif release.attribute is None:
        yield ".attribute: name the attribute with place = true that says where a person is"
    elif (declared := sections.attributes.get(release.attribute)) and not declared.place:
        yield f".attribute: declare attributes.{release.attribute} with place = true"
    names = ", ".join(("all", *places.regions))
    for key, values in (
        ("methods", release.methods),
        ("parts", release.parts),
        ("epsilon", release.epsilon),
    ):
        if values is not None and len(values) != places.levels:
            yield f".{key}: give {places.levels}, one for each level: {names}"
    if release.epsilon is None:
        return
    relation = sections.neighbours
    if relation in RELATIONS and release.rho != release.epsilon_cost(relation):
        yield ".epsilon: give it in place of rho, which follows from it"
    if min(release.epsilon) < LEAST_EPSILON:
        yield f".epsilon: must be at least {LEAST_EPSILON} at every level"
    if release.parts is not None:
        yield ".parts: splits rho; epsilon is stated for each level"


def places_faults(sections: Sections) -> Iterator[str]:
    """Faults of `[places]` and of declarations about places, with their keys."""
    sizes = sections.of(SizesRelease)
    of_places = {name for name, a in sections.attributes.items() if a.place}
    if sizes and sections.neighbours == "replace_in_place":
        yield f"study.{NOTHING_TO_PROTECT}"
    for number, release in sections.numbered_releases:
        if release is None or release in sizes:
            continue
        for name in sorted(of_places.intersection(release.questions)):
            yield f"releases[{number}]: '{name}' is a place, which kind 'sizes' alone releases"
    if not sections.has_places:
        for name in sorted(of_places):
            yield f"attributes.{name}.place: declare [places] too"
        return
    if sections.has_groups:
        yield "places: beside [groups] is not made; groups need 'replace_in_place'"
    if not sizes and all(r is not None for _, r in sections.numbered_releases):
        yield "places: no release uses it: declare one of kind 'sizes', or remove it"
    places = sections.places
    if places is None:
        return
    if len({*places.regions}) < len(places.regions):
        yield "places.regions: a column stands there twice"
    for name in places.regions:
        if name in RESERVED_COLUMNS or name == "all":
            yield f"places.regions: the name '{name}' is reserved"
    if places.counted and sections.periods is not None and sections.periods.count != 1:
        yield "study.periods.count: must be 1 with places.counted: a table of counts has one period"
    if sections.unit == places.unit:
        yield (
            f"study.unit: '{places.unit}' is what places are called; what is protected is who is"
            " in one, such as a person"
        )
