"""Faults between the sections of a study file: releases, attributes, periods, population.

Every section is checked against the sound sections.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

from stream_dp.privacy.ledger import composed_cost

from .attribute import MOST_SYMBOLS, Alphabet, Attribute, matching_codes
from .data_set_faults import batch_cost, events_relation_faults, groups_faults, places_faults
from .declared_sections import NO_WEIGHTS
from .families import CounterKind, Strategy
from .field_types import ABSENT
from .panel_releases import (
    MOST_PRESENCE_WIDTH,
    MOST_TOTALS,
    CumulativeRelease,
    JointRelease,
    Release,
    WindowRelease,
)
from .periods import WITHOUT_HORIZON, Periods
from .study import MOST_BINS, Sections, Study
from .table_releases import DataSetRelease


def section_faults(
    sections: Sections,
    fit_faults: Callable[[DataSetRelease, Sections], Iterator[str]] = lambda batch, sections: iter(
        ()
    ),
) -> list[str]:
    """Finds all faults between sections, in lines.

    fit_faults: the reasons why a batch release cannot be fitted.
    """
    problems: list[str] = []
    attributes = sections.attributes
    for name, attribute in attributes.items():
        problems += attribute.problems(f"attributes.{name}")
    releases = sections.releases
    used_names: set[str] = set()
    for number, release in sections.numbered_releases:
        if release is None:
            continue
        key = f"releases[{number}]"
        if release.name in used_names:
            problems.append(f"{key}.name: '{release.name}' stands there twice")
        used_names.add(release.name)
        faults = [*release.kind.faults(release, sections)]
        if isinstance(release, DataSetRelease):
            faults += fit_faults(release, sections)
        problems += [f"{key}{fault}" for fault in faults]
    total = sections.rho
    costs = {b.name: batch_cost(b, sections.periods) for b in sections.batches}
    cost = composed_cost(_strata(releases), {r.name: r.rho for r in releases} | costs)
    if sections.gate is not None:
        cost += sections.gate.rho
    if total is not None and cost > total:
        rhos = "their rhos" if sections.gate is None else "their rhos and that of study.gate"
        problems.append(
            f"releases: {rhos} add up to {float(cost):g}, {float(cost - total):g} more than"
            f" study.rho = {float(total):g}; lower the shares: they may add up to 1"
        )
    for faults_of in (groups_faults, places_faults, events_relation_faults):
        problems += faults_of(sections)
    problems += [*_size_faults(sections), *_gate_faults(sections), *_weight_faults(sections)]
    return problems


def contradictions(study: Study) -> list[str]:
    """Finds all faults between the sections of a published study, in lines."""
    return section_faults(Sections.of_study(study))


def _strata(releases: list[Release]) -> dict[str, tuple[str, str]]:
    """By release with a stratum, the stratum's attribute and value."""
    return {r.name: (k, str(v)) for r in releases for k, v in (r.where or {}).items()}


RowFaults = Callable[..., Iterator[str]]  # of a release's own declaration


def _panel_faults(release: Release, sections: Sections, row_faults: RowFaults) -> Iterator[str]:
    """Faults of a panel. row_faults: those of `rows`, of the panel's kind."""
    for key, names in (("attribute", release.attributes), ("where", tuple(release.where or {}))):
        for name in names:
            if name not in sections.attribute_names:
                yield f".{key}: no attribute '{name}' is declared"
    sound = [sections.attributes.get(name) for name in release.questions]
    if not any(attribute is None or attribute.problems("") for attribute in sound):
        yield from _cross_faults(release, sections, row_faults)


def _cross_faults(release: Release, sections: Sections, row_faults: RowFaults) -> Iterator[str]:
    """Contradictions between a release with sound attributes and the sections."""
    attributes = sections.attributes
    for name in release.questions:
        if attributes[name].number is not None:
            yield f": '{name}' is a number, and panels are of listed values; kind 'rap' has numbers"
            return
    symbols = tuple(tuple(attributes[name].symbols) for name in release.attributes)
    together = math.prod(map(len, symbols))
    if together > MOST_SYMBOLS:
        yield f".attribute: {together} values together; at most {MOST_SYMBOLS}"
        return
    alphabet = Alphabet(release.attributes, symbols, release.where is not None)
    if len(set(release.attributes)) < len(release.attributes):
        yield ".attribute: an attribute stands there twice"
    if len(alphabet.values) > MOST_SYMBOLS:
        yield f".attribute: {len(alphabet.values)} values together; at most {MOST_SYMBOLS}"
    for name, value in (release.where or {}).items():
        if not attributes[name].fixed:
            yield f".where: declare attributes.{name} with fixed = true: a person keeps a stratum"
        if value not in attributes[name].listed:
            yield f".where: {value!r} is no value of {name}; it has {_listed(attributes[name])}"
        if name in release.attributes:
            yield f".attribute: '{name}' is the same for all of a stratum of it; leave it out"
    yield from _period_faults(release, sections.periods, len(alphabet.values))
    if release.totals is not None:
        for word in release.totals.event:
            if not matching_codes(str(word), alphabet.values):
                advice = _value_examples(alphabet)
                yield f".event: {word!r} is no value of {alphabet.name}; {advice}"
            elif alphabet.absent in matching_codes(str(word), alphabet.values):
                yield ".event: 'absent' cannot be the event"
    if sections.neighbours is not None:
        closed = sections.population is not None and sections.population.closed is True
        private = sections.neighbours == "add_remove"
        yield from row_faults(release, alphabet, private=private, closed=closed)


def _listed(attribute: Attribute) -> str:
    return _short([str(value) for value in attribute.listed])


def _value_examples(alphabet: Alphabet) -> str:
    """The notation of an event's values, with examples."""
    if len(alphabet.attributes) == 1:
        return f"it has {_short([str(v) for v in alphabet.symbols[0] if v != ABSENT])}"
    examples = [
        f"{n}={symbols[0]}"
        for n, symbols in zip(alphabet.attributes, alphabet.symbols, strict=True)
    ]
    return f"write '{'&'.join(examples)}', or a part such as '{examples[0]}', with its own values"


def _short(texts: list[str]) -> str:
    return ", ".join([*texts[:20], *(["..."] if len(texts) > 20 else [])])


def _period_faults(release: Release, periods: Periods | None, q: int) -> Iterator[str]:
    """Faults of a panel's periods, and of its width over them. q: the number of symbols."""
    if periods is None:
        return
    labels = periods.labels
    for key, label in (("first", release.first), ("last", release.last)):
        if label is not None and label not in labels:
            yield f".{key}: '{label}' is none of the study's periods {labels[0]} to {labels[-1]}"
            return
    start = 0 if release.first is None else labels.index(release.first)
    end = len(labels) if release.last is None else labels.index(release.last) + 1
    horizon = end - start
    if horizon < 1:
        yield f".last: '{release.last}' comes before '{release.first}'"
        return
    patterns, totals = release.patterns, release.totals
    if periods.open and release.last is None:
        if patterns is not None:
            yield f".last: {WITHOUT_HORIZON}; declare the last period of the patterns"
        elif totals is not None and totals.counter not in (None, CounterKind.UNBOUNDED):
            yield f".counter: {WITHOUT_HORIZON}; remove it, or write 'unbounded'"
    if totals is not None and horizon > MOST_TOTALS:
        yield f": at most {MOST_TOTALS} periods are supported, not {horizon}"
    if patterns is not None:
        if patterns.width > horizon:
            yield f".width: {patterns.width} periods is over the horizon of {horizon}"
        elif (bins := q**patterns.width) > MOST_BINS:
            yield f".width: {bins} patterns to count; at most {MOST_BINS} are supported"


def _pattern_row_faults(
    release: WindowRelease | JointRelease, alphabet: Alphabet, *, private: bool, closed: bool
) -> Iterator[str]:
    """Faults of `rows` and of the strategy, of a release with patterns.

    private: whether the number of people is private.
    closed: whether nobody enters after the first period.
    """
    if release.where is not None:
        yield from _stratum_faults(release)
    elif not private:
        yield from _public_faults(release.rows)
        return
    elif release.rows is not None and closed:
        yield (
            ".rows: in a closed cohort everybody is counted in every period, the absent too: leave"
            " rows out"
        )
    elif release.rows is not None and alphabet.absent is None:
        yield (
            f".rows: a bound goes with people who come and go: declare missing = '{ABSENT}' for"
            f" {alphabet.name}, or leave rows out"
        )
    if release.strategy == Strategy.RESIDUALS and release.width > MOST_PRESENCE_WIDTH:
        yield (
            ".strategy: where people come and go or enter late, 'residuals' are made for a width"
            f" of at most {MOST_PRESENCE_WIDTH}; declare 'histogram'"
        )


def _window_row_faults(
    release: WindowRelease, alphabet: Alphabet, *, private: bool, closed: bool
) -> Iterator[str]:
    yield from _pattern_row_faults(release, alphabet, private=private, closed=closed)
    comes_and_goes = private and release.rows and not closed and alphabet.absent is not None
    if release.padded and (release.where is not None or comes_and_goes):
        yield ".padded: with rows declared nothing is padded; leave it out"


def _joint_row_faults(
    release: JointRelease, alphabet: Alphabet, *, private: bool, closed: bool
) -> Iterator[str]:
    yield from _pattern_row_faults(release, alphabet, private=private, closed=closed)
    is_open = private and release.where is None and alphabet.absent is not None and not closed
    if is_open and release.rows is None:
        yield ".rows: is required with 'absent': declare a bound on the people"


def _totals_row_faults(
    release: CumulativeRelease, alphabet: Alphabet, *, private: bool, closed: bool
) -> Iterator[str]:
    """Faults of `rows` and `size_share`."""
    rows, share = release.rows, release.size_share
    if release.where is not None:
        yield from _stratum_faults(release)
    elif not private:
        yield from _public_faults(rows, share)
    elif rows is None and share is None:
        yield (
            ": under add_remove n is private: declare rows = N, a bound on the people,"
            " or size_share = 0.1, a part of this release's rho that measures n"
        )
    elif closed and rows is not None and share is not None:
        yield (
            ": in a closed cohort nobody enters later, so the people are counted once: declare"
            " rows or size_share, not both"
        )


def _stratum_faults(release: Release) -> Iterator[str]:
    if release.rows is None:
        yield ".rows: is required: the size of a stratum is private; declare a bound on it"


def _public_faults(*bounds: object) -> Iterator[str]:
    """bounds: declared values for a private number of people, where the number is public."""
    if any(bound is not None for bound in bounds):
        yield ": rows and size_share are for add_remove; here n is public"


def _size_faults(sections: Sections) -> list[str]:
    """Faults of the number of people and of a closed cohort, under the study's relation."""
    population = sections.population
    if population is None:
        return []
    if population.closed and sections.neighbours not in {"add_remove", None}:
        return [
            f"study.population.closed: is for add_remove, where n is private; {sections.neighbours}"
            " counts everybody from the start by the declared size: remove it"
        ]
    if sections.neighbours == "add_remove" and population.size is not None:
        return [
            "study.population.size: under add_remove n is private, and a bound that turns people"
            " away would let one person's coming change another's place: remove it"
        ]
    if sections.neighbours in {"replace_one", "replace_in_place"} and population.size is None:
        return [f"study.population.size: is required: {sections.neighbours} makes n public"]
    return []


def _gate_faults(sections: Sections) -> Iterator[str]:
    """Faults of `[study.gate]`."""
    gate, population = sections.gate, sections.population
    if gate is None or population is None:
        return
    if sections.periods is not None and sections.periods.open:
        yield f"study.gate: its rho is divided by the periods, and {WITHOUT_HORIZON}; remove it"
    if not sections.attribute_names:
        yield "study.gate: counts people with an answer, and no attribute is declared: remove it"
    if gate.expected is None and population.size is None:
        yield (
            "study.gate.expected: is required where the number of people is private: declare how"
            " many of earlier periods answer in a full one"
        )
    elif gate.expected and population.size and gate.expected > population.size:
        yield f"study.gate.expected: is more than study.population.size = {population.size}"


def _weight_faults(sections: Sections) -> Iterator[str]:
    """Faults of the weighting cells. Weighting cells need a listed attribute, and a total for each
    value.
    """
    weights = sections.weights
    if weights is None:
        return
    if weights.by not in sections.attribute_names:
        yield f"study.weights.by: no attribute '{weights.by}' is declared"
        return
    attribute = sections.attributes.get(weights.by)
    if attribute is None:
        return  # its own faults are reported already
    if attribute.number is not None or attribute.place:
        yield f"study.weights.by: '{weights.by}' has no listed values; {NO_WEIGHTS}"
        return
    values = [str(value) for value in attribute.listed]
    for key, numbers in (("totals", weights.totals), ("sample", weights.sample)):
        if numbers is not None and sorted(numbers) != sorted(values):
            yield (
                f"study.weights.{key}: declare a number for each value of '{weights.by}':"
                f" {_listed(attribute)}"
            )
    drawn = weights.sample or {}
    for value in values:
        if drawn.get(value, 0) > weights.totals.get(value, math.inf):
            yield f"study.weights.sample.{value}: is more than totals.{value}, the population's"
    if not any(_has_cells(release, weights.by) for _, release in sections.numbered_releases):
        yield (
            f"study.weights.by: no release has the cells of '{weights.by}'; give a panel strata ="
            f" '{weights.by}', or a table of people the column '{weights.by}'"
        )


def _has_cells(release: Release | DataSetRelease | None, by: str) -> bool:
    """Whether a release may answer by cells; a release with faults is taken to do so."""
    if release is None:
        return True
    return by in release.cells


# By kind of panel, its faults, to be put after the release's key in the file.
window_faults = partial(_panel_faults, row_faults=_window_row_faults)
cumulative_faults = partial(_panel_faults, row_faults=_totals_row_faults)
joint_faults = partial(_panel_faults, row_faults=_joint_row_faults)
