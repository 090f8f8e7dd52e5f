"""`stream-dp regress`: fits a regression about the people of a published table."""

from __future__ import annotations

import argparse
import textwrap

from stream_dp.answers.tables.regression import Coefficient, Regression
from stream_dp.release.answer import LEVEL
from stream_dp.release.public_reader import AnyCertificate
from stream_dp.study import Study

from ..process.command_output import Output
from ..storage.deployment import open_pinned

ERRORS = "errors are those of the privacy noise, not of sampling people; ask with --sampling"
SAMPLED = "'with sampling' covers {}; the other intervals cover the privacy noise alone"
NAIVE = "'synthetic rows' is a fit of the synthetic people as if they were people: its intervals"
NAIVE += " know of no noise"


def run(options: argparse.Namespace) -> Output:
    def keep(study: Study, certificate: AnyCertificate, table: str) -> bool:
        named: str = options.release
        return certificate.release == named

    public, _ = open_pinned(options, keep)
    fit = public.regress(
        options.release,
        options.formula,
        options.period,
        logistic=options.logistic,
        sampling=options.sampling,
    )
    return Output(fit.as_dict(), "\n".join(regression_lines(fit)))


def regression_lines(fit: Regression) -> list[str]:
    """A model in words, line by line."""
    lines = [f"{fit.formula} at {fit.period} ({fit.model}, {fit.people:,.0f} people)"]
    sampled = fit.coefficients[0].sampled
    interval = f"{LEVEL:.0%} interval"
    head = ["", "estimate", "std. error", interval, "synthetic rows", interval]
    if sampled is not None:
        head[4:4] = ["with sampling"]
    rows = [head, *(_row(coefficient) for coefficient in fit.coefficients)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for first, *cells in rows:
        shown = (f"{cell:>{w}}" for cell, w in zip(cells, widths[1:], strict=True))
        lines.append(f"  {first:<{widths[0]}}  {'  '.join(shown)}".rstrip())
    errors = ERRORS if sampled is None else SAMPLED.format(sampled.covers)
    for note in (*fit.notes, errors, NAIVE):
        lines += textwrap.wrap(note, 100, initial_indent="  ", subsequent_indent="    ")
    return lines


def _row(coefficient: Coefficient) -> list[str]:
    """A coefficient as a line of the table: estimate, error, intervals, and the naive fit's."""

    def ends(interval: tuple[float, float]) -> str:
        return f"{interval[0]:.5g} to {interval[1]:.5g}"

    naive = ["none", ""]
    if coefficient.naive is not None:
        naive = [f"{coefficient.naive[0]:.5g}", ends(coefficient.naive[1])]
    return [
        coefficient.term,
        f"{coefficient.estimate:.5g}",
        f"{coefficient.standard_error:.5g}",
        ends(coefficient.interval),
        *([] if coefficient.sampled is None else [ends(coefficient.sampled.interval)]),
        *naive,
    ]
