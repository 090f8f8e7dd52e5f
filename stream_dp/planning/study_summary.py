"""A study in short before the beginning: who is protected, how much, how precise."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from itertools import chain, islice, zip_longest
from statistics import NormalDist

from stream_dp.answers.query import telling_queries
from stream_dp.batch.kinds import fit_plan
from stream_dp.batch.planned_phases import FitPlan, PlannedPhase
from stream_dp.continual.mechanism_interface import PanelError
from stream_dp.privacy.zcdp import epsilon
from stream_dp.release.certificate import guess_words, invariants_words, relation_words
from stream_dp.release.published_panels import ADVICE
from stream_dp.study import DataSetRelease, Family, Study
from stream_dp.study.column_advice import function_advice
from stream_dp.study.families import PANEL_FAMILIES, TABLE_FAMILIES, DeclaredRelease, Registry
from stream_dp.study.noisy_gate import gate_words
from stream_dp.study.plugins import package_words
from stream_dp.study.structural_rules import rule_advice

from .expected_errors import (
    LEVEL,
    USABLE,
    Count,
    ExpectedError,
    GroupError,
    PlannedStreams,
    group_error,
    group_errors,
    group_lines,
    group_table,
    last_errors,
    least_text,
    panel_count,
    percent,
    response_words,
    rule_words,
)
from .panel_errors import panel_errors
from .plan import Plan, PlannedRelease

_FEW_RULES = 3  # of a release, in the short form


@dataclass(frozen=True)
class PlannedDataSet:
    """A planned release.

    release: with the rho of its last data set.
    first: the rho of its first.
    number: of data sets.
    fit: of the last; in an earlier one with another rho, noisy counts may decide otherwise.
    """

    study: Study
    release: DataSetRelease
    first: Fraction
    number: int
    fit: FitPlan

    @property
    def phases(self) -> tuple[PlannedPhase, ...]:
        return self.fit.phases

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of its tables would miss."""
        lines = [*rule_advice(self.study, self.release)]
        lines += function_advice(self.study, self.release)
        if self.fit.measured.poor:
            lines.append(
                "only single columns are measured, so that columns of its tables hardly depend on"
                " each other; raise rho, or declare fewer columns or values"
            )
        return tuple(f"release {self.release.name}: {line}" for line in lines)

    @property
    def rules(self) -> list[str]:
        """The structural rules of its groups and rows, in words."""
        groups = [f"every group keeps: {rule.text}" for rule in self.release.structural_rules]
        return groups + [f"every row keeps: {rule.text}" for rule in self.release.column_rules]

    @property
    def rho(self) -> Fraction:
        """Of all data sets together."""
        return self.first + (self.number - 1) * self.release.rho

    def as_dict(self) -> dict[str, object]:
        release, kind = self.release, self.release.data_set
        return {
            "name": release.name,
            "kind": release.kind,
            "data_sets": self.number,
            "rho_of_first": str(self.first),
            "rho_of_each": str(release.rho),
            "epsilon_of_each": str(epsilon(release.rho, self.study.delta)),
            "epsilon_of_all": str(epsilon(self.rho, self.study.delta)),
            "looks_at": release.family.looks_at,
            "relations_proved": list(kind.relations),
            "settings": release.model_dump(mode="json", include=set(kind.settings)),
            "tables": list(release.family.tables),
            "measured": self.fit.measured.sentence,
            "warnings": list(self.warnings),
            "phases": [{**asdict(phase), "rho": str(phase.rho)} for phase in self.phases],
        }

    @property
    def short(self) -> str:
        """What follows the costs of the release in a line."""
        sentence = self.fit.measured.sentence
        rules, more = self.rules[:_FEW_RULES], len(self.rules) - _FEW_RULES
        last = [f"and {more} rules more"] if more > 0 else []
        told = [f"data sets: {self.number}", *([sentence] if sentence else []), *rules, *last]
        return "".join(f"; {text}" for text in told)

    def lines(self) -> Iterator[str]:
        """In words, with the properties of the kind."""
        release, kind, delta = self.release, self.release.data_set, self.study.delta
        eps = float(epsilon(release.rho, delta))
        yield (
            f"data set {release.name} ({release.kind}): {self.number} of them, each with"
            f" rho = {float(release.rho):.6g}, eps = {eps:.3g} at delta = {float(delta):g}"
        )
        if self.first != release.rho:
            yield (
                f"  but the first with rho = {float(self.first):.6g}, on which the later ones build"
            )
        if self.fit.measured.sentence:
            yield f"  {self.fit.measured.sentence}"
        yield from (f"  {phase.text}" for phase in self.phases)
        yield from (f"  {rule}" for rule in self.rules)
        tables = ", ".join(release.family.tables)
        yield f"  looks at: {release.family.looks_at}; publishes: {tables}"
        yield f"  its cost is proved under: {', '.join(kind.relations)}"
        declared = self.release.model_dump(
            mode="json", include=set(kind.settings), exclude_none=True
        )
        settings = (f"{name} = {declared[name]}" for name in kind.settings if name in declared)
        yield f"  settings: {', '.join(settings) or 'none'}"


def planned_data_set(study: Study, release: DataSetRelease) -> PlannedDataSet:
    """Raises UserError for too large a workload."""
    data_sets = [*study.schedule(release).values()]
    last = data_sets[-1] if data_sets else release
    first = data_sets[0].rho if data_sets else release.rho
    return PlannedDataSet(study, last, first, len(data_sets), fit_plan(study, last))


def planned_group_errors(
    study: Study, streams: PlannedStreams | None = None
) -> tuple[GroupError, ...]:
    """The relative errors of groups of people, of every release that counts people.

    streams: see `last_errors`.
    """
    count = partial(panel_count, streams={} if streams is None else streams)
    return group_errors(study, {**_COUNTS, **dict.fromkeys(PANEL_FAMILIES, count)})


def _table_count(study: Study, release: DataSetRelease) -> GroupError:
    """The largest error of a value of the columns that are measured first.

    A first phase of one query measures the number of people, which is no group.
    """
    phases = planned_data_set(study, release).phases
    first = next((phase for phase in phases if phase.queries > 1), phases[0])
    return group_error(study, release, "a value of a measured column", first.most)


def no_count(study: Study, release: DataSetRelease) -> None:
    """Sizes count places, whose error is not one of a number of people."""


_COUNTS: Registry[Family, Count] = Registry(
    "errors of a count of people",
    Family,
    {
        **dict.fromkeys(PANEL_FAMILIES, panel_count),
        **dict.fromkeys(TABLE_FAMILIES, _table_count),
        Family.SIZES: no_count,
    },
)


_TYPICAL = 3
_WIDEST = 64  # letters of a question beside which the errors of others are in one column
_MOST_ROWS = 2  # of a list in the short text, unless one more is all
_HALF_WIDTH = NormalDist().inv_cdf((1 + LEVEL) / 2)


@dataclass(frozen=True)
class Summary:
    """A plan in short.

    answers: typical ones, each at the last period of its release.
    data_sets: what each release of data sets will measure.
    panel_errors: by release, the errors to expect of the panel's own answers.
    groups: by release, the relative errors of groups of people by their size.
    """

    plan: Plan
    answers: tuple[ExpectedError, ...]
    data_sets: tuple[PlannedDataSet, ...]
    panel_errors: Mapping[str, tuple[PanelError, ...]]
    groups: tuple[GroupError, ...]

    def as_dict(self) -> dict[str, object]:
        """The plan for machines, with typical answers and the meaning of the budget."""
        study = self.plan.study
        rows = [
            {
                "release": row.release,
                "query": row.query,
                "period": row.period,
                "share_half_width": None if row.share is None else _HALF_WIDTH * row.share,
                "count_half_width": _HALF_WIDTH * row.count,
                "confidence": LEVEL,
            }
            for row in self.answers
        ]
        return {
            **self.plan.as_dict(),
            "meaning": guess_words(study, self.plan.total),
            "typical_answers": rows,
            "group_errors": group_table(study, self.groups),
            "panel_errors": {
                name: [
                    {"query": error.query, "error": error.error, "bias": error.bias}
                    for error in errors
                ]
                for name, errors in self.panel_errors.items()
            },
            "data_sets": [planned.as_dict() for planned in self.data_sets],
        }

    def text(self, *, long: bool = False) -> str:
        """In words, in at most 25 lines. long: everything, with every charge as a fraction."""
        study, plan = self.plan.study, self.plan
        eps = epsilon(plan.total, study.delta)
        spare = study.rho - plan.total
        heading = f"study {study.name}: {study.periods.extent}"
        protected = [
            f"who is protected: one {study.unit}, with all that it reports in all periods",
            f"  {relation_words(study)}",
            f"  published exactly: {invariants_words(study)}",
        ]
        budget = [
            f"how much: eps = {float(eps):.3g} at delta = {float(study.delta):g}, for all releases"
            f" together (rho = {float(plan.total):.6g} of {float(study.rho):.6g} declared"
            + (f"; {float(spare):.6g} is not planned for)" if spare else ")"),
            f"  {guess_words(study, plan.total)}",
        ]
        warnings = [*plan.warnings]
        poor = [*chain.from_iterable(planned.warnings for planned in self.data_sets)]
        if long:
            costs = [f"  {_cost(p, study)}; {p.facts['mechanism']}" for p in plan.releases]
            sections = [budget, self._precision(), self._groups(), self._bias()]
            lines = [heading, "", *protected, *chain.from_iterable(["", *s] for s in sections if s)]
            lines += ["", "what it costs:", *costs, "", plan.text()]  # the plan has its warnings
            return "\n".join([*lines, *(f"warning: {line}" for line in poor)])
        measured = {planned.release.name: planned.short for planned in self.data_sets}
        costs = [
            f"  {_cost(p, study)}{measured.get(p.release.name, '')}{_package(p.release)}"
            for p in plan.releases
        ]
        lines = [*protected, *budget, *self._answers(), "what it costs:", *_first(costs)]
        lines += [*self._usable(), *gate_words(study)[1:]]
        lines += _first([f"warning: {line}" for line in (*warnings, *poor)])
        wrapped = chain.from_iterable(textwrap.wrap(x, 100, subsequent_indent="  ") for x in lines)
        advice = "other questions: stream-dp plan; the whole plan: stream-dp check --long"
        return "\n".join([heading, *wrapped, advice])

    def _answers(self) -> list[str]:
        """The half-widths of panels' answers."""
        if not self.answers:
            return []
        study = self.plan.study
        questions = [f"{row.release}: {row.query} at {row.period}" for row in self.answers]
        wide = max(map(len, questions))
        wide = wide if wide <= _WIDEST else 0
        return [
            "how precise, as 95% intervals of the privacy noise:",
            *(
                f"  {question:<{wide}}  {_half_width(row, study.unit)}"
                for question, row in zip(questions, self.answers, strict=True)
            ),
            *(f"  {line}" for line in response_words(study, self.answers)),
        ]

    def _precision(self) -> list[str]:
        """The half-widths of panels' answers, and the phases of data sets."""
        lines = self._answers()
        if any(row.share is None for row in self.answers):
            unit = self.plan.study.unit
            lines.append(f"  shares of an assumed number of {unit}s: stream-dp plan --people N")
        for planned in self.data_sets:
            lines += [*[""] * bool(lines), *planned.lines()]
        if self.data_sets:
            lines.append(
                "  errors of data sets depend on the data: stream-dp evaluate measures them"
            )
        return lines

    def _usable(self) -> list[str]:
        """From which size on groups are usable, by release."""
        if not self.groups:
            return []
        sizes = [f"{row.name}: {least_text(row.least)} {row.unit}s" for row in self.groups]
        shown = ", ".join(line.strip() for line in _first(sizes))
        return [f"groups whose counts are within ± {percent(USABLE)} have at least: {shown}"]

    def _groups(self) -> list[str]:
        """The errors of counts of small groups."""
        if not self.groups:
            return []
        unit = self.plan.study.unit
        heading = f"what a small group can learn, by its number of {unit}s:"
        return [heading, f"  {rule_words(unit)}", *group_lines(self.groups)]

    def _bias(self) -> list[str]:
        """The simulated errors of panels, and their bias in words."""
        biased = [p for p in self.plan.releases if "panel_bias" in p.facts]
        if not biased:
            return []
        unit = self.plan.study.unit
        lines = [
            "errors to expect of the synthetic panels' own answers (root mean square, in"
            f" {unit}s, of people simulated from a public prior):",
        ]
        for p in biased:
            bias = str(p.facts["panel_bias"]).removesuffix(f"; {ADVICE}")
            lines.append(f"  {p.release.name}: {bias}")
            errors = self.panel_errors[p.release.name]
            wide = max((len(error.query) for error in errors), default=0)
            lines += [f"    {error.query:<{wide}}  {_error_words(error)}" for error in errors]
        return [*lines, f"  {ADVICE}"]


def summary(plan: Plan) -> Summary:
    """The summary of a plan, with the errors to expect of three typical answers."""
    study = plan.study
    streams: PlannedStreams = {}
    answers = tuple(last_errors(study, typical_queries(study), streams))
    data_sets = tuple(planned_data_set(study, release) for release in study.batches or ())
    return Summary(
        plan, answers, data_sets, panel_errors(plan), planned_group_errors(study, streams)
    )


def typical_queries(study: Study) -> list[tuple[str, str]]:
    """Three releases with their queries; several queries of a release if releases are few."""
    queries = [
        [(release.name, q) for q in telling_queries(study, release)] for release in study.releases
    ]
    in_turn = chain.from_iterable(zip_longest(*queries))
    return list(islice((query for query in in_turn if query is not None), _TYPICAL))


def _half_width(row: ExpectedError, unit: str) -> str:
    count = f"+-{_HALF_WIDTH * row.count:,.0f} {unit}s"
    if row.share is None:
        return count
    return f"+-{_HALF_WIDTH * row.share:.2%} of {unit}s, {count}"


def _error_words(error: PanelError) -> str:
    text = f"{error.error:,g}"
    return text if not error.bias else f"{text}, {error.bias:+,g} on average"


def _package(release: DeclaredRelease) -> str:
    """The other packages that a release's mechanisms are of; empty without any."""
    counter = None if release.totals is None else release.totals.counter
    packages = [m.package for m in (release.kind, counter) if m is not None and m.package]
    return "".join(f"; {package_words(package)}" for package in packages)


def _cost(planned: PlannedRelease, study: Study) -> str:
    """The share and the rho of a release in words."""
    rho = sum(planned.charges, Fraction(0))
    release = planned.release
    return f"{release.name} ({release.kind}): {_share(rho / study.rho)}, rho = {_decimal(rho)}"


def _first(lines: Sequence[str]) -> list[str]:
    """The first lines of a list, and how many more there are."""
    more = len(lines) - _MOST_ROWS
    return [*lines] if more <= 1 else [*lines[:_MOST_ROWS], f"  and {more} more"]


def _share(share: Fraction) -> str:
    """A share of the study's rho: a short fraction exactly, and a long one to 3 digits."""
    return f"share {share if len(str(share)) < 8 else format(float(share), '.3g')}"


def _decimal(rho: Fraction | int) -> str:
    return f"{float(rho):.6g}"
