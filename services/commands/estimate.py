"""`stream-dp estimate`: answers a query, with its standard error."""

from __future__ import annotations

import argparse

from stream_dp.client import LEVEL, PublicLog
from stream_dp.release.data_sets import BatchCertificate
from stream_dp.release.published import AnyCertificate
from stream_dp.study import Study

from ..deployment import open_public
from ..options import public_source
from ..output import Output


def options(parser: argparse.ArgumentParser) -> None:
    public_source(parser)
    parser.add_argument("release", nargs="?", metavar="RELEASE")
    parser.add_argument("query", nargs="?", metavar="QUERY")
    parser.add_argument("--period", help="as of this period; the last one by default")
    words = "less the answer at this period: a change, with the error that both have together"
    parser.add_argument("--minus", metavar="PERIOD", help=words)
    unit = parser.add_mutually_exclusive_group()
    unit.add_argument("--share", action="store_true", help="as a share of people (default)")
    unit.add_argument("--count", action="store_true", help="as a number of people")


def run(options: argparse.Namespace) -> Output:
    def keep(study: Study, certificate: AnyCertificate, table: str) -> bool:
        if isinstance(certificate, BatchCertificate) or options.query is None:
            return False
        return table == "measurements" or (
            table == "panel" and certificate.release == options.release
        )

    public, _ = open_public(options.source, keep)
    if options.query is None:
        named = [options.release] if options.release else [r.name for r in public.study.releases]
        asked = {name: public.queries(name) for name in named}
        text = [
            f"{name}\n" + "\n".join(f"  {q}" for q in queries) for name, queries in asked.items()
        ]
        return Output(asked, "what can be asked, for example:\n" + "\n".join(text))
    if options.minus is not None:
        return _change(public, options)
    answer = public.estimate(
        options.release, options.query, options.period, count=bool(options.count)
    )
    known = public.release_at(options.release, None).certificate.panel_bias
    bias = None if known is None else known.removesuffix("; use 'estimate'")
    digits = 1 if options.count else 5
    low, high = answer.interval
    whom = "" if options.count or answer.people == "declared" else f" {answer.people}"
    alone = answer.sources == (options.release,)
    sources = "" if alone else f" of {', '.join(answer.sources)}"
    text = [
        f"{answer.query} at {answer.period} ({answer.measure} of {public.study.unit}s{whom})",
        f"  estimate        {answer.value:.{digits}f}",
        f"  standard error  {answer.standard_error:.{digits}f}",
        f"  {LEVEL:.0%} interval    {low:.{digits}f} to {high:.{digits}f}",
        f"  panel's answer  {answer.panel:.{digits}f}",
        f"  panel's bias    {bias or 'padding and repairs may bias it'}",
        f"  method          {answer.method}, from measurements{sources} up to {answer.through}",
        "  errors are those of the privacy noise, not of sampling people",
    ]
    return Output({**answer.as_dict(), "panel_bias": bias}, "\n".join(text))


def _change(public: PublicLog, options: argparse.Namespace) -> Output:
    count = bool(options.count)
    period = options.period or public.release_at(options.release, None).certificate.period
    periods = (period, options.minus)
    value, error, interval = public.change(options.release, options.query, periods, count=count)
    measure, digits = ("count", 1) if count else ("share", 5)
    data = {
        "release": options.release,
        "query": options.query,
        "period": period,
        "minus": options.minus,
        "measure": measure,
        "value": value,
        "standard_error": error,
        "interval": list(interval),
        "level": LEVEL,
    }
    low, high = interval
    text = [
        f"{options.query} at {period} less {options.minus} ({measure} of {public.study.unit}s)",
        f"  change          {value:.{digits}f}",
        f"  standard error  {error:.{digits}f}",
        f"  {LEVEL:.0%} interval    {low:.{digits}f} to {high:.{digits}f}",
        "  errors are those of the privacy noise, not of sampling people",
    ]
    return Output(data, "\n".join(text))
