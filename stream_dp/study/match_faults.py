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
    """Faults of the keys of `match` alone, to be put after the release's place in the file."""
    columns = {answer.column: sections.attributes.get(answer.attribute) for answer in batch.answers}
    yield from _composite_faults(batch, columns)
    yield from _coarser_faults(batch, columns)
    measured = batch.columns
    inside = {column: name for name, own in (batch.composites or {}).items() for column in own}

    def unknown(where: str, name: str) -> Iterator[str]:
        if name in inside:
            yield f"{where}: '{name}' is measured as a part of '{inside[name]}'; name that"
        elif name not in measured:
            yield f"{where}: '{name}' is none of the release's attributes or composites"

    for name in batch.exempt or ():
        yield from unknown(".exempt", name)
    if len(set(batch.exempt or ())) < len(batch.exempt or ()):
        yield ".exempt: a column stands there twice"
    for number, marginal in enumerate(batch.asked):
        where = f".marginals.{number}"
        for name in marginal.of:
            yield from unknown(where, name)
        if len(set(marginal.of)) < len(marginal.of):
            yield f"{where}: a column stands there twice"
        if any({*marginal.of} == {*other.of} for other in batch.asked[:number]):
            yield f"{where}: {', '.join(marginal.of)} stand there twice"


def _composite_faults(batch: MatchRelease, columns: dict[str, Attribute | None]) -> Iterator[str]:
    times = Counter(column for own in (batch.composites or {}).values() for column in own)
    for name, own in (batch.composites or {}).items():
        where = f".composites.{name}"
        if name in columns or name in (batch.derived or {}):
            yield f"{where}: '{name}' is a column of the table; take another name"
        for column in dict.fromkeys(own):
            if column not in columns:
                yield f"{where}: '{column}' is none of the release's attributes"
            elif times.pop(column, 0) > 1:
                yield f"{where}: '{column}' stands in composites twice"
        parts = [columns.get(column) for column in own]
        sound = [part for part in parts if part is not None and not part.problems("")]
        cells = prod(
            len(part.symbols) if part.numbers is None else len(part.numbers.bin_labels)
            for part in sound
        )
        if len(sound) == len(own) and cells > MOST_COMPOSITE:
            yield f"{where}: has {cells:,} values; at most {MOST_COMPOSITE:,}"
    if len(columns) > 1 and len(batch.columns) < 2:
        yield ".composites: leave one column alone; at least 2 must be left"


def _coarser_faults(batch: MatchRelease, columns: dict[str, Attribute | None]) -> Iterator[str]:
    for name, edges in (batch.coarser or {}).items():
        where, attribute = f".coarser.{name}", columns.get(name)
        if name not in columns:
            yield f"{where}: '{name}' is none of the release's attributes"
        if attribute is None or attribute.problems(""):
            continue
        if attribute.number is None:
            yield f"{where}: '{name}' has listed values; only numbers have bins"
        elif any(a >= b for a, b in pairwise(edges)):
            yield f"{where}: edges must increase"
        elif strange := [edge for edge in edges if edge not in (attribute.bins or ())]:
            yield f"{where}: {strange[0]} is no edge of the number's own bins; take some of these"
