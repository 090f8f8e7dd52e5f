"""Maps the texts of a column to values: as written, as codes, or as labels of codes.

A column is decided as a whole, by the labels in its file and the study's values. Its cells decide
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

_ALL = ""  # as an attribute: all of them


class Coding(StrEnum):
    """The contents of a column with labels in the file."""

    CODES = "codes"
    LABELS = "labels"


@dataclass(frozen=True)
class Codings:
    """The attributes with contents declared by an operator.

    labels, codes: the names of attributes; an empty name stands for all others.
    """

    labels: frozenset[str] = frozenset()
    codes: frozenset[str] = frozenset()

    @property
    def named(self) -> frozenset[str]:
        """All attributes that are named."""
        return (self.labels | self.codes) - {_ALL}

    def of(self, attribute: str) -> Coding | None:
        """Returns the declared contents of an attribute's columns, or None if undeclared."""
        for name in (attribute, _ALL):
            if name in self.labels:
                return Coding.LABELS
            if name in self.codes:
                return Coding.CODES
        return None


@dataclass(frozen=True)
class ValueTexts:
    """How the texts of a column become values.

    meanings: by text, its value; empty for no answer. Every other text is a value as it stands.
    mapped: by text, the value that an operator names.
    labels: by code, the label in the file; empty without labels.
    coding: what the column holds, if the file has labels for it.

    >>> texts = ValueTexts.of({"1": "no", "2": "yes"}, {}, {"no", "yes"}.__contains__)
    >>> [texts.value(text) for text in ("1", "2", "9")]
    ['no', 'yes', '9']
    """

    meanings: Mapping[str, str] = field(default_factory=dict)
    mapped: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    coding: Coding | None = None

    @classmethod
    def of(
        cls,
        labels: Mapping[str, str],
        mapped: Mapping[str, str],
        is_value: Callable[[str], bool],
        coding: Coding | None = None,
    ) -> ValueTexts:
        """Decides how the texts of a column become values.

        labels: of the file, by code. Labels that are their own codes say nothing.
        mapped: by text, the value that an operator names; it may name labels in place of codes.
        is_value: whether a text is a declared value.
        coding: what an operator says about the column.

        Raises AmbiguousCoding if declared values are codes of the file and labels of others.
        """
        if all(code == label for code, label in labels.items()):
            return cls(mapped, mapped)
        if coding is None:
            coding = _decided(labels, mapped, is_value)
        if coding is Coding.CODES:
            return cls(mapped, mapped, labels, coding)
        named = set(labels.values())
        meanings = dict(mapped)
        for code, label in labels.items():
            if label in mapped:
                meanings[code] = mapped[label]
            elif code not in mapped or code in named:
                meanings[code] = label if is_value(label) or is_value(code) else code
        # A text without a label is no label, though another code may have this one.
        meanings |= {label: f"{label} (no label)" for label in named - labels.keys()}
        return cls(meanings, mapped, labels, coding)

    def value(self, text: str) -> str | None:
        """Returns the value of a text, None for no answer."""
        return self.meanings.get(text, text) or None


class AmbiguousCoding(Exception):
    """Declared values are codes of a file and labels of other codes.

    code, label: of the file, an example.
    """

    def __init__(self, code: str, label: str) -> None:
        super().__init__(f"{code} is the code of '{label}'")
        self.code, self.label = code, label

    def line(self, column: str, attribute: str) -> str:
        """Describes the fault of a column, with the options that decide."""
        return (
            f"column '{column}': {self.code} is the code of '{self.label}', and the values of"
            f" {attribute} are codes and labels of this file: --labels {attribute} takes"
            f" {self.code} for {self.label}, --codes {attribute} for {self.code}"
        )


def _decided(
    labels: Mapping[str, str], mapped: Mapping[str, str], is_value: Callable[[str], bool]
) -> Coding:
    """Returns what a column holds. Raises AmbiguousCoding.

    A code that is its own label says nothing.
    """
    pairs = [(code, label) for code, label in labels.items() if code != label]
    named: Collection[str] = set(labels.values())
    as_labels = [pair for pair in pairs if is_value(pair[1]) or pair[1] in mapped]
    as_codes = [
        pair for pair in pairs if (pair[0] in named if pair[0] in mapped else is_value(pair[0]))
    ]
    if as_labels and as_codes:
        raise AmbiguousCoding(*as_codes[0])
    return Coding.LABELS if as_labels else Coding.CODES
