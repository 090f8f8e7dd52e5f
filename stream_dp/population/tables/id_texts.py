"""Reads texts of ids: damaged ids, ids in another form, and ids that may be nobody's.

Each id is judged alone, by its form. A spreadsheet shows a long number as 1.23E+11, keeps 15 of its
digits, and takes 3-1 for a date: several people share what is left. Such an id is damaged. An id in
the form of a program, such as ="0012" or 1001.0, is read without it. The rest is only counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_dp.study.declared_sections import BLANKS

_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_GERMAN_MONTHS = "Jan|Feb|Mrz|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez"
_DAMAGED = (
    r"[+-]?[0-9]+(?:[.,][0-9]+)?[eE]\+[0-9]{2,3}",  # of a spreadsheet, of R and of pandas
    r"[+-]?[1-9][0-9]{14}0+",  # 15 digits are kept
    r"[0-9]{16,}[.,]0{1,2}",
    rf"[0-9]{{1,2}}-(?:{_MONTHS})|(?:{_MONTHS})-[0-9]{{2}}",
    rf"[0-9]{{1,2}}\. (?:{_GERMAN_MONTHS})|(?:{_GERMAN_MONTHS}) [0-9]{{2}}",
    r"#(?:N/A|NV|REF!|BEZUG!|VALUE!|WERT!|NAME\?|DIV/0!|NUM!|ZAHL!|NULL!|SPILL!|CALC!)",
    r"#{2,}|Err:5[0-9]{2}",
)
_PROGRAMS = (
    r'="[^"]+"',  # of a spreadsheet's export, for a text of digits
    r"'[0-9]+",
    r"(?:0|[1-9][0-9]{0,14})[.,]0{1,2}",  # of pandas, for a whole number beside an empty cell
)
_DATES = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T][0-9:.]+)?",
    r"[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{4}",
    rf"[0-9]{{1,2}}-(?:{_MONTHS})-[0-9]{{2,4}}",
)
_NOBODY = (
    r"-[0-9]+|0+|9{4,}|[-.?]{1,3}",
    r"(?i:n/?a|n\.a\.|k\.a\.|<na>|nan|null|none|nil|\\n|undefined|missing|unknown|unbekannt)",
    r"(?i:(?:grand ?|sub ?)?total|sum|summe|gesamt(?:summe)?|insgesamt|ensemble|all|alle)",
    r"(?i:test|dummy|anonym(?:ous)?)",
)


DAMAGED_IDS = (
    "a spreadsheet keeps 15 digits, shows long numbers as 1.23E+11 and takes 3-1 for a date; write"
    " the column as text, from the source; if the ids are right as they stand: --ids-as-written"
)


class IdForm(StrEnum):
    """A form of ids that needs a look."""

    BLANK = "blank"
    DAMAGED = "damaged"
    PROGRAM = "program"
    DATE = "date"
    NOBODY = "nobody"
    PADDED = "padded"


_BLANK = f"[{BLANKS}]"
_FORMS = {
    IdForm.BLANK: f"{_BLANK}+",
    IdForm.DAMAGED: "|".join(_DAMAGED),
    IdForm.PROGRAM: "|".join(_PROGRAMS),
    IdForm.DATE: "|".join(_DATES),
    IdForm.NOBODY: "|".join(_NOBODY),
    IdForm.PADDED: rf"{_BLANK}[\s\S]*|[\s\S]*{_BLANK}",
}
_FORM = {form: re.compile(pattern) for form, pattern in _FORMS.items()}
_ANY = "^(?:" + "|".join(f"(?:{pattern})" for pattern in _FORMS.values()) + ")$"
_CORE = re.compile(r"""="([^"]+)"|'([0-9]+)|([0-9]+)[.,]0+""")
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

    def with_texts(self, texts: pa.Array, further: Mapping[IdForm, Mask] | None = None) -> ReadIds:
        """Replaces the texts, and adds the forms of further columns of the same rows."""
        forms = dict(self.forms)
        for form, mask in (further or {}).items():
            forms[form] = forms[form] | mask if form in forms else mask
        return ReadIds(texts, forms)


def read_ids(texts: pa.Array) -> ReadIds:
    """Reads texts of ids, each by its form.

    >>> read_ids(pa.array(["7", '="0012"', "1.23E+11"])).texts.to_pylist()
    ['7', '0012', None]
    """
    needs_look = pc.fill_null(pc.match_substring_regex(texts, _ANY), False)
    rows = np.flatnonzero(needs_look.to_numpy(zero_copy_only=False))
    if not rows.size:
        return ReadIds(texts)
    looked_at = texts.take(pa.array(rows)).dictionary_encode()
    seen = looked_at.dictionary.to_pylist()
    form_of = [_form(text) for text in seen]
    indices = looked_at.indices.to_numpy()
    forms = {}
    for form in IdForm:
        has_form = np.array([one is form for one in form_of])[indices]
        if has_form.any():
            forms[form] = np.zeros(len(texts), bool)
            forms[form][rows[has_form]] = True
    read = [_read(text, form) for text, form in zip(seen, form_of, strict=True)]
    if read != seen:
        texts = pc.replace_with_mask(
            texts, needs_look, pa.array(read, pa.string()).take(looked_at.indices)
        )
    return ReadIds(texts, forms)


def _form(text: str) -> IdForm | None:
    return next((form for form, has in _FORM.items() if has.fullmatch(text)), None)


def _read(text: str, form: IdForm | None) -> str | None:
    """Returns the id; None for a damaged or an empty one."""
    if form in (IdForm.BLANK, IdForm.DAMAGED):
        return None
    if form is IdForm.PROGRAM and (core := _CORE.fullmatch(text)):
        return next(group for group in core.groups() if group)
    return text
