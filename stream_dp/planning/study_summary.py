"""A study in short before the beginning: who is protected, how much, how precise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, islice, zip_longest
from statistics import NormalDist

from stream_dp.answers.query import telling_queries
from stream_dp.continual.panel_error import PanelError
from stream_dp.privacy.zcdp import epsilon
from stream_dp.release.certificate import guess_words, invariants_words, relation_words
from stream_dp.study import Study

from .expected import ExpectedError, last_errors
from .gate_plan import gate_words
from .group_errors import LEVEL, GroupError, group_lines, group_table, rule_words
from .panel_errors import panel_errors
from .plan import Plan
from .table_summary import PlannedDataSet, planned_data_set, planned_group_errors

_TYPICAL = 3
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

    def text(self, *, exact: bool = False) -> str:
        """In words. exact: with the plan, every charge a fraction."""
        study, plan = self.plan.study, self.plan
        labels = study.periods.labels
        eps = epsilon(plan.total, study.delta)
        spare = study.rho - plan.total
        lines = [
            f"study {study.name}: {len(labels)} periods, {labels[0]} to {labels[-1]}",
            "",
            f"who is protected: one {study.unit}, with all that it reports in all periods",
            f"  {relation_words(study)}",
            f"  published exactly: {invariants_words(study)}",
            "",
            f"how much: eps = {float(eps):.3g} at delta = {float(study.delta):g}, for all releases"
            f" together (rho = {float(plan.total):.6g} of {float(study.rho):.6g} declared"
            + (f"; {float(spare):.6g} is not planned for)" if spare else ")"),
            f"  {guess_words(study, plan.total)}",
            *self._precision(exact),
            *self._groups(),
            *self._bias(),
            "",
            "what it costs:",
            *(
                f"  {p.release.name} ({p.release.kind}): rho = {_decimal(sum(p.charges))}; "
                f"{p.facts['mechanism']}"
                for p in plan.releases
            ),
            *([] if exact else gate_words(study)),
            "",
            plan.text() if exact else "every charge as a fraction, all parameters: --exact",
        ]
        if not exact:  # the plan has them
            lines += [f"warning: {line}" for line in plan.warnings]
        return "\n".join(lines)

    def _precision(self, exact: bool) -> list[str]:
        study = self.plan.study
        lines = []
        if self.answers:
            lines += ["", "how precise, as 95% intervals of the privacy noise:"]
            questions = [f"{row.release}: {row.query} at {row.period}" for row in self.answers]
            wide = max(map(len, questions))
            lines += [
                f"  {question:<{wide}}  {_half_width(row, study.unit)}"
                for question, row in zip(questions, self.answers, strict=True)
            ]
            private = any(row.share is None for row in self.answers)
            assumed = f", and shares of an assumed number of {study.unit}s" * private
            lines.append(f"  other questions, periods and errors{assumed}: stream-dp plan")
        for planned in self.data_sets:
            lines += ["", *planned.lines(exact=exact)]
        if self.data_sets:
            lines.append(
                "  errors of data sets depend on the data: stream-dp evaluate measures them"
            )
        return lines

    def _groups(self) -> list[str]:
        if not self.groups:
            return []
        unit = self.plan.study.unit
        heading = f"what a small group can learn, by its number of {unit}s:"
        return ["", heading, f"  {rule_words(unit)}", *group_lines(self.groups)]

    def _bias(self) -> list[str]:
        biased = [p for p in self.plan.releases if "panel_bias" in p.facts]
        if not biased:
            return []
        unit = self.plan.study.unit
        lines = [
            "",
            "errors to expect of the synthetic panels' own answers (root mean square, in"
            f" {unit}s, of people simulated from a public prior):",
        ]
        for p in biased:
            lines.append(f"  {p.release.name}: {p.facts['panel_bias']}")
            errors = self.panel_errors[p.release.name]
            wide = max((len(error.query) for error in errors), default=0)
            lines += [f"    {error.query:<{wide}}  {_error_words(error)}" for error in errors]
        return lines


def summary(plan: Plan) -> Summary:
    """The summary of a plan, with the errors to expect of three typical answers."""
    study = plan.study
    answers = tuple(last_errors(study, typical_queries(study)))
    data_sets = tuple(planned_data_set(study, release) for release in study.batches or ())
    return Summary(plan, answers, data_sets, panel_errors(plan), planned_group_errors(study))


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
    words = f"{error.error:,g}"
    return words if not error.bias else f"{words}, {error.bias:+,g} on average"


def _decimal(rho: Fraction | int) -> str:
    return f"{float(rho):.6g}"
