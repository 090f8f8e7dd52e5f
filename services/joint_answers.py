"""What `stream-dp estimate` says of several answers together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stream_dp.client import LEVEL, PublicLog
from stream_dp.errors import UserError
from stream_dp.estimate.joint import JointEstimates

from .output import Output

Questions = Sequence[tuple[str, str, str | None]]


def every_period(public: PublicLog, name: str, query: str) -> Questions:
    """A query at every period of a release so far. Raises UserError."""
    releases = public.published if public.study.batch(name) else public.releases_of(name)
    certificates = [r.certificate for r in releases]
    return [(name, query, c.period) for c in certificates if c.release == name]


def joint_output(public: PublicLog, questions: Questions, *, count: bool) -> Output:
    """The answers with a band that covers all at once; of two, what their difference and ratio are.

    Raises UserError where one of them has no error, or no such answer is there.
    """
    asked = [(name, query, _period(public, name, period)) for name, query, period in questions]
    joint = public.joint(asked, count=count)
    errors, (low, high) = joint.standard_errors, joint.band()
    digits, measure = (1, "count") if count else (5, "share")
    rows: list[dict[str, Any]] = [
        {
            **dict(zip(("release", "query", "period"), question, strict=True)),
            "value": float(joint.values[i]),
            "standard_error": float(errors[i]),
            "band": [float(low[i]), float(high[i])],
        }
        for i, question in enumerate(asked)
    ]
    data: dict[str, Any] = {
        "measure": measure,
        "level": LEVEL,
        "answers": rows,
        "covariance": joint.covariance.tolist(),
    }
    text = [f"{measure}s, standard errors, and a band that covers all at once with {LEVEL:.0%}"]
    for row in rows:
        value, error = f"{row['value']:.{digits}f}", f"{row['standard_error']:.{digits}f}"
        ends = f"{row['band'][0]:.{digits}f} to {row['band'][1]:.{digits}f}"
        text.append(
            f"  {value}  +- {error}  {ends}  {row['release']}, {row['query']} at {row['period']}"
        )
    if len(asked) == 2:
        compared = _compared(joint, digits)
        data |= {name: answer for name, answer, _ in compared}
        text += [line for _, _, line in compared]
    text.append("errors are those of the privacy noise, not of sampling people")
    return Output(data, "\n".join(text))


def _compared(joint: JointEstimates, digits: int) -> list[tuple[str, Any, str]]:
    """The difference and the ratio of two answers: a name, the data, a line."""
    compared: list[tuple[str, Any, str]] = []
    for name, words, places in (
        ("difference", "the first less the second", digits),
        ("ratio", "the first over the second", 5),
    ):
        try:
            value, error, (low, high) = getattr(joint, name)(0, 1)
        except UserError as refused:
            compared.append((name, None, f"{words}: {refused}"))
            continue
        data = {"value": value, "standard_error": error, "interval": [low, high]}
        ends = f"{LEVEL:.0%} interval {low:.{places}f} to {high:.{places}f}"
        line = f"{words}: {value:.{places}f}, standard error {error:.{places}f}, {ends}"
        compared.append((name, data, line))
    return compared


def _period(public: PublicLog, name: str, period: str | None) -> str:
    if period is not None:
        return period
    if public.study.batch(name) is not None:
        return public.data_set(name).certificate.period
    return public.release_at(name, None).certificate.period
