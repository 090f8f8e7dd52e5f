"""Attributes, the questions answered by reports, and alphabets, the symbols that releases count.

An attribute has a rule for missing answers. The symbols of an alphabet are in the order of their
codes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Annotated, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from .field_types import ABSENT, Declaration, Flag, Symbol, SymbolName
from .scale import Fault, Numbers, Scale, Whole, bin_fault, code_notice, special_fault

MOST_SYMBOLS = 250  # of an alphabet; a code of a panel is a byte
_PLAIN_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,17}")  # a key that a report may write as a number


class Carry(Declaration):
    """Repeats the person's last value for a missing value; `first` before any value."""

    carry: Literal[True]
    """Always `true`."""
    first: Symbol
    """The symbol of a person before the first answer: one of the values."""


class Attribute(Declaration):
    """A question: the possible values and the rule for missing answers."""

    declared_values: Annotated[tuple[Symbol, ...], Field(max_length=MOST_SYMBOLS)] = Field(
        (), alias="values"
    )
    """The possible answers, integers or text. Any other answer is rejected. A text must not begin
    with `=`, `+`, `-` or `@`, because spreadsheets read such texts as formulas; texts of numbers
    are allowed. Required, except for an attribute with `number` or `place`."""
    missing: Symbol | Carry
    """The symbol of a person without an answer in a period: one of the values; `"absent"`, an
    additional symbol; or `{ carry = true, first = VALUE }`, the last answer again. For a place
    `"absent"`, nowhere, or `{ carry = true, first = "absent" }`."""
    fixed: Flag = None
    """`true`: a person's first answer is final, such as a region or a wave. Later different answers
    are rejected. Requires `missing = "absent"`."""
    number: Scale | None = None
    """In place of `values`: the answers are whole numbers of a public scale, such as
    `{ least = -9000, most = 1400000, step = 100 }`. For releases of `kind = "rap"`."""
    bins: tuple[Annotated[int, Field(strict=True)], ...] | None = None
    """The public edges of a number's bins. Each edge is the first number of its bin. Never take
    edges from the data. Required with `number`."""
    special: tuple[Whole, ...] | None = None
    """Only with `number`: answers that are codes and no numbers, such as `[-9, -8]` for a refusal
    and "do not know". Each code is a value of its own, beside the bins, and counts in no sum and no
    comparison of numbers. `[]` declares that there are no codes."""
    missing_codes: tuple[Symbol, ...] | None = None
    """Answers that count as no answer, such as `[-9, "refused"]`: the person is without an answer
    in the period, and `missing` applies."""
    interest: Symbol | None = None
    """The value that figures and examples ask for, such as `"yes"`. By default the last value."""
    label: Annotated[str, Field(max_length=60)] | None = None
    """For the titles of figures. With `interest`, or with two values, this is the value of interest
    in words, such as `"unemployed"`. Otherwise it is the attribute in words, such as
    `"Employment status"`."""
    values_from: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")] | None = None
    """The hash of a public table that the values, or a number's scale and bins, were taken from,
    such as `"sha256:..."`. `init --public` writes the hash of the file. Every certificate has it.
    By default the values were declared."""
    place: Flag = None
    """`true`: the answer is the key of a place in the table of `[places]`. It is released by
    `kind = "sizes"` alone."""

    @model_serializer(mode="wrap")
    def _declared(self, fields: SerializerFunctionWrapHandler) -> dict[str, object]:
        """The declaration without the keys of places."""
        declared: dict[str, object] = fields(self)
        if self.place:
            declared.pop("values", None)
        return declared

    def of_places(self, keys: Sequence[str]) -> Attribute:
        """The declaration with values from the keys of places, in text."""
        values = tuple(int(k) if _PLAIN_NUMBER.fullmatch(k) else k for k in keys)
        return Attribute.model_construct(**{**dict(self), "values": values})

    @property
    def value_label(self) -> str | None:
        """The label, if it is that of the value of interest."""
        of_value = self.interest is not None or len(self.listed) == 2
        return self.label if of_value else None

    @property
    def values_known(self) -> bool:
        """Whether all values are declared; the keys of places come from a separate table."""
        return bool(self.listed) or not self.place

    @property
    def listed(self) -> tuple[Symbol, ...]:
        """The answers in code order, without 'absent'. None of a number, or of unknown places.

        The only reader of `declared_values`: another way to declare answers is another case here.
        """
        return self.declared_values

    @cached_property
    def numbers(self) -> Numbers | None:
        """The symbols of a number, or None for listed values."""
        if self.number is None:
            return None
        return Numbers(
            self.number,
            self.bins or (),
            absent=self.missing == ABSENT,
            special=self.special or (),
        )

    @property
    def code_notice(self) -> str | None:
        """A line about numbers that are often codes, unless `special` is declared, even empty."""
        if self.number is None or self.special is not None:
            return None
        return code_notice(self.number)

    @cached_property
    def symbols(self) -> tuple[Symbol, ...] | Numbers:
        """The symbols in code order: the values, then 'absent' if this is the missing rule."""
        if self.numbers is not None:
            return self.numbers
        nowhere = self.missing == ABSENT or self.place
        return (*self.listed, ABSENT) if nowhere else self.listed

    @cached_property
    def codes(self) -> dict[Symbol, int]:
        """The codes of symbols and of their texts, '1' for a declared 1; of a number, those of
        special codes and 'absent' alone."""
        first = 0 if self.number is None else len(self.number.points)
        listed = self.symbols[first:]
        codes: dict[Symbol, int] = {s: i for i, s in enumerate(listed, first)}
        return codes | {str(s): i for i, s in enumerate(listed, first)}

    @cached_property
    def no_answers(self) -> frozenset[Symbol]:
        """The reported values that count as no answer: the missing codes and their texts."""
        codes = self.missing_codes or ()
        return frozenset((*codes, *map(str, codes)))

    def takes(self, value: Symbol) -> bool:
        """Whether a report may give the value, as an answer or as a stated non-answer."""
        return value in self.no_answers or isinstance(self.read(value), int)

    def read(self, value: Symbol) -> int | Fault:
        """The code of a reported value, or the Fault of a value without a code."""
        code = self.codes.get(value)
        if code is not None:
            return code
        return "value" if self.number is None else self.number.read(value)

    @property
    def words(self) -> str:
        """The possible answers in words."""
        if self.number is not None:
            codes = f", or one of {', '.join(map(str, self.special))}" if self.special else ""
            return self.number.words + codes
        several = ", ".join(map(str, self.listed[:12])) + (", ..." if self.listed[12:] else "")
        return f"one of {several}"

    @property
    def first_code(self) -> int:
        """The code of a person before the first answer. The attribute must be sound."""
        rule = self.missing
        code = self.read(rule.first if isinstance(rule, Carry) else rule)
        assert isinstance(code, int)
        return code

    @property
    def carries(self) -> bool:
        """Whether a missing answer repeats the last one."""
        return isinstance(self.missing, Carry)

    def problems(self, key: str) -> list[str]:
        """The attribute's faults in lines. key: the attribute's key in the file."""
        if self.place:
            return self._place_problems(key)
        if self.number is not None:
            return self._number_problems(key, self.number) or self._missing_code_problems(key)
        if self.bins is not None:
            return [f"{key}.bins: goes with number"]
        if self.special is not None:
            return [
                f"{key}.special: goes with number; put the codes among values, or, where they count"
                " as no answer, into missing_codes"
            ]
        if not self.listed:
            return [f"{key}.values: is required; declare the possible answers, or number = {{...}}"]
        texts = [str(v) for v in self.listed]
        if len(set(texts)) < len(texts):
            return [f"{key}.values: a value stands there twice"]
        if ABSENT in texts:
            return [f"{key}.values: 'absent' is reserved; ask for it with missing = 'absent'"]
        rule = self.missing.first if isinstance(self.missing, Carry) else self.missing
        if rule not in self.codes:
            return [f"{key}.missing: must be 'absent', one of the values, or carry forward"]
        if self.fixed and self.missing != ABSENT:
            return [f"{key}.missing: must be 'absent', for nobody has a fixed value unasked"]
        if len(self.symbols) < 2:
            return [f"{key}.values: one symbol alone says nothing; declare at least two"]
        if self.interest is not None and str(self.interest) not in texts:
            return [f"{key}.interest: '{self.interest}' is none of the values"]
        return self._missing_code_problems(key)

    def _missing_code_problems(self, key: str) -> list[str]:
        texts = [str(code) for code in self.missing_codes or ()]
        for text in texts:
            if text == ABSENT:
                return [f"{key}.missing_codes: 'absent' is reserved; leave it out"]
            if texts.count(text) > 1:
                return [f"{key}.missing_codes: {text} stands there twice"]
            if isinstance(self.read(text), int):
                return [f"{key}.missing_codes: {text} is an answer, too; leave it out of one"]
        return []

    def _place_problems(self, key: str) -> list[str]:
        """The faults of an attribute with values from places."""
        if self.declared_values:
            return [f"{key}.values: are the keys of the table of places; leave them out"]
        if self.number is not None or self.bins is not None:
            return [f"{key}.number: goes without place; declare one of both"]
        if self.special is not None or self.missing_codes is not None:
            name = "missing_codes" if self.special is None else "special"
            return [f"{key}.{name}: goes without place; leave such codes empty"]
        first = self.missing.first if isinstance(self.missing, Carry) else self.missing
        if first != ABSENT:
            return [
                f"{key}.missing: of a place must be 'absent', nowhere, or"
                " { carry = true, first = 'absent' }"
            ]
        if self.fixed:
            return [f"{key}.fixed: of a place is not made; people move"]
        return []

    def _number_problems(self, key: str, scale: Scale) -> list[str]:
        """The faults of an attribute that is a number."""
        rule = self.missing.first if isinstance(self.missing, Carry) else self.missing
        if self.declared_values:
            return [f"{key}.values: goes without number; declare one of both"]
        if (fault := scale.fault()) is not None:
            return [f"{key}.number: {fault}"]
        if (fault := bin_fault(scale, self.bins or ())) is not None:
            return [f"{key}.bins: {fault}"]
        if (fault := special_fault(scale, self.special or ())) is not None:
            return [f"{key}.special: {fault}"]
        if rule != ABSENT and not isinstance(self.read(rule), int):
            return [f"{key}.missing: must be 'absent', one of the numbers, or carry forward"]
        if self.fixed and self.missing != ABSENT:
            return [f"{key}.missing: must be 'absent', for nobody has a fixed value unasked"]
        return []


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
