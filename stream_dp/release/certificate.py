"""Certificates: the statement of a release about the study, the guarantee and the cost.

A publication of any family, `Published`, is a certificate and its message. The `CertifiedLedger`
counts what is published, and everything that it descends from: a fused table learns from earlier
tables of its release, its ancestors. An ancestor may never be published, as an operator abandoned
its job or its result was refused. Its charge counts from the first publication that descends from
it, once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, TypedDict, Unpack

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from stream_dp import __version__
from stream_dp.errors import Inconsistent
from stream_dp.log.message import Message
from stream_dp.notebook_html import html_facts
from stream_dp.privacy.ledger import Charge, Ledger
from stream_dp.privacy.noise import draws_from_table
from stream_dp.privacy.zcdp import best_guess, epsilon
from stream_dp.study import DataSetRelease, Family, Release, Study
from stream_dp.study.families import Registry
from stream_dp.study.group_releases import BatchRelease, EventsRelease
from stream_dp.study.noisy_gate import NoisyGate, gate_charges

_DataSets = frozenset[tuple[str, int]]  # releases with the numbers of periods


_GAUSSIAN = "exact discrete Gaussian from the operating system's entropy, drawn by "
_OPENDP, _TABLE = "OpenDP's sampler", "the table sampler of stream-dp"
SYSTEM_NOISE = f"{_GAUSSIAN}{_OPENDP}, and by {_TABLE} where many numbers are drawn at once"
SEEDED_NOISE = "SEEDED SIMULATION: repeatable, NOT PRIVATE"

_RELATION = {
    "add_remove": "one {unit}, with its whole history, is added or removed",
    "replace_one": "one {unit}'s whole history is replaced by any other",
    "replace_in_place": "one {unit}'s own attributes change, over the whole history; groups, their"
    " sizes and their attributes do not",
}
# Keys of a declaration that have a field of their own, or that the study declares.
_NO_PARAMETERS = {"name", "kind", "attribute", "attributes", "rho", "every", "at"}


def _fraction(value: object) -> Fraction:
    """The Fraction of a text by `str`. Digits are bounded: 1e99999999 would fill memory."""
    if isinstance(value, Fraction):
        return value
    if not re.fullmatch(r"[0-9]{1,1000}(/[0-9]{1,1000})?", str(value)[:2002]):
        raise ValueError("not a number")
    try:
        number = Fraction(str(value))
    except ZeroDivisionError:
        raise ValueError("not a number") from None
    if number > 10**30:
        raise ValueError("not a number")
    return number


def _small(value: object) -> Any:
    """Details of a manifest. Raises ValueError for more than 20,000 characters."""
    if len(json.dumps(value)) > 20_000:
        raise ValueError("too long")
    return value


Exact = Annotated[Fraction, BeforeValidator(_fraction), PlainSerializer(str, return_type=str)]
Details = Annotated[dict[str, object], BeforeValidator(_small)]
NumberDetails = Annotated[dict[str, Annotated[int, Field(strict=True)]], BeforeValidator(_small)]
Text = Annotated[str, Field(max_length=10_000)]
Epsilon = Annotated[str, Field(pattern=r"^[0-9]{1,30}(\.[0-9]{1,12})?$")]
WholeNumber = Annotated[int, Field(ge=0, le=10**12, strict=True)]
_IF_GAUSSIAN = Field(exclude_if=lambda stated: stated is None)


class GateStatement(BaseModel):
    """The gate of a period: the noisy count that decided whether it closed by itself.

    people: the noisy number of people from earlier periods who answered in this period.
    least: the smallest number that closes a period, from the study's `least` and `expected`.
    variance: the variance parameter of the noise, 1 divided by twice `rho`.
    rho: the cost, the gate's share divided by the number of periods; a part of `rho_spent`.
    held: true if `people` is below `least`, and an operator closed the period later.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    people: Annotated[int, Field(ge=-(10**15), le=10**15, strict=True)]
    least: WholeNumber
    variance: Exact
    rho: Exact
    held: Annotated[bool, Field(strict=True)]

    @classmethod
    def of(cls, gate: NoisyGate, people: int) -> GateStatement:
        return cls(
            people=people,
            least=gate.least,
            variance=gate.variance,
            rho=gate.rho,
            held=gate.holds(people),
        )


class Certificate(BaseModel):
    """The statement of a release: the guarantee, the cost and the mechanism.

    study, study_hash: the name of the study, and the hash of its declaration.
    release, kind: the name and the kind of the release.
    period, number, horizon: the label of the period, its number from 1, and the number of periods
        of the study.
    mechanism, parameters: the mechanism, and the part of the release's declaration that it uses.
    unit, neighbours: the unit of privacy and the neighbouring relation.
    guarantee, invariants: what is protected, and what is published exactly, in words.
    domain: the source of the possible values, in words: declared, or a table with this SHA-256.
    rho: the cost of this release at this period, an exact fraction as text, such as `"1/15"`.
    rho_spent: the cost of all releases up to this one, itself included, of everything that they
        descend from, and of the gates of all periods up to its own.
    rho_total, delta: the budget of the study, and the delta at which its epsilon is stated.
    fused_with: only of a fused data set, for each earlier period of the release: the rho of a data
        set that it descends from, whether or not that one is published, and 0 for any other.
    gate: only in a study with a gate: the gate of the period.
    epsilon_spent, epsilon_total: the epsilon of `rho_spent` and `rho_total` at `delta` in zCDP,
        decimals as text, rounded up.
    least_variance: only if all noise of the study is discrete Gaussian: no noise of the study in
        counts that somebody changes has a smaller variance.
    least_epsilon_spent, least_epsilon_total: under the same condition the smaller epsilons that are
        proved for such noise.
    noise: the source of the noise, in words.
    code_version: the version of stream-dp.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    study: Text
    study_hash: Text
    release: Text
    kind: Text
    period: Text
    number: WholeNumber
    horizon: WholeNumber
    mechanism: Text
    parameters: Details
    unit: Text
    neighbours: Text
    guarantee: Text
    invariants: Text
    domain: Text
    rho: Exact
    rho_spent: Exact
    rho_total: Exact
    delta: Exact
    epsilon_spent: Epsilon
    epsilon_total: Epsilon
    noise: Text
    code_version: Text
    gate: Annotated[GateStatement | None, Field(exclude_if=lambda gate: gate is None)] = None
    least_variance: Annotated[Exact | None, _IF_GAUSSIAN] = None
    least_epsilon_spent: Annotated[Epsilon | None, _IF_GAUSSIAN] = None
    least_epsilon_total: Annotated[Epsilon | None, _IF_GAUSSIAN] = None
    fused_with: Annotated[dict[str, Exact], Field(exclude_if=lambda tables: not tables)] = {}

    @property
    def ancestors(self) -> dict[str, Fraction]:
        """By period, the rho of every earlier table that the release descends from."""
        return {period: rho for period, rho in self.fused_with.items() if rho}

    def _repr_html_(self) -> str:
        facts = [
            ("mechanism", self.mechanism),
            ("guarantee", self.guarantee),
            ("not protected", self.invariants),
            ("possible values", self.domain),
            ("cost of this release", f"rho {float(self.rho):.6g}"),
            ("spent so far", f"rho {float(self.rho_spent):.6g}, eps {self.epsilon_spent}"),
            ("in the end", f"rho {float(self.rho_total):.6g}, eps {self.epsilon_total}"),
            *_proved_facts(self),
            ("delta", f"{float(self.delta):g}"),
            ("noise", self.noise),
        ]
        return html_facts(f"Certificate: {self.study}, {self.release}, {self.period}", facts)

    @property
    def published_rows(self) -> int:
        """The number of rows of the largest table, but measurements."""
        raise NotImplementedError

    @property
    def synthetic_rows(self) -> tuple[int | None, int | None]:
        """The numbers of synthetic people and groups; None for an unpublished number."""
        raise NotImplementedError


def _proved_facts(certificate: Certificate) -> list[tuple[str, str]]:
    if certificate.least_epsilon_spent is None:
        return []
    spent, total = certificate.least_epsilon_spent, certificate.least_epsilon_total
    return [("less is proved", f"eps {spent} so far, {total} in the end")]


def gaussian_words(demand: Iterable[tuple[Fraction, int]]) -> str:
    """Describes the noise of a release and its sampler, for the certificate.

    demand: by draw, the variance and how many numbers are drawn at once. If one sampler draws all
    of them, the text names this sampler; otherwise the text names both.
    """
    samplers = {draws_from_table(variance, size) for variance, size in demand if size}
    if len(samplers) != 1:
        return SYSTEM_NOISE
    return _GAUSSIAN + (_TABLE if samplers.pop() else _OPENDP)


def relation_words(study: Study) -> str:
    """The guarantee under the study's relation in two sentences, and who is counted at all."""
    change = _RELATION[study.neighbours].format(unit=study.unit)
    words = (
        f"All releases of the study together are rho-zCDP where {change}. It holds for one "
        f"{study.unit} at a time, over all periods."
    )
    if study.last_entry is None:
        return words
    return (
        f"{words} The cohort is closed: a {study.unit} without an accepted answer by"
        f" {study.periods.labels[study.last_entry - 1]} is never counted."
    )


def invariants_words(study: Study) -> str:
    """The invariants in words: exact publications, which are not protected."""
    regions = ""
    if study.places is not None:
        regions = f"the {study.places.unit}s: how many every region has, those of nobody included"
    if study.neighbours == "add_remove":
        return regions or "none"
    size = f"the number of {study.unit}s, declared as {study.size}"
    if study.groups is not None:
        size += f"; those of synthetic {study.groups.unit}s add up to about as many"
    size += f"; {regions}" if regions else ""
    if study.groups is None:
        return size
    unit = study.groups.unit
    which = "which" if study.groups.roles is None else "which in which role"
    return (
        f"{size}; the {unit}s: how many there are, who belongs to {which}, their sizes and their"
        f" attributes, over the whole history. Of these only the number of {unit}s is published"
        " exactly"
    )


def domain_words(study: Study) -> str:
    """The source of the possible values, which are published: declared, or a table's hash."""
    texts: dict[str, list[str]] = {}
    for name, attribute in study.attributes.items():
        if attribute.values_from is not None:
            texts.setdefault(attribute.values_from, []).append(name)
    tables = [f"{', '.join(names)}: taken from the table {hash}" for hash, names in texts.items()]
    more_attributes = len(study.attributes) > sum(map(len, texts.values()))
    declared = (
        ["all others: declared" if tables else "declared"] if more_attributes or not tables else []
    )
    return "; ".join([*tables, *declared])


def guess_words(study: Study, rho: Fraction) -> str:
    """The meaning of rho for a unit: the best chance of a guess between two histories."""
    return (
        "Suppose that somebody knows all published data, and guesses which of two equally likely"
        f" histories a {study.unit} has. A tossed coin is right 50 times in 100; the best guess is"
        f" right at most {best_guess(float(rho)):.1f} times in 100."
    )


def _declared_parameters(study: Study, declared: Release | DataSetRelease) -> dict[str, object]:
    """The parameters of the release's mechanism in its declaration, defaults included."""
    return declared.model_dump(mode="json", exclude_none=True, exclude=_NO_PARAMETERS)


def _households_parameters(study: Study, declared: BatchRelease) -> dict[str, object]:
    return declared.settings(study.groups is not None and study.groups.roles is not None)


def _events_parameters(study: Study, declared: EventsRelease) -> dict[str, object]:
    return {**_declared_parameters(study, declared), "rows": declared.fitted_rows}


_PARAMETERS: Registry[Family, Callable[..., dict[str, object]]] = Registry(
    "parameters of certificates",
    Family,
    {
        **dict.fromkeys(Family, _declared_parameters),
        Family.HOUSEHOLDS: _households_parameters,
        Family.EVENTS: _events_parameters,
    },
)


class Charged(TypedDict):
    """The period and the charge of a release.

    number: the period, from 1; of a data set, the period of the close that began it.
    rho: the cost of this release at this period.
    spent: the cost that `rho_spent` states.
    simulated: whether the noise came from a seed.
    """

    number: int
    rho: Fraction
    spent: Fraction
    simulated: bool


def base_certificate(
    study: Study,
    declared: Release | DataSetRelease,
    *,
    mechanism: str,
    **charged: Unpack[Charged],
) -> Certificate:
    """The common part of all certificates. mechanism: the title."""
    number = charged["number"]
    return Certificate(
        study=study.name,
        study_hash=study.hash,
        release=declared.name,
        kind=declared.kind,
        period=study.periods.labels[number - 1],
        number=number,
        horizon=study.periods.count,
        mechanism=mechanism,
        parameters=_PARAMETERS[declared.family](study, declared),
        unit=study.unit,
        neighbours=study.neighbours,
        guarantee=relation_words(study),
        invariants=invariants_words(study),
        domain=domain_words(study),
        rho=charged["rho"],
        rho_spent=charged["spent"],
        rho_total=study.rho,
        delta=study.delta,
        epsilon_spent=str(epsilon(charged["spent"], study.delta)),
        epsilon_total=str(epsilon(study.rho, study.delta)),
        noise=SEEDED_NOISE if charged["simulated"] else SYSTEM_NOISE,
        code_version=__version__,
    )


def refusal(message: Message, why: str) -> Inconsistent:
    """The error for a refused message of a public log."""
    return Inconsistent(f"public log: message {message.index}: {why}")


@dataclass(frozen=True)
class Published:
    """A published release."""

    certificate: Certificate
    message: Message

    @property
    def title(self) -> str:
        """The release and the period."""
        return f"{self.certificate.release} at {self.certificate.period}"

    @property
    def new_columns(self) -> tuple[str, ...]:
        """The labels of the columns added to a panel; empty for a data set."""
        return ()

    def refusal(self, why: str) -> Inconsistent:
        """The error for the refused release."""
        return refusal(self.message, f"{self.title}: {why}")


@dataclass(frozen=True)
class CertifiedLedger:
    """The charges that a certificate counts.

    ledger: all of these charges.
    counted: the data sets among them.
    unpublished: those of `counted` that are ancestors and not published.
    """

    study: Study
    ledger: Ledger
    counted: _DataSets = frozenset()
    unpublished: _DataSets = frozenset()

    @classmethod
    def of(cls, study: Study) -> CertifiedLedger:
        """The ledger before any publication."""
        return cls(study, Ledger(study.rho, study.strata))

    @property
    def spent(self) -> Fraction:
        return self.ledger.spent

    def with_charges(
        self, *charges: Charge, ancestors: Sequence[Charge] = (), gates: int = 0
    ) -> CertifiedLedger:
        """Adds the charges of publications.

        ancestors: data sets that the publications descend from; those that count already are not
            added again.
        gates: the gates of all periods up to this one count, too.

        Raises BudgetExceeded.
        """
        uncounted = [c for c in charges if _data_set(c) not in self.unpublished]
        unpublished = [c for c in ancestors if _data_set(c) not in self.counted]
        of_gates = gate_charges(self.study, self.ledger, gates)
        ledger = self.ledger.charge(*of_gates, *uncounted, *unpublished)
        published = {_data_set(c) for c in charges if self.study.batch(c.release) is not None}
        new = {_data_set(c) for c in unpublished}
        if not published | new:
            return replace(self, ledger=ledger)
        return replace(
            self,
            ledger=ledger,
            counted=self.counted | published | new,
            unpublished=(self.unpublished | new) - published,
        )


def _data_set(charge: Charge) -> tuple[str, int]:
    return charge.release, charge.period
