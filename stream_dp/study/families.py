"""Families of releases and their kinds: the list for every layer.

A family says what a release publishes and what its mechanism looks at. A kind is a mechanism of a
family, and one value: whoever adds a kind adds a member of `Kind`, and the functions that it names.
A layer has one table with its part for every family (`Registry`), so that a layer finds its part
without asking which family or kind a release has. A release of a study file is a `DeclaredRelease`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar

from .field_types import Declaration
from .plugins import COUNTERS, KINDS, PluggedEnum, plugin, plugin_packages

if TYPE_CHECKING:
    from .panel_releases import CumulativeRelease, JointRelease, WindowRelease
    from .periods import Periods
    from .study import Sections

Neighbours = Literal["add_remove", "replace_one", "replace_in_place"]
RELATIONS: tuple[Neighbours, ...] = ("add_remove", "replace_one", "replace_in_place")
K = TypeVar("K", bound=Enum)
V = TypeVar("V")


class Family(StrEnum):
    """The content of a release.

    looks_at: the data that its mechanism looks at, in words.
    tables: the published tables of a data set; none of a panel, which is one table that grows.
    """

    looks_at: str
    tables: tuple[str, ...]

    def __new__(cls, name: str, looks_at: str, *tables: str) -> Self:
        family = str.__new__(cls, name)
        family._value_ = name
        family.looks_at, family.tables = looks_at, tables
        return family

    WINDOW = "window", "people"
    """A panel with every pattern of the last periods."""
    CUMULATIVE = "cumulative", "people"
    """A panel with the totals of an event."""
    JOINT = "joint", "people"
    """A panel with patterns and totals."""
    PEOPLE = "people", "people", "people"
    """A table of people."""
    HOUSEHOLDS = "households", "groups and their members", "groups", "people"
    """A table of groups and a table of their members."""
    EVENTS = "events", "people and their events", "people", "events"
    """A table of people and a table of their events."""
    SIZES = "sizes", "places", "regions", "sizes"
    """How many places have each number of people, by region."""


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


class DescribedKind(PluggedEnum):
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


class CounterKind(DescribedKind):
    """A stream counter in a study file.

    `stream_dp/continual/counters/` has a module with the name of each kind, which defines its
    `METHOD`. `tests/kit/counter_contract.py` states what a counter owes.
    """

    TREE = "tree", "The binary tree (Bun et al. 2024, Algorithm 3)."
    HONAKER = "honaker", "The binary tree with estimates from below (Honaker 2015)."
    SQUARE_ROOT = "square-root", "The square root of the prefix sums (Henzinger et al. 2023)."
    UNBOUNDED = "unbounded", "A counter whose noise does not depend on the horizon."

    @classmethod
    def plugged(cls, name: str) -> Self | None:
        """A counter of a plug-in package; `counters/methods.py` loads the package."""
        package = plugin_packages(COUNTERS).get(name)
        return None if package is None else cls.made(package, name, "")


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


def loaded(package: str, name: str | Callable[..., Any]) -> Any:
    """The object named by a kind as MODULE:NAME below a package; a plug-in gives the object."""
    if not isinstance(name, str):
        return name
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"{package}.{module}"), attribute)


@dataclass(frozen=True, kw_only=True)
class DeclaredKind:
    """A kind of release.

    about: the sentence of the reference.
    declaration: the model of its tables in a study file, as MODULE:CLASS below `stream_dp.study`.
        It says what a release charges and which mechanisms a certificate may name.
    faults: the function of a declaration's faults, as MODULE:FUNCTION below `stream_dp.study`.
    """

    family: Family
    about: str
    declaration: str
    faults: str


@dataclass(frozen=True, kw_only=True)
class DataSetKind(DeclaredKind):
    """A kind of data set: its announcement and its functions.

    mechanism: the mechanism in words, as certificates name it.
    settings: the keys of the declaration that the fit uses, beside those that are required and
        those of every data set. A study file with another key is refused.
    relations: the neighbouring relations under which the cost is proved.
    measured: the form of the measurements.
    plan: the function that says before any data what a fit will do, a `planned_phases.FitPlan`, as
        MODULE:FUNCTION below `stream_dp.batch`; of another package the function itself.
    fit: the `batch.synthesizer.Synthesizer`, named likewise.
    limits: a function that raises UserError for a domain that is too large, MODULE:FUNCTION.
    learns: whether the fit learns from what panels have published of the same people.
    numbers: whether columns may be numbers.
    roles: whether the kind knows of `[groups.roles]`.
    jax: whether the fit needs JAX, the `batch` extra.
    """

    mechanism: str
    settings: tuple[str, ...] = ()
    relations: tuple[Neighbours, ...]
    measured: Measured
    plan: str | Callable[..., Any]
    fit: str | Callable[..., Any]
    limits: str | None = None
    learns: bool = False
    numbers: bool = False
    roles: bool = False
    jax: bool = True


_OF_PEOPLE = ("fuse", "first", "derived", "rules")
_PEOPLE = DataSetKind(
    family=Family.PEOPLE,
    about="A table of people with listed values; pairs of columns are measured.",
    mechanism="residuals of people's columns, a mixture of products of blocks",
    declaration="table_releases:PeopleRelease",
    settings=("rounds", "per_round", *_OF_PEOPLE),
    relations=RELATIONS,
    measured=Measured.RESIDUALS,
    faults="data_set_faults:people_faults",
    plan="people.planned_people:planned_people",
    fit="people.people_synthesizer:fit_people",
    learns=True,
)
_HOUSEHOLDS = DataSetKind(
    family=Family.HOUSEHOLDS,
    about="Groups and members as a mixture of products, whose logits are fitted.",
    mechanism="hierarchical product distributions, fixed (HPD-Fixed)",
    declaration="group_releases:BatchRelease",
    settings=("rounds", "per_round", "ways", "relations", "rules", "rows", "fuse"),
    relations=("replace_in_place",),
    measured=Measured.MARGINALS,
    faults="data_set_faults:grouped_faults",
    plan="groups.workload.groups_plan:planned_groups",
    fit="groups.hpd.hpd_synthesizer:fit_mixture",
    roles=True,
)


class Kind(PluggedEnum):
    """The mechanism of a release: the key `kind` of a study file, with all that holds for it."""

    declared: DeclaredKind

    @classmethod
    def plugged(cls, name: str) -> Self | None:
        """A kind of data set of another package."""
        plugged = plugin(KINDS, name, DataSetKind)
        if plugged is None:
            return None
        mechanism = plugged.titled(plugged.value.mechanism)
        return cls.made(plugged.package, name, replace(plugged.value, mechanism=mechanism))

    def __new__(cls, name: str, declared: DeclaredKind) -> Self:
        kind = str.__new__(cls, name)
        kind._value_ = name
        kind.declared = declared
        return kind

    WINDOW = (
        "window",
        DeclaredKind(
            family=Family.WINDOW,
            about="A panel with every pattern of the last periods.",
            declaration="panel_releases:WindowRelease",
            faults="section_faults:window_faults",
        ),
    )
    CUMULATIVE = (
        "cumulative",
        DeclaredKind(
            family=Family.CUMULATIVE,
            about="A panel with the number of people who have had the event in at least b periods.",
            declaration="panel_releases:CumulativeRelease",
            faults="section_faults:cumulative_faults",
        ),
    )
    JOINT = (
        "joint",
        DeclaredKind(
            family=Family.JOINT,
            about="One panel for patterns and totals.",
            declaration="panel_releases:JointRelease",
            faults="section_faults:joint_faults",
        ),
    )
    TABLE = (
        "table",
        replace(
            _PEOPLE,
            about="A table of people; single columns and all pairs, or pairs picked in rounds.",
            mechanism=(
                "single columns, then pairs of the values that stand out; a graphical model,"
                " weighted to all pairs"
            ),
            declaration="table_releases:MatchRelease",
            settings=(
                *("one_ways", "threshold", "exempt", "composites", "coarser", "labels"),
                *_OF_PEOPLE,
            ),
            measured=Measured.TWO_PHASES,
            faults="data_set_faults:match_faults",
            plan="people.planned_people:planned_table",
            fit="people.people_synthesizer:fit_table",
            numbers=True,
            jax=False,
        ),
    )
    MIXTURE = "mixture", _PEOPLE
    RAP = (
        "rap",
        replace(
            _PEOPLE,
            about="A table of people with listed values and numbers, labels and linear thresholds.",
            mechanism=(
                "residuals of people's columns, numbers in public bins, a mixture of products of"
                " blocks"
            ),
            settings=("labels", "linear", "rows", *_PEOPLE.settings),
            numbers=True,
        ),
    )
    MATCH = (
        "match",
        replace(
            _PEOPLE,
            about=(
                "A table of people, measured in two phases: single columns first, then marginals."
            ),
            mechanism=(
                "single columns, then marginals of the values that stand out; a mixture of products"
                " of blocks"
            ),
            declaration="table_releases:MatchRelease",
            settings=(
                *("one_ways", "threshold", "exempt", "composites", "coarser", "marginals"),
                *_OF_PEOPLE,
            ),
            measured=Measured.TWO_PHASES,
            faults="data_set_faults:match_faults",
            plan="people.planned_people:planned_match",
            fit="people.people_synthesizer:fit_match",
            numbers=True,
        ),
    )
    SIZES = (
        "sizes",
        DataSetKind(
            family=Family.SIZES,
            about="How many places have each number of people, in every region.",
            mechanism="sizes of groups in a tree of regions, levels made consistent",
            declaration="place_releases:SizesRelease",
            settings=("largest", "methods", "parts", "epsilon"),
            relations=("add_remove", "replace_one"),
            measured=Measured.SIZES,
            faults="data_set_faults:sizes_faults",
            plan="sizes.declared_sizes:planned_sizes",
            fit="sizes.declared_sizes:fit_release",
            jax=False,
        ),
    )
    INDEPENDENT = (
        "independent",
        replace(
            _HOUSEHOLDS,
            about="Groups and members, every attribute by itself.",
            mechanism="independent attributes from noisy marginals",
            settings=(),
            plan="groups.workload.groups_plan:planned_independent",
            fit="groups.independent:fit_independent",
            roles=False,
            jax=False,
        ),
    )
    MWEM = (
        "mwem",
        replace(
            _HOUSEHOLDS,
            about="A weight for every group that can be, of small domains only.",
            mechanism="multiplicative weights over groups and members (MWEM)",
            settings=("rounds", "per_round", "ways", "relations", "rules"),
            fit="groups.mwem:fit_mwem",
            limits="groups.mwem:require_few_types",
            jax=False,
        ),
    )
    HPD_FIXED = "hpd-fixed", _HOUSEHOLDS
    HPD_GEN = (
        "hpd-gen",
        replace(
            _HOUSEHOLDS,
            about="Groups and members as a mixture of products, whose logits a network computes.",
            mechanism="hierarchical product distributions, generated (HPD-Gen)",
            fit="groups.hpd.hpd_synthesizer:fit_generator",
        ),
    )
    HPD_EVENTS = (
        "hpd-events",
        replace(
            _HOUSEHOLDS,
            family=Family.EVENTS,
            about="People and what they do several times in a period, such as trips or visits.",
            mechanism="hierarchical product distributions of people and events (HPD-Fixed)",
            declaration="group_releases:EventsRelease",
            settings=("rounds", "per_round", "ways", "rows"),
            relations=("replace_in_place", "replace_one"),
            faults="data_set_faults:events_faults",
            plan="groups.workload.groups_plan:planned_events",
            roles=False,
        ),
    )

    @property
    def family(self) -> Family:
        return self.declared.family

    @property
    def about(self) -> str:
        return self.declared.about

    @property
    def declaration(self) -> type[DeclaredRelease]:
        """The class that reads and checks a release of this kind in a study file."""
        model: type[DeclaredRelease] = loaded(__package__, self.declared.declaration)
        return model

    @property
    def faults(self) -> Callable[[DeclaredRelease, Sections], Iterator[str]]:
        """Gives the faults of a release in its sections, to be put after its key in the file."""
        faults: Callable[[DeclaredRelease, Sections], Iterator[str]]
        faults = loaded(__package__, self.declared.faults)
        return faults

    @property
    def data_set(self) -> DataSetKind | None:
        """The parts of a kind of data set; None for a panel."""
        return self.declared if isinstance(self.declared, DataSetKind) else None


def kinds_of(family: Family) -> tuple[Kind, ...]:
    """The kinds of a family, in the order of `Kind`."""
    return tuple(kind for kind in Kind if kind.family is family)


DATA_SETS = tuple(kind for kind in Kind if kind.data_set is not None)


class DeclaredRelease(Declaration):
    """A release of a study file.

    priced_by: the key from which `rho` follows where it is not declared.
    """

    if TYPE_CHECKING:
        name: str
        kind: Kind
        rho: Fraction
    priced_by: ClassVar[str] = "rho"

    @property
    def family(self) -> Family:
        """The family of the kind."""
        return self.kind.family

    @property
    def counts_people(self) -> bool:
        """Whether its rows or counts are of people or their groups."""
        return True

    @property
    def questions(self) -> tuple[str, ...]:
        """The attributes of people in the release."""
        return ()

    @property
    def cells(self) -> tuple[str, ...]:
        """The attributes whose values tell people of the release apart, for weights."""
        return self.questions

    @property
    def patterns(self) -> WindowRelease | JointRelease | None:
        """The part of a panel that counts patterns of the last `width` periods."""
        return None

    @property
    def totals(self) -> CumulativeRelease | JointRelease | None:
        """The part of a panel that counts in how many periods people have had an event."""
        return None

    @property
    def most_people(self) -> int | None:
        """The declared bound on the people of a panel, whose number is private."""
        return None

    @property
    def stream(self) -> str:
        """The name of a panel's counted symbols and people, which releases may share."""
        return ""

    def first_number(self, periods: Periods) -> int:
        """The number of the first period at which the release publishes."""
        raise NotImplementedError

    def priced(self, neighbours: Neighbours) -> Self:
        """The release with the rho that follows from the key `priced_by`."""
        return self
