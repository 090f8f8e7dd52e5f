"""Columns of ids: their texts by the rule of `stream_dp/study/id_forms.py`, and their shapes.

Shapes show before sending that ids have lost their zeros. The shape of an id is its text with every
run of digits as 9 and every run of letters as a: `p0007` has the shape `a9`. For ids that are
digits alone the length counts too.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_dp.study.declared_sections import Ids
from stream_dp.study.id_forms import ANY_FORM, IdForm

from ..celltext import bytes_of, text_bytes

DIGITS = "9"
MOST_SHAPES = 8  # ids of more shapes than these follow no rule
_ZERO = "0"
_LETTER = "a"
_DIGIT_BYTES, _LETTER_BYTES = bytes_of(string.digits), bytes_of(string.ascii_letters)
_RUNS = _DIGIT_BYTES | _LETTER_BYTES
# By byte: what stands for it in a shape.
_SHAPE = np.where(
    _DIGIT_BYTES, ord(DIGITS), np.where(_LETTER_BYTES, ord(_LETTER), np.arange(256))
).astype(np.uint8)


@dataclass
class IdShapes:
    """The number of cells and the first row, by shape of the id.

    counts: by shape; for digits alone, the key has (first digit is 0, length) after the shape.
    first: the row of the first id of each shape.
    """

    counts: Counter[tuple[str, bool, int]] = field(default_factory=Counter)
    first: dict[tuple[str, bool, int], int] = field(default_factory=dict)

    def add(self, ids: pa.Array, rows: NDArray[np.int64], cells: NDArray[np.int64]) -> None:
        """Counts the cells of ids, by the shape of the id.

        ids: without null or empty ids.
        rows: the row of each id.
        cells: the number of cells in each of these rows.
        """
        if len(ids) == 0 or len(self.counts) > 100 * MOST_SHAPES:
            return
        shapes = _shapes(ids).dictionary_encode()
        names = shapes.dictionary.to_pylist()
        codes = shapes.indices.to_numpy().astype(np.int64)
        digits = np.array([name == DIGITS for name in names])[codes]
        lengths = np.where(digits, pc.utf8_length(ids).to_numpy(), 0).astype(np.int64)
        zero = digits & (lengths > 1) & pc.starts_with(ids, _ZERO).to_numpy(zero_copy_only=False)
        coded, first_index, inverse = np.unique(
            (codes * 2 + zero) * 1024 + np.minimum(lengths, 1023),
            return_index=True,
            return_inverse=True,
        )
        counts = np.bincount(inverse, cells).astype(np.int64)
        for code, index, count in zip(
            coded.tolist(), first_index.tolist(), counts.tolist(), strict=True
        ):
            shape = (names[code // 2048], bool(code // 1024 % 2), code % 1024)
            self.counts[shape] += count
            self.first.setdefault(shape, int(rows[index]))

    @classmethod
    def of(cls, ids: Iterable[str]) -> IdShapes:
        """Counts the shapes of the ids of earlier files."""
        shapes = cls()
        texts = pa.array([text for text in ids if text], pa.string())
        shapes.add(texts, np.zeros(len(texts), np.int64), np.ones(len(texts), np.int64))
        return shapes

    def merge(self, further: IdShapes) -> None:
        """Adds the ids of another file."""
        self.counts += further.counts
        for shape, row in further.first.items():
            self.first.setdefault(shape, row)

    @property
    def width(self) -> int | None:
        """The length of the longest id of digits with leading zeros, or None."""
        return max((length for _, zero, length in self.counts if zero), default=None)

    def _names(self) -> set[str]:
        return {name for name, _, _ in self.counts}

    def faults(self, sent: IdShapes) -> list[ShapeFault]:
        """Finds ids whose shape differs from earlier ids, or from the rest of the file.

        sent: the shapes of ids sent before.
        """
        faults = []
        merged = IdShapes(self.counts + sent.counts)
        width = merged.width
        if width is not None:
            short = [s for s in self.counts if s[0] == DIGITS and not s[1] and s[2] < width]
            difference = "ids beside them have zeros in front"
            shorter = any(s[0] == DIGITS and s[2] < width for s in sent.counts)
            if shorter and sent.width is None:
                # The ids sent before had no zeros: ids with zeros are strange.
                short, width = [s for s in self.counts if s[1]], None
                difference = "ids that were sent before have no zeros in front"
            if short:
                faults.append(self._fault(short, difference, width))
        if sent.counts and len(sent._names()) <= MOST_SHAPES:
            strange = [s for s in self.counts if s[0] not in sent._names()]
            if strange:
                faults.append(self._fault(strange, "ids that were sent before look otherwise"))
        return faults

    def _fault(
        self, shapes: list[tuple[str, bool, int]], why: str, width: int | None = None
    ) -> ShapeFault:
        count = sum(self.counts[shape] for shape in shapes)
        return ShapeFault(count, min(self.first[shape] for shape in shapes), why, width)


def _shapes(ids: pa.Array) -> pa.Array:
    """The shape of every id.

    >>> _shapes(pa.array(["p0007", "A-12"])).to_pylist()
    ['a9', 'a-9']
    """
    data, bounds = text_bytes(ids)
    if (data >= 128).any():
        shapes = pc.replace_substring_regex(ids, "[0-9]+", DIGITS)
        return pc.replace_substring_regex(shapes, r"\pL+", _LETTER)
    shape = _SHAPE[data]
    kept = ~_RUNS[data]
    kept[1:] |= shape[1:] != shape[:-1]
    kept[bounds[:-1]] = True  # no id is empty
    ends = np.append(0, np.cumsum(kept))[bounds].astype(np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(shape[kept])]
    return pa.Array.from_buffers(pa.string(), len(ids), buffers)


@dataclass(frozen=True)
class ShapeFault:
    """Ids of a strange shape.

    count: the number of their cells.
    first_row: the row of the first of them.
    why: how they differ, in words.
    width: of ids that have lost their zeros, their former length.
    """

    count: int
    first_row: int
    why: str
    width: int | None


DAMAGED_IDS = (
    "a spreadsheet keeps 15 digits, shows long numbers as 1.23E+11 and takes 3-1 for a date; write"
    " the column as text, from the source; if the ids are right as they stand: [study.ids]"
    " as_written = true in the study"
)

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class ReadIds:
    """Ids, null for a cell without a sound id.

    forms: by form, which of the ids have it; forms without ids are left out.
    """

    texts: pa.Array
    forms: Mapping[IdForm, Mask] = field(default_factory=dict)

    def filter(self, kept: Mask) -> ReadIds:
        """Selects ids."""
        forms = {form: mask[kept] for form, mask in self.forms.items()}
        return ReadIds(self.texts.filter(pa.array(kept)), forms)

    def with_texts(self, texts: pa.Array) -> ReadIds:
        """Replaces the texts."""
        return ReadIds(texts, self.forms)

    def with_forms(self, *columns: Mapping[IdForm, Mask]) -> ReadIds:
        """Adds the forms of further columns of the same rows."""
        forms = dict(self.forms)
        for further in columns:
            for form, mask in further.items():
                forms[form] = forms[form] | mask if form in forms else mask
        return ReadIds(self.texts, forms)


def read_ids(texts: pa.Array, rule: Ids | None = None) -> ReadIds:
    """Reads texts of ids, each by its form. rule: the study's; only its `trim` is applied.

    >>> read_ids(pa.array(["7", '="0012"', "1.23E+11"])).texts.to_pylist()
    ['7', '0012', None]
    """
    needs_look = pc.fill_null(pc.match_substring_regex(texts, ANY_FORM), False)
    rows = np.flatnonzero(needs_look.to_numpy(zero_copy_only=False))
    if not rows.size:
        return ReadIds(texts)
    looked_at = texts.take(pa.array(rows)).dictionary_encode()
    seen = looked_at.dictionary.to_pylist()
    read = [(rule or Ids()).read(text) for text in seen]
    indices = looked_at.indices.to_numpy()
    forms = {}
    for form in IdForm:
        has_form = np.array([found is form for _, found in read])[indices]
        if has_form.any():
            forms[form] = np.zeros(len(texts), bool)
            forms[form][rows[has_form]] = True
    ids = [text or None for text, _ in read]
    if ids != seen:
        texts = pc.replace_with_mask(
            texts, needs_look, pa.array(ids, pa.string()).take(looked_at.indices)
        )
    return ReadIds(texts, forms)
