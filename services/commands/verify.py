"""`stream-dp verify`: checks hashes, chain, prefixes and budget of a public log."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from stream_dp.client import PublicLog
from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.base import Damaged
from stream_dp.release.published import keep_none
from stream_dp.topics import REPORTS

from .. import journal, journal_checks
from ..deployment import Deployment, open_public
from ..options import public_source
from ..output import INCONSISTENT, Output, failure
from ..verdict import write_verdict


@dataclass(frozen=True)
class Check:
    """A check's name, whether what it checks holds, and what was seen, in lines."""

    check: str
    holds: bool
    lines: Sequence[str]


def options(parser: argparse.ArgumentParser) -> None:
    public_source(parser)
    parser.add_argument("--head", metavar="HASH", help="a hash that was kept elsewhere")
    words = "the public key that message 0 must name, kept elsewhere: ed25519:..."
    parser.add_argument("--key", metavar="KEY", help=words)
    words = "go on after a check that fails, and say of each whether it holds"
    parser.add_argument("--all", action="store_true", help=words)
    words = "write the verdict for Prometheus' textfile collector, a failure's too"
    parser.add_argument("--textfile", type=Path, metavar="FILE.prom", help=words)


def run(options: argparse.Namespace) -> Output:
    textfile: Path | None = options.textfile
    if textfile is not None and textfile.suffix != ".prom":
        raise UserError(f"--textfile {textfile}: name it as .prom; no collector reads others")
    try:
        public, checks = _checked(options)
    except Exception as error:
        # What is wrong with the log is said rather than what is wrong with this file.
        with suppress(OSError):
            write_verdict(textfile, failure(error)[0], None)
        raise
    lines = [line for each in checks if each.holds for line in each.lines]
    holds = all(each.holds for each in checks)
    code = 0 if holds else INCONSISTENT
    with nullcontext() if holds else suppress(OSError):
        write_verdict(textfile, code, public)
    head = None if public is None else public.head
    data = {
        "holds": holds,
        "checks": [asdict(each) for each in checks],
        "verified": lines,
        "head": head,
    }
    text = lines
    if options.all:
        text = [
            f"{each.check + ':':<9}{'holds' if each.holds else 'FAILS'}  {line}"
            for each in checks
            for line in each.lines
        ]
    return Output(data, "\n".join([*text, *([] if head is None else [f"head {head}"])]), code)


def _checked(options: argparse.Namespace) -> tuple[PublicLog | None, list[Check]]:
    """The log, None where it cannot be read, and the result of each check, in order.

    Raises Inconsistent, Damaged for the first that fails, unless all are asked for.
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
    """What is checked of a log that can be read, by name."""
    yield "log", public.verify
    if options.key is not None:
        yield "key", lambda: _named_key(public, options.key)
    if options.head is not None:
        yield "head", lambda: _known_head(public, options.head, deployment)
    if deployment is not None:
        yield "journal", lambda: _against_journal(deployment, public)


def _named_key(public: PublicLog, key: str) -> list[str]:
    public.signatures.require(key)
    return ["key: the one that was kept elsewhere"]


def _known_head(public: PublicLog, head: str, deployment: Deployment | None) -> list[str]:
    """Checks that a hash that was published is in the chain, or is to be published again.

    Raises Inconsistent.
    """
    if head in {m.hash for m in public.messages}:
        return ["head: the hash that was kept elsewhere is in the chain"]
    what = "public log: the hash kept elsewhere is not in its chain"
    if deployment is None:
        raise Inconsistent(
            f"{what}: an older log was restored, or it is another study's; 'stream-dp verify"
            " STUDY.toml --head HASH' says whether the journal has the hash, which is no fault"
        )
    with closing(deployment.log(readonly=True)) as log:
        entries = journal.read_heads(log)
    journal_checks.check_public(entries, [m.hash for m in public.messages])
    missing = [digest for e in entries for digest in e.published][len(public.messages) :]
    if head not in missing:
        raise Inconsistent(
            f"{what}, nor in the journal: an older log was restored, or it is another study's"
        )
    return [
        "head: the hash that was kept elsewhere is in the journal: the public log alone is older,"
        f" by {len(missing)} messages; stream-dp run publishes the same bytes again"
    ]


def _against_journal(deployment: Deployment, public: PublicLog) -> list[str]:
    """Checks that journal and public log agree; a line for each result. Raises Inconsistent."""
    with closing(deployment.log(readonly=True)) as log:
        entries = journal.read_heads(log)
        if not entries:
            raise Inconsistent("journal: it is empty, but the public log is not")
        for entry in entries:
            entry.read()
        plan = journal_checks.begun_plan(entries, deployment.study)
        ledger = journal_checks.check_journal(entries, plan, log.describe(REPORTS))
    journal_checks.check_public(entries, [m.hash for m in public.messages])
    waiting = sum(len(entry.published) for entry in entries) - len(public.messages)
    return [
        f"journal: {len(entries)} entries, charged as planned, {ledger.spent} spent",
        "journal and public log agree" + (f"; {waiting} to be published" if waiting else ""),
    ]
