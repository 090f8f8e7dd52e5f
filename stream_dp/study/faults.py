"""What the sections of a study file must be to each other: faults between releases, attributes,
periods and population, looked for in whatever sections are sound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from stream_dp.privacy.ledger import composed_cost

from . import group_faults
from .alphabet import ABSENT, Alphabet, matching_codes
from .groups import BatchRelease
from .model import (
    MOST_BINS,
    MOST_SYMBOLS,
    MOST_TOTALS,
    NO_CONTRASTS,
    Attribute,
    CumulativeRelease,
    JointRelease,
    Release,
    Study,
    WindowRelease,
)
from .periods import Periods
from .sections import Sections

_PADDED = ".padded: with rows declared nothing is padded; leave it out"


def section_faults(
    sections: Sections,
    unfit: Callable[[BatchRelease, Sections], Iterator[str]] = lambda batch, sections: iter(()),
) -> list[str]:
    """Every fault between sections, one line each.

    unfit: further faults of a batch release, those of fitting it.
    """
    problems: list[str] = []
    attributes = sections.attributes
    for name, attribute in attributes.items():
        problems += attribute.problems(f"attributes.{name}")
    releases = sections.releases
    used_names: set[str] = set()
    for number, release in sections.listed:
        if release is None:
            continue
        where = f"releases[{number}]"
        if release.name in used_names:
            problems.append(f"{where}.name: '{release.name}' stands there twice")
        used_names.add(release.name)
        if isinstance(release, BatchRelease):
            more = [*group_faults.batch_faults(release, sections), *unfit(release, sections)]
            problems += [f"{where}{fault}" for fault in more]
            continue
        problems += _unknown(release, sections, where)
        names = (*release.attributes, *(release.where or {}))
        sound = [attributes[name] for name in names if name in attributes]
        if len(sound) == len(names) and not any(a.problems("") for a in sound):
            problems += [f"{where}{fault}" for fault in _against(release, sections)]
    total = sections.rho
    costs = {b.name: group_faults.batch_cost(b, sections.periods) for b in sections.batches}
    cost = composed_cost(_cells(releases), {r.name: r.rho for r in releases} | costs)
    if total is not None and cost > total:
        problems.append(
            f"releases: their rhos add up to {float(cost):g}, more than study.rho = "
            f"{float(total):g}; lower them or raise the total"
        )
    return [*problems, *group_faults.groups_faults(sections), *_size(sections)]


def contradictions(study: Study) -> list[str]:
    """Every fault between the sections of a study that somebody else declared, one line each."""
    return section_faults(Sections.of(study))


def _cells(releases: list[Release]) -> dict[str, tuple[str, str]]:
    return {r.name: (k, str(v)) for r in releases for k, v in (r.where or {}).items()}


def _unknown(release: Release, sections: Sections, where: str) -> Iterator[str]:
    for key, names in (("attribute", release.attributes), ("where", tuple(release.where or {}))):
        for name in names:
            if name not in sections.attribute_names:
                yield f"{where}.{key}: no attribute '{name}' is declared"


def _against(release: Release, sections: Sections) -> Iterator[str]:
    """Faults of a release whose attributes are sound."""
    attributes = sections.attributes
    symbols = tuple(attributes[name].symbols for name in release.attributes)
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
        if value not in attributes[name].values:
            yield f".where: {value!r} is no value of {name}; it has {_listed(attributes[name])}"
        if name in release.attributes:
            yield f".attribute: '{name}' is the same for all of a stratum of it; leave it out"
    yield from _periods(release, sections.periods, len(alphabet.values))
    if not isinstance(release, WindowRelease):
        for word in release.event:
            if not matching_codes(str(word), alphabet.values):
                yield f".event: {word!r} is no value of {alphabet.name}; {_known(alphabet)}"
            elif alphabet.absent in matching_codes(str(word), alphabet.values):
                yield ".event: 'absent' cannot be the event"
    if sections.neighbours is not None:
        yield from _rows(release, alphabet, sections.neighbours == "add_remove")


def _listed(attribute: Attribute) -> str:
    return _short([str(value) for value in attribute.values])


def _known(alphabet: Alphabet) -> str:
    """How an event's values are written."""
    if len(alphabet.attributes) == 1:
        return f"it has {_short([str(v) for v in alphabet.parts[0] if v != ABSENT])}"
    each = [f"{n}={part[0]}" for n, part in zip(alphabet.attributes, alphabet.parts, strict=True)]
    return f"write '{'&'.join(each)}', or a part such as '{each[0]}', with its own values"


def _short(words: list[str]) -> str:
    return ", ".join([*words[:20], *(["..."] if len(words) > 20 else [])])


def _periods(release: Release, periods: Periods | None, q: int) -> Iterator[str]:
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
    if not isinstance(release, WindowRelease) and horizon > MOST_TOTALS:
        yield f": at most {MOST_TOTALS} periods are supported, not {horizon}"
    if not isinstance(release, CumulativeRelease):
        if release.width > horizon:
            yield f".width: {release.width} periods is over the horizon of {horizon}"
        elif (bins := q**release.width) > MOST_BINS:
            yield f".width: {bins} patterns to count; at most {MOST_BINS} are supported"


def _rows(release: Release, alphabet: Alphabet, private: bool) -> Iterator[str]:
    """What must be declared of the number of rows, and what must not."""
    share = release.size_share if isinstance(release, CumulativeRelease) else None
    if release.where is not None:
        if release.rows is None:
            yield ".rows: is required: the size of a stratum is private; declare a bound on it"
        if isinstance(release, WindowRelease) and release.padded:
            yield _PADDED
        return
    if not private:
        if release.rows is not None or share is not None:
            yield ": rows and size_share are for add_remove; here n is public"
        return
    if isinstance(release, CumulativeRelease):
        if release.rows is None and share is None:
            yield (
                ": under add_remove n is private: declare rows = N, a bound on the people,"
                " or size_share = 0.1, a part of this release's rho that measures n"
            )
    elif release.rows is not None and alphabet.absent is None:
        yield (
            f".rows: a bound goes with people who come and go: declare missing = '{ABSENT}' for"
            f" {alphabet.name}, or leave rows out"
        )
    elif release.rows is not None and isinstance(release, WindowRelease) and release.padded:
        yield _PADDED
    by_contrasts = not isinstance(release, CumulativeRelease) and release.strategy == "contrasts"
    if by_contrasts and release.rows is None:
        yield f".strategy: {NO_CONTRASTS}"
    if isinstance(release, JointRelease) and alphabet.absent is not None and release.rows is None:
        yield ".rows: is required with 'absent': declare a bound on the people"


def _size(sections: Sections) -> list[str]:
    population = sections.population
    if population is None:
        return []
    if sections.neighbours == "add_remove" and population.size is not None:
        return [
            "study.population.size: under add_remove n is private, and a bound that turns people"
            " away would let one person's coming change another's place: remove it"
        ]
    if sections.neighbours in {"replace_one", "replace_in_place"} and population.size is None:
        return [f"study.population.size: is required: {sections.neighbours} makes n public"]
    return []
