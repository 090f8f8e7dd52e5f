"""Families of releases and their kinds: the list for every layer.

A family says what a release publishes and what its mechanism looks at. A kind is a mechanism of a
family. Each layer has one table with its part for every family (`Registry`), so that a layer finds
its part without asking which class a declaration has. The parts of a kind that differ inside a
family stand in its entry of `KINDS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Generic, Literal, Self, TypeVar

Neighbours = Literal["add_remove", "replace_one", "replace_in_place"]
K = TypeVar("K", bound=Enum)
V = TypeVar("V")


class Family(StrEnum):
    """The content of a release."""

    WINDOW = "window"
    """A panel with every pattern of the last periods."""
    CUMULATIVE = "cumulative"
    """A panel with the totals of an event."""
    JOINT = "joint"
    """A panel with patterns and totals."""
    PEOPLE = "people"
    """A table of people."""
    HOUSEHOLDS = "households"
    """A table of groups and a table of their members."""
    EVENTS = "events"
    """A table of people and a table of their events."""
    SIZES = "sizes"
    """How many places have each number of people, by region."""


class DescribedKind(StrEnum):
    """A kind with a sentence for the reference of study files.

    about: the sentence
    """

    about: str

    def __new__(cls, name: str, about: str) -> Self:
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.about = about
        return kind


class Strategy(DescribedKind):
    """The measurement strategy of a window."""

    RESIDUALS = "residuals", "Each interaction of the window's periods, once."
    HISTOGRAM = "histogram", "All patterns, in every period (Bun et al. 2024, Algorithm 1)."


PANEL_FAMILIES = (Family.WINDOW, Family.CUMULATIVE, Family.JOINT)
TABLE_FAMILIES = (Family.PEOPLE, Family.HOUSEHOLDS, Family.EVENTS)
DATA_SET_FAMILIES = (*TABLE_FAMILIES, Family.SIZES)


class Registry(Mapping[K, V], Generic[K, V]):
    """A layer's part for every member of an enumeration.

    >>> Registry("unit", [Family.PEOPLE, Family.SIZES], {Family.PEOPLE: "person"})
    Traceback (most recent call last):
    ...
    TypeError: unit: no part for 'sizes'
    """

    def __init__(self, title: str, keys: Iterable[K], values: Mapping[K, V]) -> None:
        """title: of the values. Raises TypeError unless every key has a value."""
        for key in keys:
            if key not in values:
                raise TypeError(f"{title}: no part for '{key.value}'")
        self._values = dict(values)

    def __getitem__(self, key: K) -> V:
        return self._values[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


TABLES: Registry[Family, tuple[str, ...]] = Registry(
    "tables of a data set",
    DATA_SET_FAMILIES,
    {
        Family.PEOPLE: ("people",),
        Family.HOUSEHOLDS: ("groups", "people"),
        Family.EVENTS: ("people", "events"),
        Family.SIZES: ("regions", "sizes"),
    },
)


class Kind(StrEnum):
    """The mechanism of a release: the key `kind` of a study file."""

    WINDOW = "window"
    CUMULATIVE = "cumulative"
    JOINT = "joint"
    MIXTURE = "mixture"
    RAP = "rap"
    MATCH = "match"
    SIZES = "sizes"
    INDEPENDENT = "independent"
    MWEM = "mwem"
    HPD_FIXED = "hpd-fixed"
    HPD_EVENTS = "hpd-events"


class Measured(StrEnum):
    """The form of a data set's noisy measurements; decides how queries are answered."""

    RESIDUALS = "residuals"
    """Residuals of sets of columns."""
    TWO_PHASES = "two phases"
    """Single columns, then residuals of the values that stand out."""
    MARGINALS = "marginals"
    """Marginals of groups and members, or of people and events."""
    SIZES = "sizes"
    """Histograms of sizes by region."""


@dataclass(frozen=True)
class Synthesizer:
    """The functions of a kind of data set in the batch layer, and the properties of the kind.

    fit, planned, titles: functions, as MODULE:FUNCTION below `stream_dp.batch`. `fit` is a
        `batch.synthesizer.Synthesizer`. `planned` gives the phases before any data. `titles` gives
        the mechanisms that noisy counts may choose from; without it there is one, the kind's title.
    relations: the neighbouring relations under which the cost is proved.
    measured: the form of the measurements.
    settings: the keys of a study file that the kind uses beside those of every data set.
    numbers: whether columns may be numbers.
    roles: whether the kind knows of `[groups.roles]`.
    limits: a function that raises UserError for a domain that is too large, MODULE:FUNCTION.
    jax: whether the fit needs JAX, the `batch` extra.
    """

    fit: str
    planned: str
    relations: tuple[Neighbours, ...]
    measured: Measured
    settings: tuple[str, ...] = ()
    titles: str | None = None
    numbers: bool = False
    roles: bool = False
    limits: str | None = None
    jax: bool = True


@dataclass(frozen=True)
class DeclaredKind:
    """A kind of release.

    title: the mechanism in words, as certificates name it; empty where parameters decide.
    about: the sentence of the reference.
    synthesizer: of a data set.
    """

    family: Family
    title: str
    about: str
    synthesizer: Synthesizer | None = None


RELATIONS: tuple[Neighbours, ...] = ("add_remove", "replace_one", "replace_in_place")
_PICKED = ("rounds", "per_round", "ways", "relations", "rules")
_GROUPS = "groups.workload.groups_plan"
_OF_PEOPLE = ("fuse", "first", "derived")  # of every table of people
_PEOPLE = Synthesizer(
    fit="people.people_synthesizer:fit_people",
    planned="people.planned_people:planned_people",
    titles="people.planned_people:people_titles",
    relations=RELATIONS,
    measured=Measured.RESIDUALS,
    settings=("rounds", "per_round", *_OF_PEOPLE),
)
KINDS: Registry[Kind, DeclaredKind] = Registry(
    "kinds of releases",
    Kind,
    {
        Kind.WINDOW: DeclaredKind(
            Family.WINDOW, "", "A panel with every pattern of the last periods."
        ),
        Kind.CUMULATIVE: DeclaredKind(
            Family.CUMULATIVE,
            "",
            "A panel with the number of people who have had the event in at least b periods.",
        ),
        Kind.JOINT: DeclaredKind(Family.JOINT, "", "One panel for patterns and totals."),
        Kind.MIXTURE: DeclaredKind(
            Family.PEOPLE,
            "residuals of people's columns, a mixture of products of blocks",
            "A table of people with listed values; pairs of columns are measured.",
            _PEOPLE,
        ),
        Kind.RAP: DeclaredKind(
            Family.PEOPLE,
            "residuals of people's columns, numbers in public bins, a mixture of products of"
            " blocks",
            "A table of people with listed values and numbers, labels and linear thresholds.",
            replace(_PEOPLE, settings=("labels", "linear", *_PEOPLE.settings), numbers=True),
        ),
        Kind.MATCH: DeclaredKind(
            Family.PEOPLE,
            "single columns, then marginals of the values that stand out; a mixture of products of"
            " blocks",
            "A table of people, measured in two phases: single columns first, then marginals.",
            Synthesizer(
                fit="people.match_synthesizer:fit_match",
                planned="people.planned_people:planned_match",
                relations=RELATIONS,
                measured=Measured.TWO_PHASES,
                settings=(
                    *("one_ways", "threshold", "exempt", "composites", "coarser", "marginals"),
                    *_OF_PEOPLE,
                ),
                numbers=True,
            ),
        ),
        Kind.SIZES: DeclaredKind(
            Family.SIZES,
            "sizes of groups in a tree of regions, levels made consistent",
            "How many places have each number of people, in every region.",
            Synthesizer(
                fit="sizes.declared_sizes:fit_release",
                planned="sizes.declared_sizes:planned_sizes",
                relations=("add_remove", "replace_one"),
                measured=Measured.SIZES,
                settings=("largest", "methods", "parts", "epsilon"),
                jax=False,
            ),
        ),
        Kind.INDEPENDENT: DeclaredKind(
            Family.HOUSEHOLDS,
            "independent attributes from noisy marginals",
            "Groups and members, every attribute by itself.",
            Synthesizer(
                fit="groups.independent:fit_independent",
                planned=f"{_GROUPS}:planned_independent",
                relations=("replace_in_place",),
                measured=Measured.MARGINALS,
                jax=False,
            ),
        ),
        Kind.MWEM: DeclaredKind(
            Family.HOUSEHOLDS,
            "multiplicative weights over groups and members (MWEM)",
            "A weight for every group that can be, of small domains only.",
            Synthesizer(
                fit="groups.mwem.mwem:fit_mwem",
                planned=f"{_GROUPS}:planned_groups",
                relations=("replace_in_place",),
                measured=Measured.MARGINALS,
                settings=_PICKED,
                roles=True,
                limits="groups.mwem.grouptypes:require_few_types",
                jax=False,
            ),
        ),
        Kind.HPD_FIXED: DeclaredKind(
            Family.HOUSEHOLDS,
            "hierarchical product distributions, fixed (HPD-Fixed)",
            "Groups and members as a mixture of products, whose logits are fitted.",
            Synthesizer(
                fit="groups.hpd.hpd_synthesizer:fit_mixture",
                planned=f"{_GROUPS}:planned_groups",
                relations=("replace_in_place",),
                measured=Measured.MARGINALS,
                settings=(*_PICKED, "rows"),
                roles=True,
            ),
        ),
        Kind.HPD_EVENTS: DeclaredKind(
            Family.EVENTS,
            "hierarchical product distributions of people and events (HPD-Fixed)",
            "People and what they do several times in a period, such as trips or visits.",
            Synthesizer(
                fit="groups.hpd.hpd_synthesizer:fit_mixture",
                planned=f"{_GROUPS}:planned_events",
                relations=("replace_in_place", "replace_one"),
                measured=Measured.MARGINALS,
                settings=("rounds", "per_round", "ways", "rows"),
            ),
        ),
    },
)


def kinds_of(family: Family) -> tuple[Kind, ...]:
    """The kinds of a family, in the order of `Kind`."""
    return tuple(kind for kind in Kind if KINDS[kind].family is family)
