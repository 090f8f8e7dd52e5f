"""What `stream-dp estimate` says about sizes of places."""

from __future__ import annotations

from stream_dp.client import LEVEL, PublicLog

from .output import Output

EXAMPLES = ("size 3", "at-least 3", "quantile 1/2", "mean", "skewness")


def size_answer(
    public: PublicLog, name: str, query: str, region: str | None, period: str | None
) -> Output:
    """The answer to a query about a region.

    region: its path, such as `north/0101`; None for all regions together.

    Raises UserError.
    """
    sizes = public.sizes(name, period)
    path = tuple(region.split("/")) if region else ()
    answer = sizes.answer(query, *path)
    assert public.study.places is not None
    unit, where = public.study.places.unit, region or "all regions"
    interval = answer.interval
    data = {
        "release": name,
        "query": query,
        "region": list(path),
        "period": sizes.certificate.period,
        "value": answer.unbiased,
        "standard_error": answer.standard_error,
        "interval": None if interval is None else list(interval),
        "level": LEVEL,
        "published": answer.value,
        "reason": answer.reason or None,
    }
    text = [f"{query} at {sizes.certificate.period}, {where} ({unit}s by their number of people)"]
    text.append(f"  published       {answer.value:.5g}, which agrees between all levels")
    if answer.unbiased is None or answer.standard_error is None or interval is None:
        text.append(f"  standard error  none is known: {answer.reason}")
        return Output(data, "\n".join(text))
    text += [
        f"  estimate        {answer.unbiased:.5g}, from the measurements of this region alone",
        f"  standard error  {answer.standard_error:.5g}",
        f"  {LEVEL:.0%} interval    {interval[0]:.5g} to {interval[1]:.5g}",
        "  errors are those of the privacy noise, not of sampling people",
    ]
    return Output(data, "\n".join(text))


def size_queries(public: PublicLog, name: str) -> list[str]:
    """Examples of what can be asked of a release of sizes."""
    return [*EXAMPLES, *(f"mean --region {'/'.join(path)}" for path in _some(public, name))]


def _some(public: PublicLog, name: str) -> list[tuple[str, ...]]:
    """A region of each level."""
    regions = public.sizes(name).regions
    last = len(regions[-1])
    return [next(p for p in regions if len(p) == depth) for depth in range(1, last + 1)]
