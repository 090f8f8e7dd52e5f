"""Alphabets: the symbols of one attribute, or of the product of several, in code order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

ABSENT = "absent"
SymbolName = int | str


@dataclass(frozen=True)
class Alphabet:
    """What a person can be in one period, as a release sees it.

    attributes: their names
    parts: each one's symbols, ABSENT last where it is one of them
    outside: whether people may be outside the release's stratum, which counts as absent

    The code of a product is a number in mixed radix, the last attribute lowest. A person of whom
    every attribute is absent, or who is outside, has the last code.

    >>> Alphabet(("poverty",), ((0, 1),)).values
    (0, 1)
    >>> both = Alphabet(("poverty", "job"), ((0, 1), ("no", "yes")), outside=True)
    >>> both.values
    ('poverty=0&job=no', 'poverty=0&job=yes', 'poverty=1&job=no', 'poverty=1&job=yes', 'absent')
    >>> both.absent
    4
    >>> matching_codes("job=yes", both.values)
    [1, 3]
    """

    attributes: tuple[str, ...]
    parts: tuple[tuple[SymbolName, ...], ...]
    outside: bool = False

    @cached_property
    def values(self) -> tuple[SymbolName, ...]:
        """The name of every symbol: a value, or `poverty=1&job=yes`, or 'absent'."""
        if len(self.parts) == 1:
            named: tuple[SymbolName, ...] = self.parts[0]
        else:
            named = tuple(
                ABSENT if all(v == ABSENT for v in values) else self._named(values)
                for values in product(*self.parts)
            )
        return named if named[-1] == ABSENT or not self.outside else (*named, ABSENT)

    @property
    def absent(self) -> int | None:
        """The code of a person who is not there at all, where that can be."""
        return len(self.values) - 1 if self.values[-1] == ABSENT else None

    @property
    def name(self) -> str:
        return "&".join(self.attributes)

    def _named(self, values: Sequence[SymbolName]) -> str:
        return "&".join(f"{a}={v}" for a, v in zip(self.attributes, values, strict=True))


def matching_codes(word: str, values: Sequence[SymbolName]) -> list[int]:
    """Codes of the symbols that a word means: a symbol's name, or a part of products' names.

    `job=yes` and `job=yes&poverty=1` are parts of `poverty=1&job=yes`.
    """
    exact = [code for code, value in enumerate(values) if str(value) == word]
    if exact or "=" not in word:
        return exact
    terms = set(word.split("&"))
    return [c for c, value in enumerate(values) if terms <= set(str(value).split("&"))]
