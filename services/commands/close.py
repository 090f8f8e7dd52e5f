"""`stream-dp close`: previews open periods, and writes the markers for closing.

On a terminal the operator decides after looking. Without a terminal nothing is counted: whether a
period closes would otherwise depend on true counts, without noise and without a charge.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.log import LogError, Missing
from stream_dp.study.period_texts import require_period

from ..intake.markers import send_close_markers
from ..process.command_output import Output, say
from ..storage import journal
from ..storage.deployment import Deployment
from ..storage.journal import open_gate

if TYPE_CHECKING:
    from ..releaser.close_preview import PeriodPreview, Preview


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    periods = deployment.study.periods
    if periods.close != "marker" and deployment.study.gate is None:
        raise UserError("close: this study closes by its schedule, not by markers")
    options.period = require_period(periods, options.period)
    number = periods.numbers[options.period]
    deployment.check_bound()
    _check_gate(deployment, number, options)
    if options.check:
        from ..releaser.close_preview import preview

        counted = preview(deployment, number)
        doubts = _doubts(deployment, counted)
        # The exit code never depends on what was counted: a script must not decide by it.
        return Output(_data(counted, doubts), _text(counted, doubts, options.period))
    if not (options.yes or options.json) and _on_terminal():
        _agree(deployment, number, options.period)
    if options.after:
        if not options.json:
            say(f"{options.period} is still open: its markers are written in {options.after} s")
        time.sleep(options.after)
    send_close_markers(deployment, number, despite_gate=options.despite_gate)
    text = f"{options.period} is closed to reports from here on; 'stream-dp run' releases it"
    return Output({"closed": options.period}, text)


def _check_gate(deployment: Deployment, number: int, options: argparse.Namespace) -> None:
    """Raises UserError for a held period without `--despite-gate`, and the other way round."""
    study, held = deployment.study, 0
    if study.gate is not None:
        with suppress(Missing), closing(deployment.log(readonly=True)) as log:
            gate = open_gate(journal.read_heads(log))
            held = gate.gated or 0 if gate is not None and gate.gate.held else 0
    if options.despite_gate and number != held:
        raise UserError(f"close: {options.period} is not held by [study.gate]")
    if held and not options.despite_gate:
        label = study.periods.labels[held - 1]
        raise UserError(
            f"close: {label} is held by [study.gate]; look at 'stream-dp close {options.study}"
            f" {label} --despite-gate --check', and close it without --check"
        )
    if not held and study.periods.close != "marker":
        raise UserError("close: this study closes by its schedule, and no period of it is held")


def _agree(deployment: Deployment, number: int, label: str) -> None:
    """Shows the operator the periods, and asks. Raises UserError unless the operator agrees."""
    from ..releaser.close_preview import preview

    try:
        counted = preview(deployment, number)
    except (LogError, Inconsistent, UserError, OSError) as error:
        say(f"what the open periods hold cannot be counted: {error}")
    else:
        say(_text(counted, _doubts(deployment, counted), label))
    _ask(label)


def _on_terminal() -> bool:
    streams = (sys.stdin, sys.stdout)
    return all(stream is not None and stream.isatty() for stream in streams)


def _ask(label: str) -> None:
    """Raises UserError unless the operator answers yes."""
    try:
        answer = input(f"close {label}? It never opens again. [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise UserError("close: nothing was closed")


def _doubts(deployment: Deployment, counted: Preview) -> list[str]:
    """The reasons for the operator not to close the periods, a line a reason."""
    lines = counted.sparse if deployment.study.attributes else []
    largest_share = deployment.run.rejects
    if largest_share is not None and counted.share > largest_share:
        lines.append(f"a larger share of cells is rejected than run.rejects = {largest_share:g}")
    return lines


def _text(counted: Preview, doubts: Sequence[str], label: str) -> str:
    """What the close would settle, for the operator."""
    from ..intake.dead_letters import rejections_text, totals

    lines = ["CONFIDENTIAL"]
    if counted.last_closed is not None:
        lines.append(f"{_line(counted.last_closed)} (closed)")
    lines += [_line(period) for period in counted.periods]
    if not counted.periods:
        lines.append(f"{label} is closed already")
    rejected = sum(totals(counted.rejected).values())
    if rejected:
        lines.append(
            f"since the last close {rejected} cells are rejected, {100 * counted.share:.1f} % of"
            " those that this close settles:"
        )
        lines += rejections_text(counted.rejected)
    else:
        lines.append("since the last close nothing is rejected")
    if counted.obstructed:
        lines.append("reports in a sender's open transaction are not counted")
    return "\n".join([*lines, *doubts])


def _line(period: PeriodPreview) -> str:
    return f"{period.label}: {period.people} with an answer, {period.accepted} cells accepted"


def _data(counted: Preview, doubts: Sequence[str]) -> dict[str, object]:
    def of(period: PeriodPreview) -> dict[str, object]:
        return {"period": period.label, "people": period.people, "accepted": period.accepted}

    from ..intake.dead_letters import rejections_data, totals

    return {
        "confidential": True,
        "before": None if counted.last_closed is None else of(counted.last_closed),
        "periods": [of(period) for period in counted.periods],
        "rejected": totals(counted.rejected),
        "rejected_share": counted.share,
        "cells": rejections_data(counted.rejected),
        "obstructed": counted.obstructed,
        "doubts": list(doubts),
    }
