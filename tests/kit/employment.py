"""A study of employment by quarters, and its public logs, with and without noise."""

from fractions import Fraction

import numpy as np

from kit import public_logs
from kit.public_logs import Silent, log_in_memory
from kit.studies import attribute, small_study
from stream_dp.answers.query import parse_query
from stream_dp.client import PublicLog
from stream_dp.panel import window_codes

PEOPLE, HORIZON, Q = 300, 4, 3


def employment_study(neighbours="replace_one", rho="2", **changed):
    """The study, each of its releases at `rho`; `changed` replaces parts of its file."""
    replace = neighbours != "add_remove"
    cumulative = {"kind": "cumulative", "attribute": "work", "rho": rho}
    sized = {} if replace else {"size_share": "1/5"}
    releases = [
        {"name": "pairs", "kind": "window", "attribute": "work", "width": 2, "rho": rho},
        {"name": "full-time", "event": ["full"], **cumulative, **sized},
    ]
    if not replace:
        releases.append({"name": "declared", "event": ["full"], "rows": 400, **cumulative})
    changed = {
        "attributes": {"work": attribute(["not at all", "part", "full"], missing="part")},
        "releases": releases,
        **changed,
    }
    return small_study(
        name="asked",
        neighbours=neighbours,
        rho=str(Fraction(rho) * len(releases)),
        periods={"first": "2021-Q1", "every": "quarter", "count": HORIZON},
        size=PEOPLE if replace else None,
        **changed,
    )


TRUTH = np.random.default_rng(5).choice(3, (PEOPLE, HORIZON), p=[0.2, 0.5, 0.3]).astype(np.uint8)
LABELS = ("2021-Q1", "2021-Q2", "2021-Q3", "2021-Q4")
WORDS = ('"not at all"', "part", "full")


def published_messages(study, source, truth=TRUTH, periods=HORIZON):
    """The public messages of a study of `truth`, symbols (people, periods)."""
    return public_logs.published(study, {"work": truth}, source, periods)


def public_log(study, source, **options):
    """The public log of those messages."""
    return PublicLog(log_in_memory(published_messages(study, source, **options)))


# By the relation of neighbours.
EXACT = {n: public_log(employment_study(n), Silent()) for n in ("replace_one", "add_remove")}


def holds(text, t, truth=TRUTH):
    """Whether a window query in words is true of each person at period t."""
    query = parse_query(text, "work", ("not at all", "part", "full"))
    return query.mask[window_codes(truth[:, t - query.width : t], Q)]
