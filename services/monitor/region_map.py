"""Answers about sizes as a map of regions, whose outlines come with a GeoJSON file (RFC 7946).

The outlines are public and no part of the study: whoever serves the pages gives the file. A feature
is a region's if its `id`, or its property `region`, `id` or `name`, is the region's path with
slashes, or the last name of the path where one region alone has that name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from statistics import NormalDist
from typing import Any

from stream_dp.client import LEVEL, PublicLog
from stream_dp.errors import UserError
from stream_dp.figures.marks import Box, Chart, Mark, Path, Text, px
from stream_dp.release.answer import Answer, Interval, Region

from .answers_for_people import for_people, interval_words, number_words
from .two_way import FEWER, MORE

Corner = tuple[float, float]
Ring = list[Corner]
Outlines = Mapping[str, Sequence[Ring]]  # by a feature's name, its rings
_MOST_BYTES, _MOST_FEATURES = 1 << 24, 5000
_FARTHEST = 1e12  # from the origin, in any unit
_NAMES = ("region", "id", "name")
_SHADES = 5
_NEAREST = 0.6  # pixels between two corners that are drawn
_KEY_HEIGHT = 34.0
QUERY = "mean"  # of a map without a question
_COUNTS = "count"


@dataclass(frozen=True)
class MappedRegion:
    """A region on a map.

    value: for people; a share of the region's groups if numbers of groups are asked for.
    mark: `MORE` or `FEWER` than all regions together, beyond the noise; else empty.
    answer: the unbiased answer, for programs.
    groups: how many groups the region has.
    """

    region: Region
    rings: Sequence[Ring]
    value: float
    interval: Interval | None
    answer: Answer
    groups: int
    mark: str = ""

    @property
    def name(self) -> str:
        return "/".join(self.region)


@dataclass(frozen=True)
class RegionMap:
    """A map. measure: of the values; title: the question in words."""

    title: str
    query: str
    measure: str
    regions: tuple[MappedRegion, ...]

    @property
    def reading(self) -> str:
        """The highest and the lowest region, and those beyond the noise, as a sentence."""
        ordered = sorted(self.regions, key=lambda region: region.value)
        ends = f"lowest in {self._words(ordered[0])}, highest in {self._words(ordered[-1])}"
        if all(region.interval is None for region in self.regions):
            return f"{self.title}: {ends}. No error of these regions is known."
        marked = [f"{region.name} {self._side(region.mark)}" for region in ordered if region.mark]
        if not marked:
            return f"{self.title}: {ends}. No region differs from all together beyond the noise."
        listed = "; ".join(marked[:12]) + ("; and others" if len(marked) > 12 else "")
        return f"{self.title}: {ends}. Beyond the noise, compared with all together: {listed}."

    @staticmethod
    def _side(mark: str) -> str:
        return "higher" if mark == MORE else "lower"

    def _words(self, region: MappedRegion) -> str:
        value = number_words(region.value, self.measure)
        ends = (
            "" if region.interval is None else f" ({interval_words(region.interval, self.measure)})"
        )
        return f"{region.name} {value}{ends}"

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """The region, its value and its interval, as texts."""
        return [
            (
                region.name,
                f"{region.mark} {number_words(region.value, self.measure)}".strip(),
                "" if region.interval is None else interval_words(region.interval, self.measure),
            )
            for region in self.regions
        ]

    def drawn(self, size: tuple[float, float]) -> Chart:
        """The map within a width and a height, above the key of its shades."""
        width, height = size
        project, top = _projection(self.regions, (width, height - _KEY_HEIGHT))
        low = min(region.value for region in self.regions)
        step = (max(region.value for region in self.regions) - low) / _SHADES
        shapes: list[Mark] = []
        texts: list[Mark] = []
        for region in self.regions:
            shade = min(_SHADES - 1, int((region.value - low) / step)) if step else 0
            rings = [[project(corner) for corner in ring] for ring in region.rings]
            d = "".join(_drawn_ring(ring) for ring in rings)
            shapes.append(Path(f"region map-{shade}", d, self._words(region)))
            if region.mark:
                x, y = _middle(max(rings, key=_area))
                texts.append(Text("value-ink", px(x), px(y + 4), region.mark, "middle"))
        box = min(96.0, width / _SHADES)
        for shade in range(_SHADES if step else 1):
            x = px(shade * box)
            shapes.append(Box(f"region map-{shade}", x, top + 8, px(box - 4), 10))
            text = f"from {_rough(low + shade * step, step, self.measure)}"
            texts.append(Text("tick", x, top + 30, text))
        return Chart(width, top + _KEY_HEIGHT, self.reading, (*shapes, *texts))


def read_outlines(path: FilePath) -> Outlines:
    """The outlines in a file, by the names of features. Raises UserError."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        document = json.loads(data) if len(data) <= _MOST_BYTES else {}
        outlines: dict[str, Sequence[Ring]] = {}
        for feature in document["features"][:_MOST_FEATURES]:
            properties = feature.get("properties") or {}
            names = [feature.get("id"), *(properties.get(name) for name in _NAMES)]
            rings = _rings(feature.get("geometry") or {})
            outlines |= {str(n): rings for n in names if n not in (None, "") and rings}
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        outlines = {}
    if not outlines:
        raise UserError(
            f"{path}: is no GeoJSON FeatureCollection of at most 16 MiB whose polygons have an"
            " 'id', or a property 'region', 'id' or 'name'"
        )
    return outlines


def region_map(
    public: PublicLog, outlines: Outlines, name: str, period: str | None, query: str
) -> RegionMap | None:
    """The map of a question to a release of sizes; None if no outline is a region's.

    Regions of the level with the most outlines are on it. Raises UserError.
    """
    if not outlines or not public.regions(name):
        return None
    sizes = public.sizes(name, period)
    answered = {
        path: rings for path in sizes.regions if (rings := _outline(outlines, path, sizes.regions))
    }
    levels = [len(path) for path in answered if path]
    if not levels:
        return None
    level = max(levels, key=levels.count)
    paths = [path for path in answered if len(path) == level and sizes.region(*path).total]
    answers = {path: sizes.answer(query, *path) for path in [(), *paths]}
    counts = answers[()].measure == _COUNTS
    groups = {path: sizes.region(*path).total for path in answers}
    scale = groups if counts else dict.fromkeys(answers, 1)
    unit = public.study.places.unit if public.study.places is not None else "place"
    marks = _marks(answers, scale, paths)
    regions = tuple(
        MappedRegion(
            path, answered[path], *_people(answer, scale[path]), answer, groups[path], mark
        )
        for path, mark in zip(paths, marks, strict=True)
        if math.isfinite((answer := answers[path]).value)
    )
    if not regions:
        return None
    title = _title(query, f"{unit}s")
    return RegionMap(title, query, "share" if counts else answers[()].measure, regions)


def _rough(value: float, step: float, measure: str) -> str:
    """A number of the key, with enough decimals to differ from the next number."""
    factor, sign = (100, "%") if measure == "share" else (1, "")
    decimals = max(0, 1 - math.floor(math.log10(factor * step))) if step else 1
    return f"{factor * value:,.{min(decimals, 4)}f}{sign}"


def _title(query: str, units: str) -> str:
    kind, _, number = query.strip().partition(" ")
    return {
        "at-least": f"Share of {units} with at least {number} people",
        "size": f"Share of {units} with exactly {number} people",
        "mean": f"Mean number of people in {units}",
    }.get(kind, f"{query} of people in {units}")


def _people(answer: Answer, scale: float) -> tuple[float, Interval | None]:
    """A region's value and interval for its colour; a count as a part of `scale`."""
    shown = for_people(answer, None)
    ends = shown.interval
    if answer.measure != _COUNTS:
        return shown.value, ends
    inside = [min(1.0, end / scale) for end in (shown.value, *(ends or ()))]
    return inside[0], (inside[1], inside[2]) if ends else None


def _marks(
    answers: Mapping[Region, Answer], scale: Mapping[Region, float], paths: Sequence[Region]
) -> list[str]:
    """A mark per region that differs from all together, beyond the noise.

    Each region has a noise of its own, so the variances of a region and of all together add up. A
    region is marked where it lies so many standard errors away that all regions with equal true
    values together stay unmarked at 95 % at least (Bonferroni).
    """
    country, reach = answers[()], NormalDist().inv_cdf(1 - (1 - LEVEL) / 2 / max(1, len(paths)))
    marks = []
    for path in paths:
        answer = answers[path]
        if answer.standard_error is None or country.standard_error is None:
            marks.append("")
            continue
        difference = answer.value / scale[path] - country.value / scale[()]
        errors = answer.standard_error / scale[path], country.standard_error / scale[()]
        beyond = abs(difference) > reach * math.hypot(*errors)
        marks.append(("", MORE if difference > 0 else FEWER)[beyond])
    return marks


def _outline(outlines: Outlines, path: Region, regions: Collection[Region]) -> Sequence[Ring]:
    """The outline of a region by its path, or by its last name if no other region has it."""
    if not path:
        return ()
    rings = outlines.get("/".join(path))
    if rings is None and sum(other[-1:] == path[-1:] for other in regions) == 1:
        rings = outlines.get(path[-1])
    return rings or ()


def _rings(geometry: Mapping[str, Any]) -> list[Ring]:
    """The rings of a Polygon or a MultiPolygon: outer rings in one direction, holes in reverse."""
    kind, polygons = geometry.get("type"), geometry.get("coordinates", [])
    if kind not in ("Polygon", "MultiPolygon"):
        return []
    rings = []
    for polygon in [polygons] if kind == "Polygon" else polygons:
        for number, corners in enumerate(polygon):
            ring = [(float(x), float(y)) for x, y, *_ in corners]
            if not all(abs(number) <= _FARTHEST for corner in ring for number in corner):
                raise ValueError
            turned = (_area(ring, signed=True) > 0) == (number > 0)
            rings += [ring[::-1] if turned else ring] if len(ring) > 2 else []
    return rings


def _area(ring: Ring, *, signed: bool = False) -> float:
    pairs = zip(ring, [*ring[1:], *ring[:1]], strict=True)
    twice = sum(x * v - u * y for (x, y), (u, v) in pairs)
    return twice / 2 if signed else abs(twice) / 2


def _middle(ring: Ring) -> tuple[float, float]:
    """The centre of a ring's area: x = sum (a + c) (a d - c b) / (6 area), y alike, over sides."""
    area = _area(ring, signed=True)
    if not area:
        return ring[0]
    x = y = 0.0
    for (a, b), (c, d) in zip(ring, [*ring[1:], *ring[:1]], strict=True):
        cross = a * d - c * b
        x, y = x + (a + c) * cross, y + (b + d) * cross
    return x / (6 * area), y / (6 * area)


def _projection(
    regions: Sequence[MappedRegion], room: tuple[float, float]
) -> tuple[Callable[[Corner], Corner], float]:
    """From coordinates to pixels, and the height that is used.

    Degrees of longitude shrink by the cosine of the middle latitude; other coordinates are lengths.
    """
    corners = [corner for region in regions for ring in region.rings for corner in ring]
    (west, east), (south, north) = (
        (min(c[i] for c in corners), max(c[i] for c in corners)) for i in (0, 1)
    )
    degrees = max(abs(west), abs(east)) <= 180 and max(abs(south), abs(north)) <= 90
    shrink = math.cos(math.radians((south + north) / 2)) if degrees else 1.0
    width, height = max((east - west) * shrink, 1e-12), max(north - south, 1e-12)
    scale = min(room[0] / width, room[1] / height)
    margin = (room[0] - width * scale) / 2

    def project(corner: Corner) -> Corner:
        return margin + (corner[0] - west) * shrink * scale, (north - corner[1]) * scale

    return project, px(height * scale)


def _drawn_ring(ring: Ring) -> str:
    """A ring as a path, without corners within a pixel of the last drawn corner."""
    drawn: Ring = []
    for corner in ring:
        if not drawn or math.dist(corner, drawn[-1]) >= _NEAREST:
            drawn.append(corner)
    return "M" + "L".join(f"{px(x)} {px(y)}" for x, y in drawn) + "Z"
