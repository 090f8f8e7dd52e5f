"""`stream-dp verify`: checks hashes, chain, prefixes and budget of a public log."""

from __future__ import annotations

import argparse
from contextlib import closing

from stream_dp.client import PublicLog
from stream_dp.errors import Inconsistent
from stream_dp.release.published import keep_none
from stream_dp.topics import REPORTS

from .. import journal, journal_checks
from ..deployment import Deployment, open_public
from ..options import public_source
from ..output import Output


def options(parser: argparse.ArgumentParser) -> None:
    public_source(parser)
    parser.add_argument("--head", metavar="HASH", help="a hash that was kept elsewhere")
    words = "the public key that message 0 must name, kept elsewhere: ed25519:..."
    parser.add_argument("--key", metavar="KEY", help=words)


def run(options: argparse.Namespace) -> Output:
    public, deployment = open_public(options.source, keep_none)
    lines = public.verify()
    if options.key is not None:
        public.signatures.require(options.key)
        lines.append("key: the one that was kept elsewhere")
    if options.head is not None:
        if options.head not in {m.hash for m in public.messages}:
            raise Inconsistent(
                "public log: the hash kept elsewhere is not in its chain: an older log was"
                " restored, or it is another study's"
            )
        lines.append("head: the hash that was kept elsewhere is in the chain")
    if deployment is not None:
        lines += _against_journal(deployment, public)
    data = {"verified": lines, "head": public.head}
    return Output(data, "\n".join([*lines, f"head {public.head}"]))


def _against_journal(deployment: Deployment, public: PublicLog) -> list[str]:
    """Checks that journal and public log agree; a line for each result. Raises Inconsistent."""
    with closing(deployment.log(readonly=True)) as log:
        entries = journal.read_heads(log)
        if not entries:
            raise Inconsistent("journal: it is empty, but the public log is not")
        for entry in entries:
            entry.read()
        ledger = journal_checks.check_journal(entries, deployment.plan, log.describe(REPORTS))
    journal_checks.check_public(entries, [m.hash for m in public.messages])
    waiting = sum(len(entry.published) for entry in entries) - len(public.messages)
    return [
        f"journal: {len(entries)} entries, charged as planned, {ledger.spent} spent",
        "journal and public log agree" + (f"; {waiting} to be published" if waiting else ""),
    ]
