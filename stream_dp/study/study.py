"""The study: the public declarations before the first report is read.

Numbers are exact: rho is the fraction that was written. The hash covers all but `[run]`. Once
releases have begun, only the description and the curator may change; the first stay published.
`stream_dp.studyfile` reads study files and reports their faults, from the sound `Sections`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union

from pydantic import AfterValidator, Discriminator, Field, Tag

from stream_dp.errors import NotThere, UserError

from .attribute import Alphabet, Attribute, matching_codes
from .declared_sections import Curator, DeclaredPopulation, Gate, Ids, Sampling, WeightingCells
from .families import DATA_SETS, Kind, Neighbours, Strategy
from .field_types import Declaration, Name, Probability, Rho
from .group_releases import BatchRelease, Groups
from .panel_releases import (
    MOST_PRESENCE_WIDTH,
    CumulativeRelease,
    JointRelease,
    Release,
    WindowRelease,
)
from .periods import Periods
from .place_releases import Places
from .table_releases import DataSetRelease

MOST_BINS = 1 << 20
R = TypeVar("R", bound=DataSetRelease)
_MODELS = tuple(dict.fromkeys(kind.declaration for kind in DATA_SETS))


def _model_name(release: object) -> str:
    """The name of the model of a data set; an unknown kind has the model of groups."""
    kind = release.get("kind") if isinstance(release, dict) else getattr(release, "kind", None)
    named = Kind.named(kind)
    return (named.declaration if named and named.data_set else BatchRelease).__name__


if TYPE_CHECKING:
    AnyDataSet = DataSetRelease
else:
    AnyDataSet = Annotated[
        Union[tuple(Annotated[m, Tag(m.__name__)] for m in _MODELS)],  # noqa: UP007
        Discriminator(_model_name),
    ]


class StudyKeys(Declaration):
    """The plain keys of [study]."""

    name: Name
    """The study's name. It is published, and names the files of an embedded log."""
    description: str = ""
    """A line about the study, published with it."""
    unit: Annotated[str, Field(min_length=1)]
    """Who is protected, such as a person or a household, with all reports in all periods."""
    neighbours: Neighbours
    """Which difference between two inputs is protected: one unit's history is present in only one
    input (`add_remove`), is replaced by any other history (`replace_one`), or has other answers in
    the same group (`replace_in_place`). There is no default."""
    rho: Rho
    """The total budget (zCDP); the releases must fit in it. A number, or a fraction as text."""
    delta: Probability
    """For stating rho as (epsilon, delta)."""


def _unless_empty(ids: Ids | None) -> Ids | None:
    """None for an empty rule: both are the same declaration with the same hash."""
    return None if ids == Ids() else ids


class Study(StudyKeys):
    """A complete declaration, checked by `parse_study`; in JSON the beginning of the public log."""

    periods: Periods
    """`[study.periods]`: the horizon, and when each period closes."""
    population: DeclaredPopulation = DeclaredPopulation()
    """`[study.population]`: how many units there are, where that is public, or a closed cohort."""
    gate: Gate | None = None
    """`[study.gate]`: a noisy count that holds periods with too few answers for the operator."""
    ids: Annotated[Ids | None, AfterValidator(_unless_empty)] = None
    """`[study.ids]`: which ids are persons', and which spellings of an id belong to one person."""
    curator: Curator | None = None
    """`[study.curator]`: who publishes the releases, for the metadata that others read."""
    sampling: Sampling | None = None
    """`[study.sampling]`: how the people were drawn from a population."""
    weights: WeightingCells | None = None
    """`[study.weights]`: cells with public totals of the population."""
    attributes: dict[Name, Attribute]
    """`[attributes.NAME]`: the questions that reports answer."""
    releases: tuple[Release, ...]
    """`[[releases]]` of panels."""
    groups: Groups | None = None
    """`[groups]`: the groups that people belong to, for data sets of groups with their members."""
    places: Places | None = None
    """`[places]`: the places that people are in, for the sizes of places by region."""
    batches: tuple[AnyDataSet, ...] | None = None
    """`[[releases]]` of data sets, of people, of groups with their members, or of sizes."""

    def revised(self, **fields: Any) -> Study:
        """The study with new values of the given fields."""
        return Study(**{name: getattr(self, name) for name in Study.model_fields} | fields)

    @property
    def id_rule(self) -> Ids:
        """The rule of ids, declared or by default."""
        return self.ids or Ids()

    @property
    def size(self) -> int | None:
        """The declared number of units, or None if the number is private."""
        return self.population.size

    def release(self, name: str) -> Release:
        """The continual release with this name. Raises UserError with the declared names."""
        for release in self.releases:
            if release.name == name:
                return release
        if self.batch(name) is not None:
            raise UserError(
                f"release '{name}': a data set, not a panel; 'stream-dp export' writes it"
            )
        names = ", ".join(r.name for r in (*self.releases, *(self.batches or ())))
        raise NotThere(f"release '{name}': the study has no such release; it has {names}")

    def batch(self, name: str) -> DataSetRelease | None:
        """The batch release with the name, or None."""
        return next((b for b in self.batches or () if b.name == name), None)

    def declared(self, name: str) -> Release | DataSetRelease | None:
        """The release of a panel or of data sets with this name, or None."""
        return next((r for r in self.releases if r.name == name), None) or self.batch(name)

    def first_answer(self, declared: Release | DataSetRelease) -> str:
        """The label of the first period at which a release publishes."""
        return self.periods.labels[declared.first_number(self.periods) - 1]

    def of(self, model: type[R]) -> list[R]:
        """The releases of data sets with this declaration."""
        return [batch for batch in self.batches or () if isinstance(batch, model)]

    def due_periods(self, batch: DataSetRelease) -> list[int]:
        """The numbers of the periods at whose close a data set begins."""
        return batch.due(self.periods)

    def schedule(self, batch: DataSetRelease) -> dict[int, DataSetRelease]:
        """The declaration of every data set with its own rho, by the number of its period."""
        due = self.due_periods(batch)
        costs = zip(due, batch.costs(len(due)), strict=True)
        return {number: batch.model_copy(update={"rho": rho}) for number, rho in costs}

    def due(self, number: int) -> tuple[DataSetRelease, ...]:
        """The batch releases at the close of period `number`."""
        return tuple(b for b in self.batches or () if number in b.due(self.periods))

    def of_places(self, keys: Sequence[str]) -> Study:
        """The declaration with the keys of places as the values of place attributes."""
        attributes = {
            name: attribute.of_places(keys) if attribute.place else attribute
            for name, attribute in self.attributes.items()
        }
        return Study.model_construct(**{**dict(self), "attributes": attributes})

    @cached_property
    def past(self) -> dict[str, int]:
        """By attribute with a history in a data set, the length of the history before a close."""
        periods: dict[str, int] = {}
        for batch in self.batches or ():
            for name, ago in batch.answers:
                if ago:
                    periods[name] = max(periods.get(name, 0), ago)
        return periods

    def alphabet(self, release: Release) -> Alphabet:
        """The counted symbols of a release."""
        symbols = tuple(tuple(self.attributes[name].symbols) for name in release.attributes)
        return Alphabet(release.attributes, symbols, release.where is not None)

    def event_codes(self, release: CumulativeRelease | JointRelease) -> tuple[int, ...]:
        """The codes of the release's event, in increasing order."""
        values = self.alphabet(release).values
        codes = {code for word in release.event for code in matching_codes(str(word), values)}
        return tuple(sorted(codes))

    def span(self, release: Release) -> tuple[int, int]:
        """The numbers of a release's first and last period, from 1."""
        return release.span(self.periods)

    def time(self, release: Release, number: int) -> int | None:
        """The number of a study's period within the release, from 1; None outside the span."""
        first, last = self.span(release)
        return number - first + 1 if first <= number <= last else None

    @cached_property
    def last_entry(self) -> int | None:
        """The number of the last period of entry. None if people can always enter.

        Of a closed cohort it is the first period that any release covers.
        """
        if not self.population.closed:
            return None
        first = [self.span(release)[0] for release in self.releases]
        due = [n for batch in self.batches or () for n in self.due_periods(batch)[:1]]
        return min([*first, *due], default=1)

    def admits_late_entry(self, release: Release) -> bool:
        """Whether people may enter after the first histogram of the release, which omits them.

        Where the number of people is public, all count from the start. In a closed cohort nobody
        enters later. Under a bound (`rows`) those who have not entered yet count as absent.
        """
        private = self.neighbours == "add_remove" and release.rows is None
        return private and not self.population.closed

    def blank(self, release: Release) -> int:
        """The code of the symbol of a person before the first answer."""
        alphabet = self.alphabet(release)
        if release.where is not None:
            return len(alphabet.values) - 1
        code = 0
        for name, symbols in zip(alphabet.attributes, alphabet.symbols, strict=True):
            code = code * len(symbols) + self.attributes[name].first_code
        return code

    def strategy(self, release: WindowRelease | JointRelease) -> Strategy:
        """The declared measurement strategy of windows, or the best by default."""
        if release.strategy is not None:
            return release.strategy
        closed = release.rows is None and not self.admits_late_entry(release)
        if closed or release.width <= MOST_PRESENCE_WIDTH:
            return Strategy.RESIDUALS
        return Strategy.HISTOGRAM

    def presence(self, release: Release) -> int | None:
        """The code of the symbol of absence, or of people before their first answer.

        Only where the release measures who is present in the last 2k - 1 periods: residuals where
        people come and go or enter late. None otherwise.
        """
        patterns = release.patterns
        if patterns is None or self.strategy(patterns) == Strategy.HISTOGRAM:
            return None
        if release.rows is not None:
            return self.alphabet(release).absent
        return self.blank(release) if self.admits_late_entry(release) else None

    @cached_property
    def strata(self) -> dict[str, tuple[str, str]]:
        """By release of a stratum, its fixed attribute and value."""
        return {
            release.name: (name, str(value))
            for release in self.releases
            for name, value in (release.where or {}).items()
        }

    def canonical(self) -> bytes:
        """The declaration as JSON with sorted keys: equal studies have equal bytes."""
        return json.dumps(
            self.model_dump(mode="json", exclude_none=True), sort_keys=True, separators=(",", ":")
        ).encode()

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical declaration, in hexadecimal."""
        return hashlib.sha256(self.canonical()).hexdigest()

    @cached_property
    def terms_hash(self) -> str:
        """The hash of the study without the description and the curator, which may change."""
        return self.described({}).hash

    def described(self, declaration: Mapping[str, Any]) -> Study:
        """The study with the description and the curator of another canonical declaration."""
        texts = {"description": declaration.get("description", "")}
        texts |= {"curator": declaration.get("curator")}
        declared = json.loads(self.canonical())
        if texts == {"description": self.description, "curator": declared.get("curator")}:
            return self
        return Study.model_validate(declared | texts)


def checked_study(study: object) -> Study:
    """The argument `study`. Raises UserError for a path, a dict or another type."""
    if not isinstance(study, Study):
        raise UserError(
            "study: must be a Study, which load_study and parse_study return, not"
            f" {type(study).__name__}"
        )
    return study


@dataclass(frozen=True)
class Sections:
    """The sections of a study; None for missing sections and sections with faults.

    attributes: the sound ones.
    attribute_names: the names of all attributes, sound or not.
    has_groups, has_places: whether groups and places are declared, sound or not.
    numbered_releases: the releases, each with its number in the file, from 1.
    """

    attributes: Mapping[str, Attribute]
    attribute_names: Collection[str]
    has_groups: bool
    groups: Groups | None
    has_places: bool
    places: Places | None
    numbered_releases: tuple[tuple[int, Release | DataSetRelease | None], ...]
    periods: Periods | None
    population: DeclaredPopulation | None
    gate: Gate | None
    weights: WeightingCells | None
    unit: str | None
    neighbours: Neighbours | None
    rho: Fraction | None

    @property
    def releases(self) -> list[Release]:
        """The sound releases of panels."""
        declared = (release for _, release in self.numbered_releases)
        return [r for r in declared if r is not None and not isinstance(r, DataSetRelease)]

    @property
    def batches(self) -> list[DataSetRelease]:
        """The sound releases of data sets."""
        return self.of(DataSetRelease)

    def of(self, model: type[R]) -> list[R]:
        """The sound releases of this model."""
        return [release for _, release in self.numbered_releases if isinstance(release, model)]

    @classmethod
    def of_study(cls, study: Study) -> Sections:
        """The sections of a sound study."""
        of_study: dict[str, Any] = {
            field.name: getattr(study, field.name, None) for field in fields(cls)
        }
        derived = {
            "attribute_names": study.attributes.keys(),
            "has_groups": study.groups is not None,
            "has_places": study.places is not None,
            "numbered_releases": tuple(enumerate((*study.releases, *(study.batches or ())), 1)),
        }
        return cls(**of_study | derived)
