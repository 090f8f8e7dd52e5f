"""Faults of data sets, against the sections of a study file.

In the order of the file: what holds for any data set, tables of people, groups, events, places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from fractions import Fraction
from itertools import pairwise
from math import prod

from stream_dp.errors import UserError

from .attribute import Attribute
from .column_rules import column_rule_faults
from .families import Kind
from .field_types import ABSENT
from .group_releases import (
    KEY_COLUMN,
    PERSON_COLUMN,
    SIZE_COLUMN,
    BatchRelease,
    EventsRelease,
    Groups,
    check_relation,
    slot_attribute,
)
from .periods import WITHOUT_HORIZON, Periods
from .place_releases import (
    LEAST_EPSILON,
    NOTHING_TO_PROTECT,
    RELATIONS,
    RESERVED_COLUMNS,
    SizesRelease,
)
from .structural_rules import read_group_rules, rule_faults
from .study import Sections, Study
from .table_releases import DataSetRelease, Derived, MatchRelease, PeopleRelease, size_faults
from .thresholds import linear_faults

MOST_COMPOSITE = 1 << 15  # values of a composite
_CONTENT = {*DataSetRelease.model_fields, "attribute", "attributes", "events"}  # no settings


def _repeats(key: str, names: Collection[str], what: str = "a column") -> Iterator[str]:
    if len(set(names)) < len(names):
        yield f"{key}: {what} stands there twice"


def match_faults(batch: MatchRelease, sections: Sections) -> Iterator[str]:
    """Faults of a table of people that is measured in two phases."""
    yield from people_faults(batch, sections)
    columns = {answer.column: sections.attributes.get(answer.attribute) for answer in batch.answers}
    yield from _composite_faults(batch, columns)
    yield from _coarser_faults(batch, columns)
    measured = batch.columns
    inside = {c: name for name, columns in (batch.composites or {}).items() for c in columns}

    def unknown(key: str, name: str) -> Iterator[str]:
        if name in inside:
            yield f"{key}: '{name}' is measured as a part of '{inside[name]}'; name that"
        elif name not in measured:
            yield f"{key}: '{name}' is none of the release's attributes or composites"

    for name in batch.exempt or ():
        yield from unknown(".exempt", name)
    yield from _repeats(".exempt", batch.exempt or ())
    for number, marginal in enumerate(batch.listed_marginals):
        key = f".marginals.{number}"
        for name in marginal.of:
            yield from unknown(key, name)
        yield from _repeats(key, marginal.of)
        if any({*marginal.of} == {*earlier.of} for earlier in batch.listed_marginals[:number]):
            yield f"{key}: {', '.join(marginal.of)} stand there twice"


def _composite_faults(batch: MatchRelease, columns: dict[str, Attribute | None]) -> Iterator[str]:
    """Faults of pairs of columns measured jointly."""
    composites = batch.composites or {}
    times = Counter(column for pair in composites.values() for column in pair)
    for name, pair in composites.items():
        key = f".composites.{name}"
        if name in columns or name in (batch.derived or {}):
            yield f"{key}: '{name}' is a column of the table; take another name"
        for column in dict.fromkeys(pair):
            if column not in columns:
                yield f"{key}: '{column}' is none of the release's attributes"
            elif times.pop(column, 0) > 1:
                yield f"{key}: '{column}' stands in composites twice"
        declared = [a for column in pair if (a := columns.get(column)) and not a.problems("")]
        cells = prod(map(_value_count, declared))
        if len(declared) == len(pair) and cells > MOST_COMPOSITE:
            yield f"{key}: has {cells:,} values; at most {MOST_COMPOSITE:,}"
    if len(columns) > 1 and len(batch.columns) < 2:
        yield ".composites: leave one column alone; at least 2 must be left"


def _coarser_faults(batch: MatchRelease, columns: dict[str, Attribute | None]) -> Iterator[str]:
    """Faults of the coarser bins of numbers."""
    for name, edges in (batch.coarser or {}).items():
        key, attribute = f".coarser.{name}", columns.get(name)
        if name not in columns:
            yield f"{key}: '{name}' is none of the release's attributes"
        if attribute is None or attribute.problems(""):
            continue
        if attribute.number is None:
            yield f"{key}: '{name}' has listed values; only numbers have bins"
        elif any(a >= b for a, b in pairwise(edges)):
            yield f"{key}: edges must increase"
        elif strange := [edge for edge in edges if edge not in (attribute.bins or ())]:
            yield f"{key}: {strange[0]} is no edge of the number's own bins; take some of these"


def data_set_faults(batch: DataSetRelease, sections: Sections) -> Iterator[str]:
    """Faults of any data set, to be put after the release's key in the file."""
    periods = sections.periods
    if (batch.every is None) == (batch.at is None):
        yield ": declare every = N periods, or at = [PERIODS]: one of both"
    elif periods is not None and periods.open and batch.every is not None:
        yield f".every: {WITHOUT_HORIZON}; declare at = [PERIODS]"
    elif periods is not None and batch.every is not None and batch.every > periods.count:
        yield f".every: {batch.every} periods is over the horizon of {periods.count}"
    labels = periods.labels if periods is not None else ()
    for label in batch.at or ():
        if labels and label not in labels:
            yield f".at: '{label}' is none of the study's periods {labels[0]} to {labels[-1]}"
    yield from _repeats(".at", batch.at or (), "a period")
    key = "attributes" if "attributes" in type(batch).model_fields else "attribute"
    yield from _repeats(f".{key}", batch.names, "an attribute")
    for name in batch.questions:
        if name not in sections.attribute_names:
            yield f".{key}: no attribute '{name}' is declared"
    yield from _history_faults(batch, periods)
    if not batch.data_set.numbers:
        for name in batch.questions:
            if name in sections.attributes and sections.attributes[name].number is not None:
                able = "', '".join(_kinds_with_numbers())
                yield f".attributes: '{name}' is a number, which only kinds '{able}' release"
    for key, field in type(batch).model_fields.items():
        used = {*batch.data_set.settings, *_CONTENT}
        if key not in used and not field.is_required() and getattr(batch, key) != field.default:
            yield f".{key}: '{batch.kind}' has none; leave it out"


def _value_count(attribute: Attribute) -> int:
    """The number of values of a column; a number's are its bins."""
    numbers = attribute.numbers
    return len(attribute.symbols if numbers is None else numbers.bin_labels)


def _kinds_with_numbers() -> list[Kind]:
    return [kind for kind in Kind if kind.data_set is not None and kind.data_set.numbers]


def people_faults(batch: PeopleRelease, sections: Sections) -> Iterator[str]:
    """Faults of a table of people."""
    yield from data_set_faults(batch, sections)
    if len(batch.names) < 2:
        yield ".attributes: must have at least 2 columns"
    settings = batch.data_set.settings
    if "labels" in settings:
        yield from _label_faults(batch, sections)
    if batch.linear is not None and "linear" in settings:
        sound = {name: a for name, a in sections.attributes.items() if not a.problems("")}
        columns = {answer.column: sound.get(answer.attribute) for answer in batch.answers}
        yield from linear_faults(batch.linear, columns)
    if "rounds" in settings:
        yield from _round_faults(batch)
    if "first" in settings:
        yield from _fusion_faults(batch, sections.periods)
    yield from _derived_faults(batch, sections)
    yield from _column_rule_faults(batch, sections)
    yield from _column_faults(batch, sections)


def _column_faults(batch: PeopleRelease, sections: Sections) -> Iterator[str]:
    """Faults of the columns' sizes, of a release whose columns have no other fault."""
    columns = [
        (answer.column, sections.attributes.get(answer.attribute)) for answer in batch.answers
    ]
    sizes = [(name, _value_count(a)) for name, a in columns if a is not None and not a.problems("")]
    if len({*batch.names}) == len(columns) == len(sizes) > 1:
        yield from (f": {fault}" for fault in size_faults(sizes))


def _history_faults(batch: DataSetRelease, periods: Periods | None) -> Iterator[str]:
    """A history must lie within the study when the first data set is due."""
    for history in batch.histories if periods is not None else ():
        assert periods is not None
        due = [periods.numbers[label] for label in batch.at or () if label in periods.numbers]
        first = min(due or [batch.every or periods.count])
        if history.last > first:
            yield (
                f".attributes: {history.last} periods of '{history.of}' are not there at"
                f" {periods.labels[first - 1]}, period {first}, when the first data set is due;"
                f" ask for at most {first}, or begin later"
            )


def _label_faults(batch: PeopleRelease, sections: Sections) -> Iterator[str]:
    """Faults of the labels: columns for prediction by analysts."""
    for name in batch.labels or ():
        if name not in batch.names:
            yield f".labels: '{name}' is none of the release's attributes"
        elif name in sections.attributes and sections.attributes[name].number is not None:
            yield f".labels: '{name}' is a number; a label has listed values"
    yield from _repeats(".labels", batch.labels or ())


def _fusion_faults(batch: PeopleRelease, periods: Periods | None) -> Iterator[str]:
    """Faults of the first table's share."""
    if batch.first is None:
        return
    if batch.fuse is False:
        yield ".first: tables that are not fused all cost the same; leave it out"
    elif periods is not None and batch_cost(batch, periods) <= batch.rho:
        yield ".first: there is one table alone; leave it out"


def _round_faults(batch: PeopleRelease) -> Iterator[str]:
    """Faults of the rounds of selected pairs."""
    if batch.rounds and batch.linear:
        yield ".rounds: pairs are not picked where there are `linear`; leave one of them out"
    if batch.rounds and batch.rows is not None:
        yield ".rounds: pairs are not picked for rows with locations; leave one of them out"
    if batch.rules is not None and batch.rows is not None:
        yield ".rules: rows with locations do not hold rules; leave one of them out"
    if batch.per_round is not None and not batch.rounds:
        yield ".per_round: no rounds are declared; declare `rounds`, or leave it out"


def _derived_faults(batch: PeopleRelease, sections: Sections) -> Iterator[str]:
    """Faults of derived columns."""
    for name, derived in (batch.derived or {}).items():
        key = f".derived.{name}"
        if name in batch.names:
            yield from _fitted_function_faults(key, name, derived, sections)
        if derived.of not in batch.questions:
            yield f"{key}.of: '{derived.of}' is none of the release's attributes"
            continue
        attribute = sections.attributes.get(derived.of)
        if attribute is None or attribute.problems(""):
            continue
        if attribute.number is not None:
            yield f"{key}.of: '{derived.of}' is a number; a column is derived of listed values"
            continue
        symbols = [str(symbol) for symbol in attribute.symbols]
        for text in symbols:
            if text not in derived.values:
                yield f"{key}.values: none for {derived.of} = {text}"
        for text in derived.values:
            if text not in symbols:
                yield f"{key}.values: '{text}' is no value of {derived.of}"


def _fitted_function_faults(
    key: str, name: str, derived: Derived, sections: Sections
) -> Iterator[str]:
    """Faults of a derived column that is one of the release's attributes."""
    attribute = sections.attributes.get(name)
    if attribute is None or attribute.problems(""):
        return
    if attribute.number is not None:
        yield f"{key}: '{name}' is a number; a column is derived of listed values"
        return
    symbols = {str(symbol) for symbol in attribute.symbols}
    for value in derived.symbols:
        if str(value) not in symbols:
            yield f"{key}.values: '{value}' is no value of {name}"


def _column_rule_faults(batch: PeopleRelease, sections: Sections) -> Iterator[str]:
    """Faults of structural rules, if all attributes of the release are sound."""
    declared = {a.column: sections.attributes.get(a.attribute) for a in batch.answers}
    sound = {n: a for n, a in declared.items() if a is not None and not a.problems("")}
    if batch.rules is not None and len(sound) == len(declared):
        faults = column_rule_faults(batch.listed_rules, sound)
        yield from (f".rules{fault}" for fault in faults)


def grouped_faults(batch: BatchRelease, sections: Sections) -> Iterator[str]:
    """Faults of a batch release of groups with their members."""
    yield from data_set_faults(batch, sections)
    if not sections.has_groups:
        yield f": '{batch.kind}' is about groups of people: declare [groups]"
    elif sections.groups is not None and all(n in sections.attributes for n in batch.names):
        groups = sections.groups
        if groups.roles is None and batch.relations is not None:
            yield ".relations: no [groups.roles] say who is related to whom; leave it out"
        yield from _rules_faults(batch, groups, sections)
        if groups.roles is not None and not batch.data_set.roles:
            yield f": '{batch.kind}' knows nothing of [groups.roles]; take another kind"
        if KEY_COLUMN in {*groups.attributes, *batch.attributes}:
            yield f": the name '{KEY_COLUMN}' is reserved for the key of a group"


def _rules_faults(batch: BatchRelease, groups: Groups, sections: Sections) -> Iterator[str]:
    """Faults of structural rules. All attributes of the release are declared."""
    if batch.rules is None or "rules" not in batch.data_set.settings:
        return
    if groups.roles is None:
        yield ".rules: no [groups.roles] say who is head, spouse and child; declare them"
        return
    attributes = {name: sections.attributes[name] for name in batch.names}
    if not any(a.number or a.problems("") for a in attributes.values()):  # told elsewhere
        columns = {name: tuple(a.symbols) for name, a in attributes.items()}
        others = bool(groups.roles.others)
        rules = [read_group_rules(text) for text in batch.rules]
        faults = rule_faults(rules, columns, others=others, most=groups.most)
        yield from dict.fromkeys(f".rules{fault}" for fault in faults)


def groups_faults(sections: Sections) -> Iterator[str]:
    """Faults of `[groups]` and of the study's unit and relation, with their keys."""
    batches = sections.of(BatchRelease)
    if (
        sections.has_groups
        and not batches
        and all(r is not None for _, r in sections.numbered_releases)
    ):
        yield "groups: no release uses it: declare a batch release, or remove it"
    groups = sections.groups
    if groups is not None:
        yield from role_column_faults(groups, sections.attribute_names)
    if groups is not None and sections.unit == groups.unit:
        yield (
            f"study.unit: '{groups.unit}' is what groups are called; what is protected is a member"
            " of one, such as a person"
        )
    if batches and sections.neighbours is not None:
        try:
            check_relation(sections.neighbours)
        except UserError as error:
            yield from (f"study.{line}" for line in error.lines)


def role_column_faults(groups: Groups, attributes: Collection[str]) -> Iterator[str]:
    """Faults of the roles' column, against every attribute: a release may use any of them."""
    roles = groups.roles
    if roles is None:
        return
    if roles.column in attributes or roles.column in groups.attributes:
        yield f"groups.roles.column: '{roles.column}' is an attribute; a role is nobody's answer"
    if roles.column in {KEY_COLUMN, SIZE_COLUMN}:
        yield f"groups.roles.column: the name '{roles.column}' is reserved"
    if len({str(v) for v in roles.values}) < len(roles.values):
        yield "groups.roles: head, spouse, child and others must be different values"
    if roles.children >= max(groups.most, 2):
        yield f"groups.roles.children: must be fewer than groups.most = {groups.most}"


def batch_cost(batch: DataSetRelease, periods: Periods | None) -> Fraction:
    """The rho of all data sets of a release together; of one data set if periods have a fault."""
    if batch.at is not None:
        return batch.rho * len({*batch.at})
    if batch.every is None or periods is None:
        return batch.rho
    return batch.rho * (periods.count // batch.every)


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
    yield from _repeats(".events.columns", events.columns)
    for column, slots in zip(events.columns, release.slots, strict=True):
        declared = [sections.attributes.get(name) for name in slots]
        given_attributes = [attribute for attribute in declared if attribute is not None]
        if len(given_attributes) < len(declared):
            continue  # every missing attribute has its line
        if any(attribute.number is not None or attribute.place for attribute in given_attributes):
            yield f".events.columns: '{column}' must have listed values"
        elif any(attribute != given_attributes[0] for attribute in given_attributes):
            yield f".events.columns: the slots of '{column}' differ; declare them by `slots`"
        elif given_attributes[0].missing != ABSENT:
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
    candidates = release.candidates or ()
    if any(len({*level}) < len(level) for level in candidates):
        yield ".methods: a level names a method twice"
    if release.epsilon is None:
        return
    relation = sections.neighbours
    if relation in RELATIONS and release.rho != release.epsilon_cost(relation):
        yield ".epsilon: give it in place of rho, which follows from it"
    if min(release.epsilon) < LEAST_EPSILON:
        yield f".epsilon: must be at least {LEAST_EPSILON} at every level"
    if release.parts is not None:
        yield ".parts: splits rho; epsilon is stated for each level"
    if any(len(level) > 1 for level in candidates):
        yield ".methods: a choice between several needs rho instead of epsilon"


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
    yield from _repeats("places.regions", places.regions)
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
