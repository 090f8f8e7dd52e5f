"""The plan: every charge of a study to the end of its horizon, known before any report is read.

The least proved eps of a study is below that of zCDP if all of its noise is discrete Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any

from msgspec import structs

from stream_dp.batch.kinds import planned_phases, planned_titles
from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.continual.mechanism_interface import NONE, PanelError, StoredDesign, packed_designs
from stream_dp.continual.mechanisms import AnyMechanism, mechanism, patterns_part, totals_part
from stream_dp.continual.window.window import FixedWindow
from stream_dp.errors import UserError
from stream_dp.json_object import Json
from stream_dp.notebook_html import html_rows
from stream_dp.privacy.gaussian_epsilon import gaussian_epsilon
from stream_dp.privacy.ledger import BudgetExceeded, Charge, Ledger, composed_cost
from stream_dp.privacy.zcdp import epsilon
from stream_dp.release.certificate import invariants_words, relation_words
from stream_dp.release.published_panels import bias_words
from stream_dp.release.study_plan import panel_variances
from stream_dp.study import (
    MOST_PRESENCE_WIDTH,
    DataSetRelease,
    Family,
    Release,
    SizesRelease,
    Strategy,
    Study,
)
from stream_dp.study.data_set_faults import event_warnings
from stream_dp.study.families import DATA_SET_FAMILIES, Kind, Registry
from stream_dp.study.noisy_gate import GATE, gate_charges, gate_facts, gate_warnings, gate_words
from stream_dp.study.study import checked_study

# Tables of people whose phases follow from the study alone if the number of people is public.
_FIXED_PHASES = {Kind.MIXTURE, Kind.RAP}


@dataclass(frozen=True)
class ProvedEpsilon:
    """The eps of costs of a study, at its delta. mechanisms: of its panels, by release."""

    study: Study
    mechanisms: Mapping[str, AnyMechanism]

    @cached_property
    def least_variance(self) -> Fraction | None:
        """A bound below the variances of all noise in counts that somebody changes.

        None unless all noise is discrete Gaussian.
        """
        if not all(_is_gaussian(self.study, batch) for batch in self.study.batches or ()):
            return None
        return min((*panel_variances(self.study, self.mechanisms), *self._data_set_variances()))

    def _data_set_variances(self) -> Iterator[Fraction]:
        """A data set pays 1 / (2 variance) at least for what changes."""
        for batch in self.study.batches or ():
            yield from (1 / (2 * one.rho) for one in self.study.schedule(batch).values())

    def of(self, rho: Fraction) -> Decimal:
        if self.least_variance is None:
            return epsilon(rho, self.study.delta)
        return gaussian_epsilon(rho, self.study.delta, self.least_variance)

    def stated(self, spent: Fraction) -> dict[str, Any]:
        """The fields of a certificate. spent: rho of all releases up to its own."""
        if self.least_variance is None:
            return {}
        return {
            "least_variance": self.least_variance,
            "least_epsilon_spent": str(self.of(spent)),
            "least_epsilon_total": str(self.of(self.study.rho)),
        }

    def facts(self, planned: Fraction) -> dict[str, str]:
        """By name. planned: the rho of the plan."""
        return {
            "least_epsilon_planned": str(self.of(planned)),
            "least_epsilon_total": str(self.of(self.study.rho)),
        }

    def words(self, planned: Fraction) -> list[str]:
        """The eps of zCDP, and a line if less is proved."""
        study, whole = self.study, self.of(self.study.rho)
        lines = [
            f"in (eps, delta) at delta = {float(study.delta):g}: eps ="
            f" {epsilon(planned, study.delta)}; of the whole budget"
            f" {epsilon(study.rho, study.delta)}"
        ]
        if whole == epsilon(study.rho, study.delta):
            return lines
        return [
            *lines,
            f"all noise is discrete Gaussian, for which less is proved: eps = {self.of(planned)};"
            f" of the whole budget {whole}",
        ]


def _is_gaussian(study: Study, release: DataSetRelease) -> bool:
    """Whether all that reads the data is discrete Gaussian answers, whatever they are."""
    if release.family is Family.PEOPLE and (
        release.kind not in _FIXED_PHASES or study.neighbours == "add_remove"
    ):
        return False
    # The rho of a data set decides between mechanisms, as in `planned_titles`.
    data_sets = {one.rho: one for one in study.schedule(release).values()} or {release.rho: release}
    return all(phase.gaussian for one in data_sets.values() for phase in planned_phases(study, one))


_MOST_DEVIATION = 10**6
_MOST_ROWS = 2 * 10**8
# Above these `check` warns that the guarantee is weak.
_MOST_EPSILON, _MOST_DELTA = 10, Fraction(1, 1000)


Facts = dict[str, str | int | float]


@dataclass(frozen=True)
class PlannedPanel:
    """A release of a panel in a plan. charges: rho by period."""

    study: Study
    release: Release
    charges: tuple[Fraction, ...]
    mechanism: AnyMechanism

    @cached_property
    def facts(self) -> Facts:
        """The mechanism and its errors in theory, by name."""
        return _panel_facts(self.study, self.release, self.mechanism)


@dataclass(frozen=True)
class PlannedDataSets:
    """A release of data sets in a plan. charges: rho by period."""

    study: Study
    release: DataSetRelease
    charges: tuple[Fraction, ...]

    @cached_property
    def facts(self) -> Facts:
        """The mechanism, the number of data sets and the attributes, by name."""
        return _data_set_facts(self.study, self.release)


PlannedRelease = PlannedPanel | PlannedDataSets


@dataclass(frozen=True)
class Plan:
    """The costs of the releases of a study in every period, and their errors in theory.

    study: as declared
    stored: by release, what was computed when the study began; None before, when it is computed
    """

    study: Study
    stored: Mapping[str, StoredDesign] | None = field(default=None, compare=False)

    @cached_property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """Continual releases, then data sets."""
        return *self.panels, *(_batch(self.study, batch) for batch in self.study.batches or ())

    @cached_property
    def panels(self) -> tuple[PlannedPanel, ...]:
        """The continual releases."""
        study, stored = self.study, self.stored or {}
        return tuple(
            _planned(study, release, stored.get(release.name, NONE)) for release in study.releases
        )

    @property
    def mechanisms(self) -> dict[str, AnyMechanism]:
        """Of the continual releases, by name."""
        return {p.release.name: p.mechanism for p in self.panels}

    def design(self, errors: Mapping[str, tuple[PanelError, ...]]) -> bytes:
        """The designs in floating point, which differ between machines, for the journal.

        errors: by release, those to expect of the panel's own answers
        """
        return packed_designs(
            {
                name: structs.replace(chosen.as_stored(), panel=errors[name])
                for name, chosen in self.mechanisms.items()
            }
        )

    def check(self) -> None:
        """Raises UserError unless the plan fits the declared total, and its noise its panels."""
        for release in self.study.releases:
            _bounded(self.study, release, self.mechanisms[release.name])
        ledger = self.ledger()
        try:
            for number in range(1, self.study.periods.count + 1):
                gates = gate_charges(self.study, ledger, number)
                ledger = ledger.charge(*gates, *self.charges(number))
        except BudgetExceeded as error:
            raise UserError(f"releases: {error}") from None

    @property
    def total(self) -> Fraction:
        """The cost in rho of all releases and the gate together."""
        costs = {p.release.name: sum(p.charges, Fraction(0)) for p in self.releases}
        if self.study.gate is not None:
            costs[GATE] = self.study.gate.rho
        return composed_cost(self.study.strata, costs)

    @cached_property
    def proved(self) -> ProvedEpsilon:
        """The smaller epsilon that is proved where all noise is Gaussian."""
        return ProvedEpsilon(self.study, self.mechanisms)

    def ledger(self) -> Ledger:
        """A ledger of the study before any charge."""
        return Ledger(self.study.rho, self.study.strata)

    def charges(self, period: int) -> tuple[Charge, ...]:
        """The charges of a period's close, from 1, in the order of the study's releases."""
        return tuple(
            Charge(p.release.name, period, p.charges[period - 1])
            for p in self.releases
            if p.charges[period - 1]
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """A line for every declaration that weakens the guarantee, drops reported events, or may
        take a code for a number."""
        study, lines = self.study, []
        eps = epsilon(study.rho, study.delta)
        if eps > _MOST_EPSILON:
            lines.append(
                f"study.rho: the whole budget is eps = {eps} at this delta, over {_MOST_EPSILON}:"
                " what is promised to one person means little; lower it"
            )
        if study.delta > _MOST_DELTA:
            lines.append(
                f"study.delta: {float(study.delta):g} is over {float(_MOST_DELTA):g}: with about"
                " that probability the eps is not kept; take far less than 1 in the number of"
                " people, such as 1e-6"
            )
        for name, attribute in study.attributes.items():
            if (notice := attribute.code_notice) is not None:
                lines.append(f"attributes.{name}.number: {notice}")
        return *lines, *gate_warnings(study), *event_warnings(study)

    def as_dict(self) -> Json:
        """The plan as JSON for `check --json`."""
        study = self.study
        return {
            "study": study.name,
            "study_hash": study.hash,
            "unit": study.unit,
            "neighbours": study.neighbours,
            "guarantee": relation_words(study),
            "invariants": invariants_words(study),
            "periods": list(study.periods.labels),
            **({} if study.gate is None else {"gate": gate_facts(study)}),
            "releases": [
                {
                    "name": p.release.name,
                    "kind": p.release.kind,
                    "rho": str(sum(p.charges, Fraction(0))),
                    "share": str(sum(p.charges, Fraction(0)) / study.rho),
                    "charges": {
                        x: str(c) for x, c in zip(study.periods.labels, p.charges, strict=True)
                    },
                    **p.facts,
                }
                for p in self.releases
            ],
            "rho_planned": str(self.total),
            "rho_total": str(study.rho),
            "delta": str(study.delta),
            "epsilon_planned": str(epsilon(self.total, study.delta)),
            "epsilon_total": str(epsilon(study.rho, study.delta)),
            **self.proved.facts(self.total),
            "warnings": list(self.warnings),
        }

    def _repr_html_(self) -> str:
        study = self.study
        rows = [
            (
                p.release.name,
                p.release.kind,
                f"{float(sum(p.charges)):.6g}",
                sum(1 for charge in p.charges if charge),
                p.facts["mechanism"],
            )
            for p in self.releases
        ]
        title = (
            f"Plan of {study.name}: rho {float(self.total):.6g} of {float(study.rho):.6g}, eps"
            f" {epsilon(self.total, study.delta)} at delta {float(study.delta):g}."
            f" {relation_words(study)}"
        )
        return html_rows(title, ["release", "kind", "rho", "charges", "mechanism"], rows)

    def text(self) -> str:
        """The plan in words for `check`."""
        study, labels = self.study, self.study.periods.labels
        lines = [
            f"study {study.name}: {study.periods.extent}",
            f"guarantee: {relation_words(study)}",
            f"invariants: {invariants_words(study)}",
        ]
        for p in self.releases:
            lines += ["", f"release {p.release.name} ({p.release.kind})"]
            lines += [f"  {name.replace('_', ' ')}: {_round(v)}" for name, v in p.facts.items()]
            lines.append("  charges in rho, and what is spent if the study stops then:")
            lines += [
                f"    {label:<10} {cost!s:>16} = {float(cost):.6g}; spent {float(spent):.6g}"
                for label, cost, spent in zip(labels, p.charges, accumulate(p.charges), strict=True)
            ]
        spare = study.rho - self.total
        lines += [
            *gate_words(study),
            "",
            f"total rho: {self.total} = {float(self.total):.6g} of {float(study.rho):.6g} declared"
            + (f"; {float(spare):.6g} is not planned for" if spare else ""),
            *self.proved.words(self.total),
            *(f"warning: {line}" for line in self.warnings),
        ]
        return "\n".join(lines)


def _round(value: str | int | float) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def plan_study(study: Study) -> Plan:
    """The plan of a study. Raises UserError for costs over the declared total."""
    plan = Plan(checked_study(study))
    plan.check()
    return plan


def _bounded(study: Study, release: Release, chosen: AnyMechanism) -> None:
    """Raises UserError for so large noise or panels that a step could fail after the draw."""
    rows = release.rows or study.size or 0
    deviation = math.sqrt(chosen.worst_variance)
    window = patterns_part(chosen)
    if window is not None:
        rows += window.padding * window.bins
        if window.rows is None:  # the noise of the total: six deviations of all bins together
            rows += math.ceil(6 * math.sqrt(window.total_variance))
    if deviation > _MOST_DEVIATION or rows > _MOST_ROWS:
        raise UserError(
            f"release '{release.name}': noise of standard deviation {deviation:.3g} and {rows}"
            " rows: nothing would be left of the counts; raise its rho, or ask for less (at most"
            f" {_MOST_ROWS} rows)"
        )


def _batch(study: Study, batch: DataSetRelease) -> PlannedDataSets:
    """Every data set is charged at the close of its period."""
    due = study.schedule(batch)
    numbers = range(1, study.periods.count + 1)
    charges = tuple(due[number].rho if number in due else Fraction(0) for number in numbers)
    return PlannedDataSets(study, batch, charges)


def _data_set_facts(study: Study, batch: DataSetRelease) -> Facts:
    costs = [str(data_set.rho) for data_set in study.schedule(batch).values()]
    first = {"rho_of_the_first": costs[0]} if len({*costs}) > 1 else {}
    return {
        "mechanism": "; or, as noisy counts decide, ".join(planned_titles(study, batch)),
        "data_sets": len(costs),
        **first,
        "rho_of_each": costs[-1] if costs else str(batch.rho),
        "attributes": _ATTRIBUTES[batch.family](study, batch),
    }


def _people_attributes(study: Study, release: DataSetRelease) -> str:
    return ", ".join(release.names)


def _households_attributes(study: Study, release: DataSetRelease) -> str:
    of_groups = study.groups.attributes if study.groups is not None else ()
    return ", ".join((*of_groups, *release.names))


def _sizes_attributes(study: Study, release: SizesRelease) -> str:
    return release.attribute or "none, from a table of counts"


_ATTRIBUTES: Registry[Family, Callable[..., str]] = Registry(
    "attributes of data sets in a plan",
    DATA_SET_FAMILIES,
    {
        Family.PEOPLE: _people_attributes,
        Family.HOUSEHOLDS: _households_attributes,
        Family.EVENTS: lambda study, release: release.columns_text,
        Family.SIZES: _sizes_attributes,
    },
)


def _planned(study: Study, release: Release, stored: StoredDesign) -> PlannedPanel:
    """The mechanism of a panel with its charges, 0 outside the release's periods."""
    chosen = mechanism(study, release, stored)
    first, last = study.span(release)
    none = Fraction(0)
    charges = (*[none] * (first - 1), *chosen.charges, *[none] * (study.periods.count - last))
    return PlannedPanel(study, release, charges, chosen)


def _panel_facts(study: Study, release: Release, chosen: AnyMechanism) -> Facts:
    """The facts of a panel in a plan, by key; all follow from the study's declarations.

    chosen: the mechanism with its design. A mechanism has patterns, totals, or both. With both,
    `window_share` is the part of the release's rho that the patterns get.
    """
    facts: Facts = {
        "mechanism": chosen.title,
        "noise_standard_deviation": math.sqrt(chosen.worst_variance),
        "padding_rows_per_pattern": chosen.padding,
        "error_bound": chosen.error_bound,
        "error_bound_holds": (
            f"{chosen.bounded}, at all periods with probability {float(1 - release.failure):g}"
        ),
        "panel_bias": bias_words(study, release, chosen),
    }
    window, totals = patterns_part(chosen), totals_part(chosen)
    if window is not None:
        facts |= _window_facts(window, release)
    if totals is not None:
        facts |= _sums_facts(totals)
    if window is not None and totals is not None:
        facts["window_share"] = f"{float(window.rho / release.rho):g}"
    if study.admits_late_entry(release):
        not_in_shares = " and is not in the number that a share is of" if window is None else ""
        facts["late_entry"] = (
            f"a {study.unit} that first reports after the first release is counted, but adds no"
            f" row to the panel{not_in_shares}; where many enter late, declare"
            " missing = 'absent' and rows"
        )
    return facts


def _window_facts(chosen: FixedWindow, release: Release) -> Facts:
    """The facts about patterns; where the strategy is not declared, why it was chosen."""
    (alternative,) = {*Strategy} - {chosen.strategy}
    spread = {chosen.strategy: math.sqrt(chosen.mean_variance)}
    if chosen.allows(alternative):
        spread[alternative] = math.sqrt(replace(chosen, strategy=alternative).mean_variance)
    facts: Facts = {
        "patterns": chosen.bins,
        "deviation_of_a_pattern": spread[chosen.strategy],
    }
    if chosen.strategy == Strategy.RESIDUALS:
        facts["weights"] = chosen.weights_words
    if release.patterns is not None and release.patterns.strategy is None:
        why = f"a pattern's deviation: {' and '.join(f'{s} {spread[s]:.1f}' for s in spread)}"
        if alternative not in spread:
            why += (
                "; residuals where people come and go or enter late are made for a width of at"
                f" most {MOST_PRESENCE_WIDTH}"
            )
        facts["strategy_chosen_from_theory"] = f"{chosen.strategy} ({why})"
    return facts


def _sums_facts(chosen: Cumulative) -> Facts:
    """The facts about totals."""
    facts: Facts = {}
    if chosen.counter is not None:
        facts["counter"] = chosen.counter
    facts["deviation_of_a_sum"] = chosen.rmse
    if (ratio := chosen.lower_bound_ratio) is not None:
        facts["deviation_over_the_lower_bound_of_all_mechanisms"] = f"{ratio:.3f}"
    if chosen.rows is not None:
        facts["rows"] = chosen.rows
    if chosen.size_share and not chosen.present:
        facts["noise_standard_deviation_of_n"] = math.sqrt(chosen.size_variance)
    return facts
