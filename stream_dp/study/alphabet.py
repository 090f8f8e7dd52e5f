"""Alphabets: the symbols of an attribute, or of a product of attributes, in code order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

ABSENT = "absent"
SymbolName = int | str


@dataclass(frozen=True)
class Alphabet:
    """The possible symbols of a person in a period of a release.

    attributes: the names of the release's attributes.
    symbols: the symbols of each attribute, ABSENT last if the attribute has this symbol.
    outside: whether people may be outside the release's stratum; such people count as absent.

    The code of a combination is a number in mixed radix whose lowest digit is the last attribute.
    A person whose attributes are all absent, or who is outside, has the last code.

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
    symbols: tuple[tuple[SymbolName, ...], ...]
    outside: bool = False

    @cached_property
    def values(self) -> tuple[SymbolName, ...]:
        """The name of every symbol: a value, or `poverty=1&job=yes`, or 'absent'."""
        if len(self.symbols) == 1:
            names: tuple[SymbolName, ...] = self.symbols[0]
        else:
            names = tuple(
                ABSENT if all(v == ABSENT for v in values) else self._product_name(values)
                for values in product(*self.symbols)
            )
        return names if names[-1] == ABSENT or not self.outside else (*names, ABSENT)

    @property
    def absent(self) -> int | None:
        """The code of an absent person, or None if nobody can be absent."""
        return len(self.values) - 1 if self.values[-1] == ABSENT else None

    @property
    def name(self) -> str:
        """The attribute's name, or the names of a product joined by '&'."""
        return "&".join(self.attributes)

    def _product_name(self, values: Sequence[SymbolName]) -> str:
        return "&".join(f"{a}={v}" for a, v in zip(self.attributes, values, strict=True))


def matching_codes(word: str, values: Sequence[SymbolName]) -> list[int]:
    """Codes of the symbols named by a word: a symbol, or all products with the word's terms.

    Both `job=yes` and `job=yes&poverty=1` name `poverty=1&job=yes`.
    """
    exact = [code for code, value in enumerate(values) if str(value) == word]
    if exact or "=" not in word:
        return exact
    terms = set(word.split("&"))
    return [c for c, value in enumerate(values) if terms <= set(str(value).split("&"))]
