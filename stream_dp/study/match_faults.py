"""Faults of two-phase tables of people, against the attributes of the study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from math import prod

from .attribute import Attribute
from .match_releases import MatchRelease
from .sections import Sections

MOST_COMPOSITE = 1 << 15  # values of a composite


def match_faults(batch: MatchRelease, sections: Sections) -> Iterator[str]:
    """Faults of the keys of `match`, to be put after the release's key in the file."""
    columns = {answer.column: sections.attributes.get(answer.attribute) for answer in batch.answers}
    yield from _composite_faults(batch, columns)
    yield from _coarser_faults(batch, columns)
    measured = batch.columns
    inside = {c: name for name, columns in (batch.composites or {}).items() for c in columns}

    def unknown(key: str, name: str) -> Iterator[str]:
        if name in inside:
            yield f"{key}: '{name}' is measured as a part of '{inside[name]}'; name that"
        elif name not in measured:
            yield f"{key}: '{name}' is none of the release's attributes or composites"

    for name in batch.exempt or ():
        yield from unknown(".exempt", name)
    if len(set(batch.exempt or ())) < len(batch.exempt or ()):
        yield ".exempt: a column stands there twice"
    for number, marginal in enumerate(batch.asked):
        key = f".marginals.{number}"
        for name in marginal.of:
            yield from unknown(key, name)
        if len(set(marginal.of)) < len(marginal.of):
            yield f"{key}: a column stands there twice"
        if any({*marginal.of} == {*earlier.of} for earlier in batch.asked[:number]):
            yield f"{key}: {', '.join(marginal.of)} stand there twice"


def _composite_faults(batch: MatchRelease, columns: dict[str, Attribute | None]) -> Iterator[str]:
    composites = batch.composites or {}
    times = Counter(column for pair in composites.values() for column in pair)
    for name, pair in composites.items():
        key = f".composites.{name}"
        if name in columns or name in (batch.derived or {}):
            yield f"{key}: '{name}' is a column of the table; take another name"
        for column in dict.fromkeys(pair):
            if column not in columns:
                yield f"{key}: '{column}' is none of the release's attributes"
            elif times.pop(column, 0) > 1:
                yield f"{key}: '{column}' stands in composites twice"
        declared = [a for column in pair if (a := columns.get(column)) and not a.problems("")]
        cells = prod(
            len(attribute.symbols if attribute.numbers is None else attribute.numbers.bin_labels)
            for attribute in declared
        )
        if len(declared) == len(pair) and cells > MOST_COMPOSITE:
            yield f"{key}: has {cells:,} values; at most {MOST_COMPOSITE:,}"
    if len(columns) > 1 and len(batch.columns) < 2:
        yield ".composites: leave one column alone; at least 2 must be left"


def _coarser_faults(batch: MatchRelease, columns: dict[str, Attribute | None]) -> Iterator[str]:
    for name, edges in (batch.coarser or {}).items():
        key, attribute = f".coarser.{name}", columns.get(name)
        if name not in columns:
            yield f"{key}: '{name}' is none of the release's attributes"
        if attribute is None or attribute.problems(""):
            continue
        if attribute.number is None:
            yield f"{key}: '{name}' has listed values; only numbers have bins"
        elif any(a >= b for a, b in pairwise(edges)):
            yield f"{key}: edges must increase"
        elif strange := [edge for edge in edges if edge not in (attribute.bins or ())]:
            yield f"{key}: {strange[0]} is no edge of the number's own bins; take some of these"
