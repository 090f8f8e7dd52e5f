"""What `stream-dp estimate` says about sizes of places."""

from __future__ import annotations

from typing import Any

from stream_dp.client import LEVEL, PublicLog
from stream_dp.errors import UserError

from .output import Output

EXAMPLES = ("size 3", "at-least 3", "quantile 1/2", "mean", "skewness")


def size_answer(
    public: PublicLog,
    name: str,
    query: str,
    region: str | None,
    period: str | None,
    *,
    minus: str | None = None,
    minus_region: str | None = None,
) -> Output:
    """The answer to a query about a region, or a difference of two answers.

    region: its path, such as `north/0101`; None for all regions together.
    minus: the period of the answer to be taken off; the same by default, where a region is given.
    minus_region: the region of that answer; the same by default.

    Raises UserError.
    """
    sizes = public.sizes(name, period)
    answer = sizes.answer(query, *_path(region))
    where = region or "all regions"
    heading = f"{query} at {sizes.certificate.period}, {where}"
    data: dict[str, Any] = {
        "release": name,
        "query": query,
        "region": list(_path(region)),
        "period": sizes.certificate.period,
    }
    difference = minus is not None or minus_region is not None
    if difference:
        other = sizes if minus is None else public.sizes(name, minus)
        off = region if minus_region is None else minus_region
        if other.certificate.period == sizes.certificate.period and _path(off) == _path(region):
            raise UserError("--minus: both answers are the same; name another period or region")
        answer = answer.minus(other.answer(query, *_path(off)))
        heading += f", less {other.certificate.period}, {off or 'all regions'}"
        data |= {"minus": other.certificate.period, "minus_region": list(_path(off))}
    assert public.study.places is not None
    interval = answer.interval
    data |= {
        "value": answer.unbiased,
        "standard_error": answer.standard_error,
        "interval": None if interval is None else list(interval),
        "level": LEVEL,
        "published": answer.value,
        "reason": answer.reason or None,
    }
    text = [f"{heading} ({public.study.places.unit}s by their number of people)"]
    what = "as published" if difference else "which agrees between all levels"
    text.append(f"  published       {answer.value:.5g}, {what}")
    if answer.unbiased is None or answer.standard_error is None or interval is None:
        text.append(f"  standard error  none is known: {answer.reason}")
        return Output(data, "\n".join(text))
    whose = "both, whose noise is independent" if difference else "this region alone"
    text += [
        f"  estimate        {answer.unbiased:.5g}, from the measurements of {whose}",
        f"  standard error  {answer.standard_error:.5g}",
        f"  {LEVEL:.0%} interval    {interval[0]:.5g} to {interval[1]:.5g}",
        "  errors are those of the privacy noise, not of sampling people",
    ]
    return Output(data, "\n".join(text))


def _path(region: str | None) -> tuple[str, ...]:
    return tuple(region.split("/")) if region else ()


def size_queries(public: PublicLog, name: str) -> list[str]:
    """Examples of what can be asked of a release of sizes."""
    return [*EXAMPLES, *(f"mean --region {'/'.join(path)}" for path in _some(public, name))]


def _some(public: PublicLog, name: str) -> list[tuple[str, ...]]:
    """A region of each level."""
    regions = public.sizes(name).regions
    last = len(regions[-1])
    return [next(p for p in regions if len(p) == depth) for depth in range(1, last + 1)]
