"""Public sections of a study file: population, survey design, ids, paid gate and curator."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from .field_types import Declaration, Flag, Probability, Rho, UnlessOff, Weight, matching
from .id_forms import IdForm, is_usual, read_id

_ROUNDS = 8  # of normalization at most; ids that still change after them keep the last form


class Ids(Declaration):
    """The rule for comparing ids, of files and of streams."""

    trim: UnlessOff = None
    """`false`: ids that differ in blanks at their ends are different. By default such blanks do not
    count, those of no width neither."""
    case: Literal["fold"] | None = None
    """`"fold"`: capital and small letters are the same, by Unicode's case folding (so 'ß' is
    'ss')."""
    unicode: Literal["NFC", "NFKC"] | None = None
    """The normal form (Unicode Standard Annex 15) of accents and, for NFKC, of compatible
    characters."""
    nobody: tuple[str, ...] | None = None
    """Ids of no person, such as `["NA", "Total"]`: their answers are rejected as if the id were
    empty. By default the usual words for nobody and for totals. `[]`: every id is a person's."""
    as_written: Flag = None
    """`true`: ids are right as they stand. By default damaged ids such as `1.23E+11` or `3-Jan` are
    rejected, and `="0012"`, `'0012` and `12.0` are read as `0012` and `12`."""

    @cached_property
    def nobodies(self) -> frozenset[str]:
        """The normal forms of the declared ids of no person."""
        return frozenset(self.spelled(text) for text in self.nobody or ())

    @cached_property
    def leaves_usual(self) -> bool:
        """Whether an id without a form, see `id_forms.py`, is certainly its own normal form."""
        return self.case is None and self.unicode is None and not self.nobodies

    @cached_property
    def refuses_words(self) -> bool:
        """Whether the usual words for nobody are no ids."""
        return self.nobody is None and not self.as_written

    def normal(self, text: str) -> str:
        """The normal form of an id, shared by all spellings of the id; empty for no person's.

        Idempotent.
        """
        if self.leaves_usual and not self.as_written:
            core, form = self.read(text)
            return "" if form is IdForm.NOBODY and self.refuses_words else core
        text = self.spelled(text)
        if text in self.nobodies or (self.refuses_words and read_id(text)[1] is IdForm.NOBODY):
            return ""
        return text

    def normals(self, texts: Sequence[str]) -> list[str]:
        """The normal forms of ids."""
        normal = self.normal
        if self.leaves_usual:
            return [text if is_usual(text) else normal(text) for text in texts]
        return [normal(text) for text in texts]

    def read(self, text: str) -> tuple[str, IdForm | None]:
        """Reads an id by its form like `read_id`. Keeps blanks where they count."""
        core, form = read_id(text)
        return text if form is IdForm.PADDED and self.trim is False else core, form

    def spelled(self, text: str) -> str:
        """The normal form of an id, also of nobody's; empty for a damaged one."""
        # Case folding can undo a normal form, and a normal form can end in blanks: repeat.
        for _ in range(_ROUNDS):
            previous, text = text, self._rewritten(text)
            if text == previous or (self.unicode is None and self.case is None):
                break
        return text

    def _rewritten(self, text: str) -> str:
        """Applies every step of the rule once."""
        if self.unicode is not None and not text.isascii():
            text = unicodedata.normalize(self.unicode, text)
        if not self.as_written:
            text = self.read(text)[0]
        if self.case is not None:
            text = text.casefold()
        if self.unicode is not None and not text.isascii():
            text = unicodedata.normalize(self.unicode, text)
        return text


_ADDRESS = r"https?://[^\s<>\"'`\\]+"
_MAIL = r"[^\s<>\"'`\\@:/?&]+@[^\s<>\"'`\\@:/?&]+"
_SPDX = r"[A-Za-z0-9][A-Za-z0-9.+-]*"

Line = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=1000),
    AfterValidator(matching(r"[^\x00-\x1f\x7f\u2028\u2029]*", "must be a single line of text")),
]
Contact = Annotated[
    str,
    StringConstraints(max_length=300),
    AfterValidator(matching(f"{_MAIL}|{_ADDRESS}", "must be a mail address, or https://...")),
]
Licence = Annotated[
    str,
    StringConstraints(max_length=300),
    AfterValidator(
        matching(f"{_SPDX}|{_ADDRESS}", "must be an SPDX id such as CC-BY-4.0, or https://...")
    ),
]


class Curator(Declaration):
    """The publisher of the releases, for metadata."""

    name: Line
    """The organisation that publishes the releases."""
    contact: Contact | None = None
    """A mail address, or the address of a page, for questions about the releases."""
    licence: Licence | None = None
    """The licence of the releases: an SPDX id such as `"CC-BY-4.0"`, or the address of its text."""
    intended_use: Line | None = None
    """What the releases are meant for, in a sentence."""
    region: Line | None = None
    """The region that the releases describe, such as a country."""


class DeclaredPopulation(Declaration):
    """Who can be counted: the public number of units, or when the last of them enters."""

    size: Annotated[int, Field(ge=1, le=10**9, strict=True)] | None = None
    """The public number of units. Required if the relation makes the number public, and refused
    under `add_remove`. Further newcomers are refused for good."""
    closed: Flag = None
    """`true`: a closed cohort of private size. A person without an accepted answer by the first
    period of any release is refused for good. Patterns have less noise than in a population with
    late entry. Only for `add_remove`, because a declared `size` already counts everybody from the
    start."""


class Gate(Declaration):
    """The paid gate: periods with too few answers are held for the operator."""

    rho: Rho
    """The gate's part of the budget, for all periods together. Each period costs the same."""
    least: Probability
    """A period is held if its noisy count is below this share of `expected`, such as 0.5."""
    expected: Annotated[int, Field(ge=1, le=10**9, strict=True)] | None = None
    """How many people of earlier periods answer in a full period; public, so not from the data. By
    default the declared `size`; required under `add_remove`."""


SIMPLE = "noise and simple random sampling"
WEIGHT_KEYS = ("weight", "weights", "column", "attribute")
NO_WEIGHTS = (
    "individual design weights are refused: a weight is personal data and has no bound, so that one"
    " person could move an answer by any amount; declare [study.weights] with by and totals: public"
    " totals of strata"
)
_People = Annotated[int, Field(ge=1, le=10**10, strict=True)]


class Sampling(Declaration):
    """`[study.sampling]`: how the people of the study were drawn from a population. Public."""

    fraction: Probability | None = None
    """The share of the population that was drawn, between 0 and 1. Without this key the variance of
    sampling is not reduced."""
    design_effect: Weight | None = None
    """The variance of the design over the variance of simple random sampling; 1 by default."""

    @model_validator(mode="after")
    def _declares(self) -> Sampling:
        if self.fraction is None and self.design_effect is None:
            raise ValueError("declare fraction, design_effect or both")
        return self

    @property
    def factor(self) -> float:
        """The variance of sampling, in units of p (1 - p) / n."""
        return float((self.design_effect or 1) * (1 - (self.fraction or 0)))

    @property
    def label(self) -> str:
        """The coverage of an interval for the design, in words."""
        if self.design_effect in (None, 1):
            return SIMPLE
        return f"noise and sampling with design effect {float(self.design_effect or 1):g}"


class WeightingCells(Declaration):
    """`[study.weights]`: weighting cells with public totals, for weighted answers."""

    by: Annotated[str, Field(strict=True)]
    """The attribute whose values are the weighting cells. Panels need a release of each value:
    `strata`."""
    totals: dict[str, _People]
    """The number of people of each value in the population, such as `{ north = 120000, south =
    80000 }`."""
    sample: dict[str, _People] | None = None
    """The public number of people of each value in the sample. A weighted answer of strata then
    divides by these exact numbers instead of the noisy numbers."""

    @property
    def population(self) -> int:
        """The total of all cells."""
        return sum(self.totals.values())
