"""The relative error of a count by the size of the group that is counted, before any data.

The noise of a count does not depend on the people who are counted. So the error that hides one
person hides a small group too: the same half-width is a larger part of a smaller group. A group
counts as usable if its 95 % interval is at most `USABLE` of its size, to either side.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

from stream_dp.answers.query import telling_queries
from stream_dp.json_object import Json
from stream_dp.study import DataSetRelease, Family, Release, Study

from .expected_errors import PlannedStreams, last_errors

GROUP_SIZES = (10, 100, 1_000, 10_000)
USABLE = 0.3
LEVEL = 0.95


Count = Callable[[Study, Any], "GroupError | None"]


@dataclass(frozen=True)
class GroupError:
    """The error of a release's count of people.

    release: its name.
    stratum: the fixed attribute and value of its people, as in "region = north"; empty for all
    query: what is counted, in words.
    unit: of privacy, such as "person".
    half_width: of the interval at `LEVEL`, in people.
    most: how many people there can be, where that is declared.
    """

    release: str
    stratum: str
    query: str
    unit: str
    half_width: float
    most: int | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The possible sizes of groups."""
        return tuple(n for n in GROUP_SIZES if self.most is None or n <= self.most)

    @property
    def least(self) -> int | None:
        """The size of the smallest usable group; None without a usable group."""
        size = math.ceil(self.half_width / USABLE)
        return size if self.most is None or size <= self.most else None

    @property
    def name(self) -> str:
        """The release and its stratum."""
        return f"{self.release} ({self.stratum})" if self.stratum else self.release

    def relative(self, size: int) -> float:
        """The half-width as a part of a group of `size` people."""
        return self.half_width / size

    def usable(self, size: int) -> bool:
        return self.relative(size) <= USABLE

    def words(self, size: int) -> str:
        """The error of a group in words."""
        verdict = "usable" if self.usable(size) else "not usable"
        return f"a group of {size:,} {self.unit}s: ± {percent(self.relative(size))}: {verdict}"

    def as_dict(self) -> Json:
        """For machines."""
        return {
            "release": self.release,
            "stratum": self.stratum,
            "query": self.query,
            "most": self.most,
            "half_width": self.half_width,
            "usable_from": self.least,
            "groups": [
                {
                    "size": size,
                    "relative_half_width": self.relative(size),
                    "usable": self.usable(size),
                    "words": self.words(size),
                }
                for size in self.sizes
            ],
        }


def percent(part: float) -> str:
    """A part in percent, with two digits at least."""
    return f"{100 * part:,.0f} %" if part >= 0.1 else f"{100 * part:.2g} %"


def least_text(size: int | None) -> str:
    """The size of the smallest usable group in words."""
    return "no size" if size is None else f"{size:,}"


def rule_words(unit: str) -> str:
    """What `usable` means."""
    return (
        f"The noise of a count is the same for small and large groups of {unit}s. A group is called"
        f" usable if the {LEVEL:.0%} interval of its count is at most ± {percent(USABLE)}."
    ).replace("95%", "95 %")


def group_errors(study: Study, counts: Mapping[Family, Count]) -> tuple[GroupError, ...]:
    """The errors of a count of every release, in the order of the study, strata each by itself.

    counts: by family, the row of a release; None if it counts no people
    """
    errors: dict[str, GroupError | None] = {}
    rows = []
    for release in (*study.releases, *(study.batches or ())):
        shape = _shape(study, release)
        if shape not in errors:
            errors[shape] = counts[release.family](study, release)
        if (row := errors[shape]) is not None:
            rows.append(replace(row, release=release.name, stratum=stratum_words(study, release)))
    return tuple(rows)


def group_error(
    study: Study, release: Release | DataSetRelease, query: str, error: float
) -> GroupError:
    """The row of a release's count.

    query: what is counted, in words.
    error: the standard error of the count, in people.
    """
    size = study.size if release.most_people is None else release.most_people
    half_width = NormalDist().inv_cdf((1 + LEVEL) / 2) * error
    stratum = stratum_words(study, release)
    return GroupError(release.name, stratum, query, study.unit, half_width, size)


def stratum_words(study: Study, release: Release | DataSetRelease) -> str:
    """The stratum of a release in words; empty for a release of all people."""
    return " = ".join(study.strata.get(release.name, ()))


def group_lines(rows: Sequence[GroupError]) -> list[str]:
    """The errors as a table of text."""
    wide = max((len(f"{row.name}: {row.query}") for row in rows), default=0)
    lines = [f"  {'':<{wide}}" + "".join(f"{size:>10,}" for size in GROUP_SIZES) + "  usable from"]
    for row in rows:
        cells = (f"± {percent(row.relative(n))}" if n in row.sizes else "-" for n in GROUP_SIZES)
        heading = f"  {f'{row.name}: {row.query}':<{wide}}"
        lines.append(
            heading + "".join(f"{cell:>10}" for cell in cells) + f"  {least_text(row.least)}"
        )
    return lines


def group_table(study: Study, rows: Sequence[GroupError]) -> Json:
    """The errors for machines, with the rule of usable groups."""
    return {
        "unit": study.unit,
        "rule": rule_words(study.unit),
        "confidence": LEVEL,
        "usable_at_most": USABLE,
        "rows": [row.as_dict() for row in rows],
    }


def _shape(study: Study, release: Release | DataSetRelease) -> str:
    """A text that two releases share if their errors are the same: two strata, for instance."""
    others = [r for r in study.releases if r.stream == release.stream and r.name != release.name]
    together: Sequence[Release | DataSetRelease] = (release, *others)
    keys = [r.model_dump(mode="json", exclude={"name", "where"}) for r in together]
    strata = [sorted(getattr(r, "where", None) or ()) for r in together]
    return json.dumps([keys, strata], sort_keys=True)


def panel_count(
    study: Study, release: Release, streams: PlannedStreams | None = None
) -> GroupError:
    """The count of a typical query at the last period of a panel. streams: see `last_errors`."""
    query = telling_queries(study, release)[0]
    (error,) = last_errors(study, [(release.name, query)], streams)
    return group_error(study, release, error.query, error.count)
