"""`stream-dp estimate`: answers a query, with its standard error."""

from __future__ import annotations

import argparse
import textwrap

from stream_dp.client import LEVEL, PublicLog
from stream_dp.errors import UserError
from stream_dp.release.data_sets import BatchCertificate, DataSet
from stream_dp.release.published import AnyCertificate
from stream_dp.release.sizes import PublishedSizes
from stream_dp.release.sizes_certificate import SizesCertificate
from stream_dp.study import SizesRelease, Study

from ..deployment import open_public
from ..joint_answers import Questions, every_period, joint_output
from ..options import public_source
from ..output import Output
from ..size_estimates import size_answer, size_queries


def options(parser: argparse.ArgumentParser) -> None:
    public_source(parser)
    parser.add_argument("release", nargs="?", metavar="RELEASE")
    parser.add_argument("query", nargs="?", metavar="QUERY")
    parser.add_argument("--period", help="as of this period; the last one by default")
    words = "less the answer at this period: a change, with the error that both have together"
    parser.add_argument("--minus", metavar="PERIOD", help=words)
    words = "of sizes of places, such as north/0101; all regions together by default"
    parser.add_argument("--region", metavar="PATH", help=words)
    words = "of sizes of places: less the answer of this region, an empty path for all of them"
    parser.add_argument("--minus-region", metavar="PATH", help=words)
    words = "another answer, together with the first: the error of their difference and ratio,"
    words += " a band that covers all at once, with --json all covariances; repeatable"
    several = ("RELEASE", "QUERY", "PERIOD")
    parser.add_argument("--also", nargs=3, action="append", metavar=several, help=words)
    words = "the query at every period so far, together"
    parser.add_argument("--each-period", action="store_true", help=words)
    unit = parser.add_mutually_exclusive_group()
    unit.add_argument("--share", action="store_true", help="as a share of people (default)")
    unit.add_argument("--count", action="store_true", help="as a number of people")


def run(options: argparse.Namespace) -> Output:
    several = options.each_period or options.also is not None
    named = {options.release, *(name for name, _, _ in options.also or ())}

    def keep(study: Study, certificate: AnyCertificate, table: str) -> bool:
        if isinstance(certificate, BatchCertificate | SizesCertificate):
            return options.release is None or certificate.release in named
        if options.query is None:
            return False
        return table == "measurements" or (
            table == "panel" and certificate.release == options.release and not several
        )

    public, _ = open_public(options.source, keep)
    if options.query is None:
        asked = {
            name: size_queries(public, name) if _of_sizes(public, name) else public.queries(name)
            for name in ([options.release] if options.release else _askable(public))
        }
        text = [
            f"{name}\n" + "\n".join(f"  {q}" for q in queries) for name, queries in asked.items()
        ]
        if not text:
            return Output(asked, "nothing is published yet")
        return Output(asked, "what can be asked, for example:\n" + "\n".join(text))
    if several:
        return _together(public, options)
    if _of_sizes(public, options.release):
        for word in ("share", "count"):
            if getattr(options, word):
                raise UserError(f"--{word}: goes with panels; '{options.release}' is of sizes")
        return size_answer(
            public,
            options.release,
            options.query,
            options.region,
            options.period,
            minus=options.minus,
            minus_region=options.minus_region,
        )
    for word in ("region", "minus_region"):
        if getattr(options, word) is not None:
            flag = word.replace("_", "-")
            raise UserError(f"--{flag}: goes with sizes; '{options.release}' is of none")
    if public.study.batch(options.release) is not None:
        return _of_data_set(public, options)
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
    padding = f", of which {answer.padding:.{digits}f} are padding" if answer.padding else ""
    text = [
        f"{answer.query} at {answer.period} ({answer.measure} of {public.study.unit}s{whom})",
        f"  estimate        {answer.value:.{digits}f}",
        f"  standard error  {answer.standard_error:.{digits}f}",
        f"  {LEVEL:.0%} interval    {low:.{digits}f} to {high:.{digits}f}",
        f"  panel's answer  {answer.panel:.{digits}f}{padding}",
        _wrapped(f"  panel's bias    {bias or 'padding and repairs may bias it'}"),
        f"  method          {answer.method}, from measurements{sources} up to {answer.through}",
        "  errors are those of the privacy noise, not of sampling people",
    ]
    return Output({**answer.as_dict(), "panel_bias": bias}, "\n".join(text))


def _wrapped(line: str) -> str:
    return textwrap.fill(line, 100, subsequent_indent=" " * 18, break_long_words=False)


def _together(public: PublicLog, options: argparse.Namespace) -> Output:
    also = [tuple(each) for each in options.also or ()]
    for name in (options.release, *(each[0] for each in also)):
        if _of_sizes(public, name):
            raise UserError(f"--also, --each-period: '{name}' is of sizes, answered one by one")
    for word in ("minus", "region", "minus_region", *(["period"] if options.each_period else [])):
        if getattr(options, word) is not None:
            raise UserError(f"--{word.replace('_', '-')}: goes with one answer alone")
    first: Questions = [(options.release, options.query, options.period)]
    if options.each_period:
        first = every_period(public, options.release, options.query)
    return joint_output(public, [*first, *also], count=bool(options.count))


def _of_sizes(public: PublicLog, name: str) -> bool:
    """Whether a release is one of sizes of places."""
    return isinstance(public.study.batch(name), SizesRelease)


def _askable(public: PublicLog) -> list[str]:
    """Releases of panels, and those data sets and sizes of which some are published."""
    sets = {
        r.certificate.release for r in public.published if isinstance(r, DataSet | PublishedSizes)
    }
    return [r.name for r in public.study.releases] + sorted(sets)


def _of_data_set(public: PublicLog, options: argparse.Namespace) -> Output:
    if options.minus is not None:
        raise UserError("--minus: is between periods of a panel; data sets are drawn anew")
    count = bool(options.count)
    answer = public.data_set_estimate(options.release, options.query, options.period, count=count)
    digits = 1 if count else 5
    lines = [f"{answer.query} at {answer.period} ({answer.measure} of {answer.people})"]
    if answer.standard_error is not None and answer.interval is not None:
        low, high = answer.interval
        lines += [
            f"  estimate        {answer.value:.{digits}f}",
            f"  standard error  {answer.standard_error:.{digits}f}",
            f"  {LEVEL:.0%} interval    {low:.{digits}f} to {high:.{digits}f}",
        ]
    lines.append(f"  records' answer {answer.records:.{digits}f}")
    if answer.standard_error is None and answer.interval is not None:
        low, high = answer.interval
        lines.append(f"  {LEVEL:.0%} interval    {low:.{digits}f} to {high:.{digits}f}")
    lines.append(f"  method          {answer.method}")
    if answer.interval is not None:
        lines.append("  errors are those of the privacy noise, not of sampling people")
    return Output(answer.as_dict(), "\n".join(lines))


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
