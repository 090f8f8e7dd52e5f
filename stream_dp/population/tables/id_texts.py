"""Reads columns of ids by the rule of `stream_dp/study/id_forms.py`, and counts their forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_dp.study.declared_sections import Ids
from stream_dp.study.id_forms import ANY_FORM, IdForm

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
