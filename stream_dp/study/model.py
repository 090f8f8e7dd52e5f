"""The study: everything that is declared before the first report is read, all of it public.

Numbers are exact: rho is the fraction that was written. The hash covers all but `[run]`; once
releases have begun, only the description may change, and the first one stays published.
Study files are read, and their faults told, in `studyfile.py`.
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from stream_dp.errors import UserError

from .alphabet import ABSENT, Alphabet, matching_codes
from .groups import BatchRelease, Groups
from .ids import Ids
from .numbers import Declaration, Flag, Name, Probability, Rho, Symbol
from .periods import Periods

MOST_BINS = 1 << 20
MOST_SYMBOLS = 250  # of an alphabet: a panel's code is a byte
MOST_TOTALS = 500  # periods of a cumulative release: its state and its plan grow with their square

Neighbours = Literal["add_remove", "replace_one", "replace_in_place"]


class Carry(Declaration):
    """A missing value repeats the person's last one; before any, it is `first`."""

    carry: Literal[True]
    """Always `true`."""
    first: Symbol
    """What stands for a person who has not answered yet: one of the values."""


class Attribute(Declaration):
    """One question: its possible values, and what stands for a missing answer."""

    values: Annotated[tuple[Symbol, ...], Field(min_length=1, max_length=MOST_SYMBOLS)]
    """The possible answers, whole numbers or text. Any other answer is rejected."""
    missing: Symbol | Carry
    """What a person counts as who gives no answer in a period: one of the values; `"absent"`, one
    symbol more; or `{ carry = true, first = VALUE }`, the last answer again."""
    fixed: Flag = None
    """`true`: a person's first answer holds for good, such as a region or a wave. Needs
    `missing = "absent"`; other answers of the person are rejected."""

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """The alphabet, in code order: the values, then 'absent' where that is the rule."""
        return (*self.values, ABSENT) if self.missing == ABSENT else self.values

    @cached_property
    def codes(self) -> dict[Symbol, int]:
        """Code by symbol and by the symbol's text: what is written 1 may be reported as '1'."""
        codes: dict[Symbol, int] = {s: i for i, s in enumerate(self.symbols)}
        return codes | {str(s): i for i, s in enumerate(self.symbols)}

    @property
    def first_code(self) -> int:
        """The code of a person of whom nothing is known."""
        rule = self.missing
        return self.codes[rule.first if isinstance(rule, Carry) else rule]

    @property
    def carries(self) -> bool:
        return isinstance(self.missing, Carry)

    def problems(self, where: str) -> list[str]:
        texts = [str(v) for v in self.values]
        if len(set(texts)) < len(texts):
            return [f"{where}.values: a value stands there twice"]
        if ABSENT in texts:
            return [f"{where}.values: 'absent' is reserved; ask for it with missing = 'absent'"]
        rule = self.missing.first if isinstance(self.missing, Carry) else self.missing
        if rule not in self.codes:
            return [f"{where}.missing: must be 'absent', one of the values, or carry forward"]
        if self.fixed and self.missing != ABSENT:
            return [f"{where}.missing: must be 'absent', for nobody has a fixed value unasked"]
        if len(self.symbols) < 2:
            return [f"{where}.values: one symbol alone says nothing; declare at least two"]
        return []


Strategy = Literal["histogram", "contrasts"]
NO_CONTRASTS = (
    "'contrasts' would be wrong by everybody who first reports after the first release, which"
    " add_remove allows: leave strategy out, or declare missing = 'absent' and rows"
)
CounterName = Literal["tree", "honaker", "sqrt", "normalised", "gamma2", "unbounded"]
RowBound = Annotated[int, Field(ge=1, le=10**8, strict=True)]


class _Release(Declaration):
    """What every release declares."""

    name: Name
    """The release's name, which analysts use; each stands once in a study."""
    attribute: str | Annotated[tuple[str, ...], Field(min_length=2, max_length=8)]
    """The attribute that it is about, or a list of 2 to 8 of them for their product."""
    rho: Rho
    """Its part of the budget, for all its periods together."""
    failure: Probability = Fraction(1, 20)
    """The probability that the error bound in the plan leaves open; padding follows it too."""
    where: Annotated[dict[Name, Symbol], Field(min_length=1, max_length=1)] | None = None
    """One stratum: only people for whom this fixed attribute has this value, such as
    `{ region = "north" }`. Needs `rows`."""
    first: str | None = None
    """The release's first period; by default the study's."""
    last: str | None = None
    """The release's last period; by default the study's."""
    rows: RowBound | None = None
    """A declared bound on the people, and so on the synthetic rows, where their number is private:
    under `add_remove` with `missing = "absent"`, and in strata."""

    @property
    def attributes(self) -> tuple[str, ...]:
        return (self.attribute,) if isinstance(self.attribute, str) else self.attribute

    @property
    def stream(self) -> str:
        """Releases of one stream look at the same symbols of the same people."""
        where = "".join(f" where {a}={v}" for a, v in (self.where or {}).items())
        return "&".join(self.attributes) + where


class WindowRelease(_Release):
    """A fixed-window release: every pattern of the last `width` periods."""

    kind: Literal["window"]
    """Which kind of release this is."""
    width: Annotated[int, Field(ge=1, strict=True)]
    """How many periods a pattern has."""
    strategy: Strategy | None = None
    """What is measured in later periods: the whole histogram again, or only the contrasts of how
    each past goes on. Chosen from theory where it is not declared."""
    padded: bool | None = None
    """`true`: rows are added to every pattern, so that no noisy count falls below 0; `false`:
    noisy counts are projected onto what is possible. Chosen where it is not declared."""


class CumulativeRelease(_Release):
    """A cumulative release: how many people have had the event in at least b periods."""

    kind: Literal["cumulative"]
    """Which kind of release this is."""
    event: Annotated[tuple[Symbol | str, ...], Field(min_length=1)]
    """The values that count as the event; of a product a value such as `"poverty=1&job=no"`, or a
    part of one, `"job=no"`."""
    counter: CounterName | None = None
    """The stream counter that measures the totals. Chosen from theory where it is not declared."""
    size_share: Probability | None = None
    """The part of `rho` that measures the number of people, where it is private: once at the first
    period, or, beside `rows`, of all who have entered by each period."""


class JointRelease(_Release):
    """One panel for both: every pattern of the last `width` periods, and the totals of an event."""

    kind: Literal["joint"]
    """Which kind of release this is."""
    width: Annotated[int, Field(ge=1, strict=True)]
    """How many periods a pattern has."""
    event: Annotated[tuple[Symbol | str, ...], Field(min_length=1)]
    """The values that count as the event, as in a cumulative release."""
    window_share: Probability | None = None
    """The part of `rho` that goes to the patterns; the rest goes to the totals. 11/20 where it is
    not declared."""
    strategy: Strategy | None = None
    """How the patterns are measured, as in a window release."""
    counter: CounterName | None = None
    """The stream counter of the totals, as in a cumulative release."""


Release = Annotated[WindowRelease | CumulativeRelease | JointRelease, Field(discriminator="kind")]


class Run(Declaration):
    """Where this study runs. Not part of the hash; STREAM_DP_LOG and so on override it."""

    log: str
    """The confidential log: `sqlite:FILE` or `kafka://HOST:PORT,.../PREFIX`. By default
    `sqlite:NAME.db` with the study's name."""
    public: str
    """The public log, all that analysts need. By default `sqlite:NAME-public.db`."""
    snapshots: str | None = None
    """The confidential folder, or fsspec URL, of the population's snapshots. By default a folder
    that bears the study's name."""
    partitions: Annotated[int, Field(ge=1, le=1000)] = 1
    """How many partitions the reports have; fixed once the study has begun."""
    replication: Annotated[int, Field(ge=1, le=10)] = 3
    """On Kafka: on how many brokers each topic is kept. Fewer than 3 must be said."""
    insecure: bool = False
    """On Kafka: `true` allows a broker without authentication."""
    kafka: dict[str, Any] = Field(default_factory=dict)
    """librdkafka's own settings for the confidential cluster. A secret is `{ file = "PATH" }` or
    `{ env = "NAME" }`."""
    kafka_public: dict[str, Any] | None = None
    """The same for the public log, where it lies on a second cluster; otherwise `kafka` holds."""
    listen: str | None = None
    """HOST:PORT of the confidential listener: `/healthz`, `/readyz` and `/metrics`."""
    listen_public: str | None = None
    """HOST:PORT of the public listener: `/metrics` alone, an allow-list."""
    worker: bool | None = None
    """Whether `run` starts a worker of its own for data sets of groups; by default where the log is
    a file, and not on Kafka."""


class DeclaredPopulation(Declaration):
    """How many units there are, where that is public."""

    size: Annotated[int, Field(ge=1, le=10**9, strict=True)] | None = None
    """The number of units, public. Required where the relation makes it public, refused under
    `add_remove`; whoever is beyond it is turned away for good."""


class StudyKeys(Declaration):
    """The plain keys of [study]."""

    name: Name
    """The study's name. It is published, and names the files of an embedded log."""
    description: str = ""
    """A line about the study, published with it."""
    unit: Annotated[str, Field(min_length=1)]
    """Who is protected: one of these, with everything it reports in all periods."""
    neighbours: Neighbours
    """What may differ between two inputs that nobody can tell apart: a unit's whole history is
    there or not (`add_remove`), or is another one (`replace_one`), or its own answers are others
    and its group stays (`replace_in_place`). There is no default."""
    rho: Rho
    """The whole budget (zCDP); the releases must fit in it. A number, or a fraction as text."""
    delta: Probability
    """For stating rho as (epsilon, delta)."""


def _some(ids: Ids | None) -> Ids | None:
    """A rule that says nothing is not another declaration than none."""
    return None if ids == Ids() else ids


class Study(StudyKeys):
    """A whole declaration. `studyfile.parse_study` checks one; the public log holds it as JSON."""

    periods: Periods
    """`[study.periods]`: the horizon, and when each period closes."""
    population: DeclaredPopulation = DeclaredPopulation()
    """`[study.population]`: how many units there are, where that is public."""
    ids: Annotated[Ids | None, AfterValidator(_some)] = None
    """`[study.ids]`: which spellings of an id are one person. Without it every spelling is a
    person of its own."""
    attributes: dict[Name, Attribute]
    """`[attributes.NAME]`: the questions that reports answer."""
    releases: tuple[Release, ...]
    """`[[releases]]` of panels."""
    groups: Groups | None = None
    """`[groups]`: the groups that people belong to, for data sets of groups with their members."""
    batches: tuple[BatchRelease, ...] | None = None
    """`[[releases]]` of data sets of groups with their members."""

    @property
    def size(self) -> int | None:
        return self.population.size

    def release(self, name: str) -> Release:
        """The continual release of that name. Raises UserError that lists the names there are."""
        for release in self.releases:
            if release.name == name:
                return release
        if self.batch(name) is not None:
            raise UserError(
                f"release '{name}': groups and members, not a panel; 'stream-dp export' writes it"
            )
        names = ", ".join(r.name for r in (*self.releases, *(self.batches or ())))
        raise UserError(f"release '{name}': the study has no such release; it has {names}")

    def batch(self, name: str) -> BatchRelease | None:
        """The batch release of that name."""
        return next((b for b in self.batches or () if b.name == name), None)

    def due(self, number: int) -> tuple[BatchRelease, ...]:
        """The batch releases that a period's close begins."""
        label = self.periods.labels[number - 1]
        return tuple(
            b
            for b in self.batches or ()
            if (label in b.at if b.at is not None else number % (b.every or 1) == 0)
        )

    def alphabet(self, release: Release) -> Alphabet:
        """The symbols that a release is about."""
        parts = tuple(self.attributes[name].symbols for name in release.attributes)
        return Alphabet(release.attributes, parts, release.where is not None)

    def event_codes(self, release: CumulativeRelease | JointRelease) -> tuple[int, ...]:
        values = self.alphabet(release).values
        codes = {code for word in release.event for code in matching_codes(str(word), values)}
        return tuple(sorted(codes))

    def span(self, release: Release) -> tuple[int, int]:
        """The numbers of a release's first and last period, from 1."""
        numbers = self.periods.numbers
        first = 1 if release.first is None else numbers[release.first]
        return first, self.periods.count if release.last is None else numbers[release.last]

    def time(self, release: Release, number: int) -> int | None:
        """A period as the release's own, from 1; None where it is none of them."""
        first, last = self.span(release)
        return number - first + 1 if first <= number <= last else None

    def grows(self, release: Release) -> bool:
        """Whether people may enter late whom no earlier histogram of the release counts.

        Where their number is public, everybody is there from the start; under a cap (`rows`)
        whoever has not entered is absent, and nothing is concluded from the absent.
        """
        return self.neighbours == "add_remove" and release.rows is None

    @cached_property
    def strata(self) -> dict[str, tuple[str, str]]:
        """By release, the fixed attribute and value of those that are of a stratum only."""
        return {
            release.name: (name, str(value))
            for release in self.releases
            for name, value in (release.where or {}).items()
        }

    def canonical(self) -> bytes:
        """The declaration as JSON with sorted keys, the same for the same study."""
        return json.dumps(
            self.model_dump(mode="json", exclude_none=True), sort_keys=True, separators=(",", ":")
        ).encode()

    @cached_property
    def hash(self) -> str:
        return hashlib.sha256(self.canonical()).hexdigest()

    @cached_property
    def terms_hash(self) -> str:
        """The hash of all that may not change: of everything but the description."""
        return self.described("").hash

    def described(self, description: str) -> Study:
        """The same study under another description."""
        if description == self.description:
            return self
        return Study.model_validate({**json.loads(self.canonical()), "description": description})
