"""Commands for analysts; a public log is all that they need."""

from __future__ import annotations

import argparse
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from stream_dp.client import LEVEL, PublicLog
from stream_dp.errors import Inconsistent, UserError
from stream_dp.release.data_sets import BatchCertificate
from stream_dp.release.panels import PanelCertificate
from stream_dp.release.published import AnyCertificate
from stream_dp.study import Study

from .. import journal
from ..deployment import Deployment, open_public
from ..files import writing
from ..output import Output
from ..topics import REPORTS
from .export import export_groups


def _nothing(study: Study, held: AnyCertificate, table: str) -> bool:
    return False


def releases(options: argparse.Namespace) -> Output:
    public, _ = open_public(options.source, _nothing)
    study = public.study
    listed: list[dict[str, Any]] = [
        {
            "release": held.release,
            "period": held.period,
            "kind": held.kind,
            "rows": held.rows if isinstance(held, PanelCertificate) else held.people,
            "rho": str(held.rho),
            "rho_spent": str(held.rho_spent),
            "epsilon_spent": held.epsilon_spent,
            "hash": release.message.hash,
        }
        for release in public.published
        for held in [release.certificate]
    ]
    data = {"study": study.name, "study_hash": study.hash, "releases": listed, "head": public.head}
    lines = [f"{'release':<20} {'period':<10} {'rows':>9} {'rho':>12} {'eps so far':>10}  hash"]
    lines += [
        f"{x['release']:<20} {x['period']:<10} {x['rows']:>9} {float(r.certificate.rho):>12.6g} "
        f"{float(x['epsilon_spent']):>10.3f}  {x['hash'][:16]}"
        for x, r in zip(listed, public.published, strict=True)
    ]
    words = " ".join(study.description.split())
    about = f"study {study.name}" + (f": {words}" if words else "")
    return Output(data, "\n".join([about, *lines, f"head {public.head}"]))


def export(options: argparse.Namespace) -> Output:
    out: Path = options.out

    def keep(study: Study, held: AnyCertificate, table: str) -> bool:
        last = study.periods.numbers.get(options.period, study.periods.count)
        ours = held.release == options.release and held.number <= last
        return ours and (table == "panel" or isinstance(held, BatchCertificate))

    public, _ = open_public(options.source, keep)
    if public.study.batch(options.release) is not None:
        return export_groups(public, options.release, options.period, out)
    if out.suffix not in {".parquet", ".csv"}:
        raise UserError(f"{out}: write it as .parquet or .csv")
    bias = public.at(options.release, options.period).certificate.panel_bias
    panel = public.panel(options.release, options.period)
    tables = panel.tables()
    first_rows = next(tables)
    opened = pa.csv.CSVWriter if out.suffix == ".csv" else pa.parquet.ParquetWriter
    with writing(out) as draft, opened(draft, first_rows.schema) as file:
        for table in chain([first_rows], tables):
            file.write_table(table)
    first, last = panel.periods[0], panel.periods[-1]
    data = {"out": str(out), "rows": panel.rows, "periods": list(panel.periods)}
    text = [f"{out}: {panel.rows} synthetic rows, {first} to {last}"]
    if bias is not None:
        data["panel_bias"] = bias
        text.append(f"panel bias: {bias}")
    return Output(data, "\n".join(text))


def estimate(options: argparse.Namespace) -> Output:
    def keep(study: Study, held: AnyCertificate, table: str) -> bool:
        if isinstance(held, BatchCertificate) or options.query is None:
            return False
        return table == "measurements" or (table == "panel" and held.release == options.release)

    public, _ = open_public(options.source, keep)
    if options.query is None:
        named = [options.release] if options.release else [r.name for r in public.study.releases]
        asked = {name: public.queries(name) for name in named}
        text = [f"{name}\n" + "\n".join(f"  {q}" for q in found) for name, found in asked.items()]
        return Output(asked, "what can be asked, for example:\n" + "\n".join(text))
    found = public.estimate(
        options.release, options.query, options.period, count=bool(options.count)
    )
    digits = 1 if options.count else 5
    low, high = found.interval
    whom = "" if options.count or found.people == "declared" else f" {found.people}"
    alone = found.sources == (options.release,)
    sources = "" if alone else f" of {', '.join(found.sources)}"
    text = [
        f"{found.query} at {found.period} ({found.measure} of {public.study.unit}s{whom})",
        f"  estimate        {found.value:.{digits}f}",
        f"  standard error  {found.standard_error:.{digits}f}",
        f"  {LEVEL:.0%} interval    {low:.{digits}f} to {high:.{digits}f}",
        f"  panel's answer  {found.panel:.{digits}f}  (padding and repairs may bias it)",
        f"  method          {found.method}, from measurements{sources} up to {found.through}",
        "  errors are those of the privacy noise, not of sampling people",
    ]
    return Output(found.as_dict(), "\n".join(text))


def verify(options: argparse.Namespace) -> Output:
    public, deployment = open_public(options.source, _nothing)
    lines = public.verify()
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
    with closing(deployment.log(readonly=True)) as log:
        entries = journal.read(log)
        if not entries:
            raise Inconsistent("journal: it is empty, but the public log is not")
        ledger = journal.check_journal(entries, deployment.plan, log.describe(REPORTS))
    journal.check_public(entries, [m.hash for m in public.messages])
    waiting = sum(len(entry.published) for entry in entries) - len(public.messages)
    return [
        f"journal: {len(entries)} entries, charged as planned, {ledger.spent} spent",
        "journal and public log agree" + (f"; {waiting} to be published" if waiting else ""),
    ]
