"""Commands for whoever runs a study; what they print is confidential, but for `check`."""

from __future__ import annotations

import argparse
import gc
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from importlib import resources
from pathlib import Path
from typing import Any

from stream_dp.errors import Inconsistent, UserError, write_error
from stream_dp.log.base import Log, Missing
from stream_dp.log.message import rfc3339_utc
from stream_dp.privacy.ledger import Ledger
from stream_dp.release.panels import TOPIC

from .. import journal, place
from ..deployment import Deployment
from ..groups.roster import has_table
from ..journal import Entry
from ..markers import close_marker, has_close_markers
from ..output import JOB_FAILED, Output, say
from ..releaser.releaser import Releaser
from ..topics import REPORTS, topics_of
from .jobs import listed, worker_command

_LOOK = 5.0  # seconds that `status` looks for a close among what is not read yet


def new(options: argparse.Namespace) -> Output:
    path: Path = options.study
    text = resources.files("stream_dp.services.commands").joinpath("study.toml").read_text("utf-8")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UserError(f"{path}: is there already; nothing was written") from None
    except OSError as error:
        with suppress(OSError):  # what there is of it was written just now
            path.unlink()
        raise write_error(path, error) from None
    return Output({"written": str(path)}, f"{path} written; edit it, then: stream-dp check {path}")


def check(options: argparse.Namespace) -> Output:
    made = Deployment.load(options.study).plan
    return Output(made.as_dict(), made.text())


def close(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    periods = deployment.study.periods
    if periods.close != "marker":
        raise UserError("close: this study closes by its schedule, not by markers")
    number = periods.numbers.get(options.period)
    if number is None:
        raise UserError(
            f"period '{options.period}': not one of the study's, {periods.labels[0]} to"
            f" {periods.labels[-1]}"
        )
    mark(deployment, number)
    text = f"{options.period} is closed to reports from here on; 'stream-dp run' releases it"
    return Output({"closed": options.period}, text)


def mark(deployment: Deployment, number: int) -> None:
    """Close every open period up to this one, in every partition of the reports."""
    with closing(deployment.log()) as log:
        log.create({REPORTS: deployment.run.partitions})
        log.append(close_marker(number, p) for p in range(log.describe(REPORTS).partitions))


def topics(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    private, public = topics_of(deployment.study, deployment.run.partitions)
    lines, problems = [], []
    with closing(deployment.log()) as log, closing(deployment.public()) as published:
        for held, wanted in ((log, private), (published, public)):
            held.create(wanted)
            problems += held.faults(wanted)
            lines += [f"{name}: as it must be" for name in wanted]
    if problems:
        raise UserError(problems)
    return Output({"topics": [*private, *public]}, "\n".join(lines))


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    tell = _tell_json if options.json else say
    process = releaser(deployment, tell=tell, stop=stop)
    process.moved = options.moved
    # What was imported lives as long as the service: let the collector never look at it again.
    gc.freeze()
    with ExitStack() as stack:
        stack.callback(process.public.close)
        stack.callback(process.log.close)
        for address, public in (
            (deployment.run.listen, False),
            (deployment.run.listen_public, True),
        ):
            if address is not None:
                from ..releaser.listen import listening

                stack.enter_context(listening(address, process.facts, public=public))
        done = process.run(until_idle=options.until_idle)
    failed = any(held.state == "failed" for held in process.facts.jobs.values())
    code = JOB_FAILED if failed and options.until_idle else 0
    return Output({"horizon_reached": done}, "", code)


def _tell_json(line: str) -> None:
    """A line for the operator as JSON, on standard error; never a count or a value."""
    held = {"time": rfc3339_utc(time.time()), "message": line}
    print(json.dumps(held), file=sys.stderr, flush=True)


def releaser(
    deployment: Deployment,
    tell: Callable[[str], None] = lambda line: None,
    stop: threading.Event | None = None,
) -> Releaser:
    """The releaser of a study, on the logs that its file names."""
    return Releaser(
        deployment.plan,
        deployment.log(),
        deployment.public(),
        deployment.snapshots,
        deployment.run.partitions,
        str(deployment.path),
        worker_command(deployment),
        tell=tell,
        stop=stop or threading.Event(),
    )


def status(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    made, study = deployment.plan, deployment.study
    labels = study.periods.labels
    entries: list[journal.Entry] = []
    ledger: Ledger | None = None
    given: bool | None = False
    strange: str | None = None
    try:
        with closing(deployment.log(readonly=True)) as log:
            with suppress(Missing):  # before the first run, when reports and closes may be there
                entries = journal.read(log)
            ledger = (
                journal.check_journal(entries, made, log.describe(REPORTS)) if entries else None
            )
            if study.periods.close == "marker":
                given = has_close_markers(log, entries, _LOOK)
            strange = _strange(deployment, entries, log)
    except Missing:
        pass
    if not entries:
        deployment.check_unpublished()
    last = journal.closes(entries)[-1] if entries else None
    number = last.number if last else 0
    waits = "nothing: the horizon is reached"
    if number < len(labels):
        waits = f"stream-dp close {options.study} {labels[number]}"
        if study.periods.close != "marker":
            waits = "its scheduled close"
        elif given is None:
            waits += ", unless that was given among what is not read yet"
        elif given:
            waits = f"stream-dp run {options.study}: the close was given, and is not read yet"
    spent = ledger.spent if ledger else 0
    data: dict[str, Any] = {
        "confidential": True,
        "study": study.name,
        "begun": bool(entries),
        "moved": strange is not None,
        "open_period": labels[number] if number < len(labels) else None,
        "waits_for": waits,
        "last_closed": labels[number - 1] if number else None,
        "rho_spent": str(spent),
        "rho_total": str(study.rho),
        "cells_at_last_cut": last.message.head.get("accounting") if last else None,
    }
    cells = data["cells_at_last_cut"]
    text = [
        "CONFIDENTIAL",
        f"study {study.name}: " + ("begun" if entries else "not begun; 'stream-dp run' begins it"),
        f"open period: {data['open_period'] or 'none'}, waits for {waits}",
        f"last closed: {data['last_closed'] or 'none'}",
        f"budget: rho {float(spent):.6g} of {float(study.rho):.6g} spent",
    ]
    if strange is not None:
        text.append(strange)
    if study.batches:
        sent = entries or has_table(deployment)
        data["groups_sent"] = bool(sent)
        if not sent:
            text.append(f"groups: none sent; stream-dp groups {options.study} GROUPS MEMBERS")
    held = listed(deployment, entries)
    if held:
        data["jobs"] = held
        text += [f"job {job['id']}: {job['words']}" for job in held]
    if cells:
        rejected = sum(cells["rejected"].values())
        text.append(
            f"cells up to the last cut: {cells['received']} received = "
            f"{cells['accepted']} accepted + {cells['superseded']} superseded + "
            f"{rejected} rejected + {cells['pending']} pending"
        )
    return Output(data, "\n".join(text))


def _strange(deployment: Deployment, entries: Sequence[Entry], log: Log) -> str | None:
    """Why `run` would refuse the logs' files as copies; None where it would not."""
    file = str(deployment.path)
    try:
        place.check_place(entries, log, file)
        with closing(deployment.public(readonly=True)) as public:
            published = bool(public.read(TOPIC, {0: 0}, 1, 0).records)
            place.placed_entry(entries, log, public, published=published, moved=False, file=file)
    except Missing:
        return None
    except Inconsistent as error:
        return error.lines[0]
    return None
