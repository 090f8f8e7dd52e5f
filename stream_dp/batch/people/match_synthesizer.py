"""The kind `match` on people: the four steps with a compressed domain between two phases.

Source: McKenna, Miklau, Sheldon 2021, "Winning the NIST Contest" (arXiv 2108.04978). This version
measures interactions instead of marginals, as exact integers, takes no query from data, and fits
the models of the other kinds of people. Needs JAX, the `batch` extra.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stream_dp.study import MatchRelease

from ..rounds.loop import recorded_answers
from ..synthesizer import (
    EarlierTable,
    FitContext,
    FitTranscript,
    begun_rounds,
    chained_tables,
)
from .compress.composite_columns import Encoding
from .compress.compression import Compression
from .known import Known
from .match_fit import MatchFit
from .match_plan import MatchPlan
from .measure.month_fusion import Month, past_months
from .people_synthesizer import Unlearnt, fit_plan, measured_month
from .people_table import People


def fit_match(people: People, release: MatchRelease, context: FitContext) -> MatchFit:
    """Fits a table of people in two phases; see `synthesizer.Synthesizer`."""
    encoding = Encoding.of(people.domain, release)
    plan, coded = MatchPlan(encoding, release), encoding.coded(people)
    months = [_month(encoding, t) for t in chained_tables(context, begun_rounds(context))]
    first = fit_plan(coded, plan.first, _partly(context, after=1), lambda seed: Unlearnt())
    compression = plan.compression(first.answers)
    known = _known(compression, (*_unmerged(context.known, encoding, compression),))
    number = compression.columns[0].noisy.people
    second = plan.second(compression.domain, number, known)
    columns = compression.domain.columns
    past = past_months(months, columns, context.number)
    later = _partly(context, before=len(first.picked))
    return MatchFit(
        encoding=encoding,
        compression=compression,
        first=first,
        second=fit_plan(compression.merged(coded), second, later, past=past),
        known=known,
        dropped=plan.dropped(compression.domain),
        anew=tuple(c.name for c in columns if months and c not in months[-1].columns),
    )


def _month(encoding: Encoding, table: EarlierTable) -> Month:
    """The interactions that an earlier data set measured, of its compressed columns."""
    plan = MatchPlan(encoding, table.release)
    answers, rounds = recorded_answers(plan.first.workload, plan.first.phase, table.rounds)
    compression = plan.compression(answers)
    known = _known(compression, (*_unmerged(table.known, encoding, compression),))
    second = plan.second(compression.domain, compression.columns[0].noisy.people, known)
    later = (table.rounds[0], *table.rounds[1 + rounds :])
    answers, _ = recorded_answers(second.workload, second.phase, later)
    return measured_month(table.number, second.workload, answers, _known(compression))


def _known(compression: Compression, others: tuple[Known, ...] = ()) -> tuple[Known, ...]:
    """What the second phase knows: people and single columns, measured first, and others' answers.

    others: interactions that other releases have published.
    """
    counted = [Known((), np.array(float(compression.columns[0].noisy.people)), 1.0)]
    singles = (merged.known(column) for column, merged in enumerate(compression.columns))
    return (*(counted if compression.source.moves else ()), *singles, *others)


def _unmerged(
    known: tuple[Known, ...], encoding: Encoding, compression: Compression
) -> list[Known]:
    """Published interactions of columns that compression leaves unchanged."""
    unchanged = {
        sources[0]: column
        for column, sources in enumerate(encoding.parts)
        if len(sources) == 1 and compression.columns[column].identity
    }
    result = []
    for published in known:
        if all(c in unchanged for c in published.columns):
            columns = [unchanged[c] for c in published.columns]
            values = np.transpose(published.values, np.argsort(columns))
            result.append(Known(tuple(sorted(columns)), values, published.variance))
    return result


def _partly(context: FitContext, before: int = 0, after: int = 0) -> FitContext:
    """The context of a phase. before, after: the rounds before the phase and after the phase."""

    def progress(done: int, rounds: int, error: float) -> None:
        context.progress(before + done, before + rounds + after, error)

    return replace(context, transcript=_Later(context.transcript, before), progress=progress)


@dataclass(frozen=True)
class _Later:
    """A transcript of a later phase: the seed, and the rounds after `skipped` rounds."""

    transcript: FitTranscript
    skipped: int

    def rounds(self) -> list[bytes]:
        rounds = self.transcript.rounds()
        return [*rounds[:1], *rounds[1 + self.skipped :]]

    def record(self, number: int, data: bytes) -> bytes:
        return self.transcript.record(number + self.skipped * (number > 0), data)
