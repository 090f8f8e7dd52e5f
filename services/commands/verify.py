"""`stream-dp verify`: checks hashes, chain, prefixes and budget of a public log."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import closing, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, Info, generate_latest

from stream_dp.answers.error_weights import follows
from stream_dp.client import PublicLog
from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.log import Damaged
from stream_dp.release.public_reader import AnyCertificate, keep_none
from stream_dp.release.signatures import read_audit_statement
from stream_dp.release.study_plan import least_variances, read_plan
from stream_dp.study import Study
from stream_dp.study.topics import REPORTS

from ..process.command_output import INCONSISTENT, Output, failure
from ..storage import journal, journal_checks
from ..storage.atomic_files import write_text_file
from ..storage.deployment import Deployment, open_public
from ..storage.witness import check_witness

_KEY = "key: the one that was kept elsewhere"
_HEAD = "head: the hash that was kept elsewhere is in the chain"


@dataclass(frozen=True)
class Check:
    """The result of one check: the name, whether the property holds, and the findings in lines."""

    check: str
    holds: bool
    lines: Sequence[str]


def run(options: argparse.Namespace) -> Output:
    textfile: Path | None = options.textfile
    if textfile is not None and textfile.suffix != ".prom":
        raise UserError(f"--textfile {textfile}: name it as .prom; no collector reads others")
    try:
        public, checks = _checked(options)
    except Exception as error:
        # The fault of the log comes before a fault of the text file.
        with suppress(OSError, UserError):
            _write_verdict(textfile, failure(error)[0], None)
        raise
    lines = [line for check in checks if check.holds for line in check.lines]
    holds = all(check.holds for check in checks)
    code = 0 if holds else INCONSISTENT
    with nullcontext() if holds else suppress(OSError, UserError):
        _write_verdict(textfile, code, public)
    head = None if public is None else public.head
    data = {
        "holds": holds,
        "checks": [asdict(check) for check in checks],
        "verified": lines,
        "head": head,
    }
    text = lines
    if options.all:
        text = [
            f"{check.check + ':':<9}{'holds' if check.holds else 'FAILS'}  {line}"
            for check in checks
            for line in check.lines
        ]
    return Output(data, "\n".join([*text, *([] if head is None else [f"head {head}"])]), code)


def _checked(options: argparse.Namespace) -> tuple[PublicLog | None, list[Check]]:
    """Runs the checks; returns the log, or None if unreadable, and the results in order.

    Raises Inconsistent or Damaged for the first failing check, unless `--all` is given.
    """
    checks: list[Check] = []
    try:
        public, deployment = open_public(options.source, keep_none)
    except (Inconsistent, Damaged) as error:
        if not options.all:
            raise
        return None, [Check("log", False, failure(error)[1])]
    for name, step in _steps(options, public, deployment):
        try:
            checks.append(Check(name, True, step()))
        except (Inconsistent, Damaged) as error:
            if not options.all:
                raise
            checks.append(Check(name, False, failure(error)[1]))
    return public, checks


def _steps(
    options: argparse.Namespace, public: PublicLog, deployment: Deployment | None
) -> Iterator[tuple[str, Callable[[], list[str]]]]:
    """The checks of a readable log, by name."""
    yield "log", public.verify
    if public.weights:
        yield "weights", lambda: _weights(options.source, {*public.weights})
    if options.key is not None:
        yield (
            "key",
            lambda: _required(public, _KEY, key=options.key),
        )
    if options.head is not None:
        yield "head", lambda: _known_head(public, options.head, deployment)
    for path in options.statement:
        yield "audit", partial(_audit_statement, public, path)
    if deployment is not None:
        yield "journal", lambda: _against_journal(deployment, public)
        if deployment.run.witness is not None:
            yield "witness", lambda: _against_witness(deployment, public)


def _weights(source: str, panels: Set[str]) -> list[str]:
    """Reads the panels with weights of answers, and returns a line. Raises Inconsistent."""

    def keep(study: Study, certificate: AnyCertificate, table: str) -> bool:
        return study.batch(certificate.release) is None and (
            table == "measurements" or certificate.release in panels
        )

    public, _ = open_public(source, keep)
    for published in public.weights.values():
        head = published.head
        if not follows(public, published):
            raise Inconsistent(
                f"public log: the weights of {head.release} at {head.period} do not follow from its"
                " panel and from the errors of its reruns"
            )
    names = ", ".join(public.weights)
    return [f"weights: of {names}, as they follow from the panels and the errors of reruns"]


def _audit_statement(public: PublicLog, path: Path) -> list[str]:
    """The line of a signed statement of an audit. Raises UserError, Inconsistent."""
    return [f"audit: {read_audit_statement(path, public.study, public.signatures.keys).words}"]


def _required(public: PublicLog, line: str, **pin: str) -> list[str]:
    """The line of a pin that holds. Raises UserError, Inconsistent."""
    public.require(**pin)
    return [line]


def _known_head(public: PublicLog, head: str, deployment: Deployment | None) -> list[str]:
    """Checks that a published hash is in the chain, or will be published again.

    Raises Inconsistent.
    """
    if deployment is None or head in {m.hash for m in public.messages}:
        return _required(
            public, "head: the hash that was kept elsewhere is in the chain", head=head
        )
    with closing(deployment.log(readonly=True)) as log:
        entries = journal.read_heads(log)
    journal_checks.check_public(entries, [m.hash for m in public.messages])
    missing = [digest for e in entries for digest in e.published][len(public.messages) :]
    if head not in missing:
        raise Inconsistent(
            "public log: the hash kept elsewhere is not in its chain, nor in the journal: an older"
            " log was restored, or it is another study's"
        )
    return [
        "head: the hash that was kept elsewhere is in the journal: the public log alone is older,"
        f" by {len(missing)} messages; stream-dp run publishes the same bytes again"
    ]


def _against_journal(deployment: Deployment, public: PublicLog) -> list[str]:
    """Checks the journal against the public log; returns lines. Raises Inconsistent."""
    with closing(deployment.log(readonly=True)) as log:
        entries = journal.read_heads(log)
        if not entries:
            raise Inconsistent("journal: it is empty, but the public log is not")
        for entry in entries:
            entry.read()
        plan = journal_checks.begun_plan(entries, deployment.study)
        ledger = journal_checks.check_journal(entries, plan, log.describe(REPORTS))
    journal_checks.check_public(entries, [m.hash for m in public.messages])
    least = plan.proved.least_variance
    if least_variances(read_plan(public.messages[0])) != {None if least is None else str(least)}:
        raise Inconsistent("public log: its least variance is not what follows from the study")
    waiting = sum(len(entry.published) for entry in entries) - len(public.messages)
    return [
        f"journal: {len(entries)} entries, charged as planned, {ledger.spent} spent",
        "journal and public log agree" + (f"; {waiting} to be published" if waiting else ""),
    ]


def _against_witness(deployment: Deployment, public: PublicLog) -> list[str]:
    """Compares the journal with the declared witness; returns a line. Raises Inconsistent."""
    witness = deployment.witness(readonly=True)
    assert witness is not None  # the study file declares one
    with closing(witness), closing(deployment.log(readonly=True)) as log:
        return check_witness(witness, journal.read_heads(log), published=bool(public.published))


def _write_verdict(path: Path | None, code: int, public: PublicLog | None) -> None:
    """Writes a text file of metrics, whole or not at all. Raises OSError with the path.

    The file holds public facts; of the confidential side, only whether both sides agree.

    path: the path of the file; None to write nothing
    code: the exit code of `verify`
    public: the log; None if unreadable
    """
    if path is None:
        return
    registry = CollectorRegistry()
    # The file's name tells checks apart where the log, and with it its study, cannot be read.
    check = {"check": path.stem}
    gauges = {
        "holds": ("1 where everything that was checked holds.", int(code == 0)),
        "exit_code": ("The exit code of the last check.", code),
        "timestamp_seconds": ("When it was checked last, Unix seconds.", time.time()),
    }
    if public is not None:
        gauges["messages"] = ("Messages of the public log.", len(public.messages))
        info = Info("stream_dp_verify", "What was checked.", list(check), registry=registry)
        info.labels(**check).info({"study": public.study.name, "head": public.head})
    for name, (help_text, value) in gauges.items():
        gauge = Gauge(f"stream_dp_verify_{name}", help_text, list(check), registry=registry)
        gauge.labels(**check).set(value)
    write_text_file(path, generate_latest(registry).decode(), public=True)
