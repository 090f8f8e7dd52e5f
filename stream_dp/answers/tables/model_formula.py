"""Regression models in words: an outcome and its terms.

income ~ age + sex                   numbers count as numbers, words by an indicator a value
work=full ~ age + sex=f              an indicator of a value, or of several: work=full|half
income ~ factor(age) + sex           an indicator of every value of age but the first
income ~ age + sex + age:sex         an interaction; age*sex stands for all three terms

A column of numbers in bins counts as the mean of the bin's numbers; its special codes are no
numbers, and the people with such a code are left out. An outcome of a logistic model
is an indicator, or a column of two values: then of the second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.study.field_types import ABSENT

from ..query import nearest
from .table_facts import Floats, PublishedTables

MOST_COEFFICIENTS = 50
Mask = NDArray[np.bool_]
INTERCEPT = "(intercept)"


@dataclass(frozen=True, eq=False)
class Term:
    """A column of the design: the product of functions of single columns of the table.

    label: the term in words.
    functions: by column of the table, (values,) the function of its values; 0 for `absent`.
    """

    label: str
    functions: Mapping[str, Floats]

    def times(self, second: Term) -> Term:
        functions = dict(self.functions)
        for name, values in second.functions.items():
            functions[name] = functions[name] * values if name in functions else values
        return Term(f"{self.label}:{second.label}", functions)


@dataclass(frozen=True, eq=False)
class ModelFormula:
    """A regression model of a published table.

    text: the formula in its shortest form.
    outcome: the outcome.
    terms: the intercept, then all others.
    columns: of the table, in its order, the columns that the model names.
    binned: the columns of `columns` that are numbers in bins.
    as_numbers: the columns that count as numbers in some term.
    """

    text: str
    outcome: Term
    terms: tuple[Term, ...]
    columns: tuple[str, ...]
    binned: tuple[str, ...]
    as_numbers: frozenset[str] = frozenset()

    @property
    def covariates(self) -> tuple[str, ...]:
        """The columns that the terms name, in the table's order."""
        named = {name for term in self.terms for name in term.functions}
        return tuple(name for name in self.columns if name in named)


def answered_values(name: str, published: PublishedTables, *, as_number: bool) -> Mask:
    """Which values of a column of people are answers, (values,); of a number, which are numbers."""
    answered = np.array([value != ABSENT for value in published.columns["people"][name]])
    numbers = published.numbers.get(name)
    if as_number and numbers is not None:
        answered[len(answered) - numbers.non_numbers :] = False
    return answered


def parse_formula(text: str, published: PublishedTables, *, logistic: bool) -> ModelFormula:
    """Parses a model. Raises UserError with the fault and what to write."""
    if not isinstance(text, str):
        raise UserError(f"formula: must be a text such as 'income ~ age', not {text!r}")
    return _Parser(" ".join(text.split()), published).parsed(logistic=logistic)


@dataclass(frozen=True)
class _Factor:
    """A column of a model, as it is written.

    name: of the column.
    values: the values that an indicator is of; None without `=`.
    by_value: whether it is written as factor(NAME).
    """

    name: str
    values: tuple[str, ...] | None = None
    by_value: bool = False

    @property
    def text(self) -> str:
        if self.by_value:
            return f"factor({self.name})"
        return self.name if self.values is None else f"{self.name}={'|'.join(self.values)}"


class _Parser:
    """Parses a formula. Names and values may contain signs, so declared names are matched first.

    text: the formula, with single spaces.
    """

    def __init__(self, text: str, published: PublishedTables) -> None:
        self.text, self.published = text, published
        names = published.names["people"]
        self.values = {n: [str(v) for v in published.columns["people"][n]] for n in names}
        longest = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
        self.column = re.compile(rf"\s*({longest})(?=\s*(?:[=~+:*)]|$))")
        self.position = 0
        self.as_numbers: set[str] = set()

    def parsed(self, *, logistic: bool) -> ModelFormula:
        """Reads the whole formula. Raises UserError."""
        if self.text.count("~") != 1:
            raise self._fault(f"write OUTCOME ~ TERM + TERM, such as '{self._example()}'")
        outcome = self._factor()
        if not self._next("~") or outcome.by_value:
            raise self._fault("write one column or indicator before ~, such as income or work=full")
        written = [outcome.text]
        terms, sign = [Term(INTERCEPT, {})], "~"
        while sign:
            factors, joined = [self._factor()], ":"
            while self._next(":") or self._next("*"):
                joined = self.text[self.position - 1]
                factors.append(self._factor())
            written.append(joined.join(factor.text for factor in factors))
            terms += self._terms(factors, joined)
            sign = "+" if self._next("+") else ""
        if self.text[self.position :].strip():
            raise self._fault(
                f"join terms by +, : or *, not '{self.text[self.position :].strip()}'"
            )
        left = self._logistic_outcome(outcome) if logistic else self._linear_outcome(outcome)
        for term in (left, *terms[1:]):
            if self._is_constant(term):
                raise self._fault(f"'{term.label}' is the same for everybody; write what varies")
        labels = [term.label for term in terms]
        for label in labels:
            if labels.count(label) > 1:
                raise self._fault(f"'{label}' stands twice")
        if len(terms) > MOST_COEFFICIENTS:
            raise self._fault(f"{len(terms)} coefficients; at most {MOST_COEFFICIENTS}")
        named = {name for term in (left, *terms) for name in term.functions}
        if outcome.name in {name for term in terms for name in term.functions}:
            raise self._fault(f"'{outcome.name}' stands on both sides of ~")
        columns = tuple(name for name in self.published.names["people"] if name in named)
        binned = tuple(name for name in columns if name in self.published.numbers)
        shortest = f"{written[0]} ~ {' + '.join(written[1:])}"
        as_numbers = frozenset(self.as_numbers)
        return ModelFormula(shortest, left, tuple(terms), columns, binned, as_numbers)

    def _next(self, sign: str) -> bool:
        """Whether the next sign is this one, which is then behind."""
        rest = self.text[self.position :]
        if not rest.lstrip().startswith(sign):
            return False
        self.position += len(rest) - len(rest.lstrip()) + len(sign)
        return True

    def _factor(self) -> _Factor:
        """Reads a column, `factor(column)`, or an indicator like `work=full|part`."""
        start = self.position
        by_value = self._next("factor(")
        match = self.column.match(self.text, self.position)
        if match is None:
            raise self._no_column(start)
        name, self.position = match[1], match.end()
        if by_value:
            if not self._next(")"):
                raise self._fault(f"write factor({name})")
            return _Factor(name, by_value=True)
        if not self._next("="):
            return _Factor(name)
        values = [self._value(name)]
        while self._next("|"):
            values.append(self._value(name))
        order = self.values[name]
        return _Factor(name, tuple(sorted({*values}, key=order.index)))

    def _value(self, name: str) -> str:
        """Reads a value of a column; of several that fit the longest."""
        rest = self.text[self.position :].lstrip()
        for value in sorted(self.values[name], key=len, reverse=True):
            if rest.startswith(value) and re.match(r"\s*(?:[|~+:*]|$)", rest[len(value) :]):
                self.position = len(self.text) - len(rest) + len(value)
                return value
        word = re.split(r"[|~+:*]", rest)[0].strip()
        shown = ", ".join(self.values[name][:20]) + (", ..." if len(self.values[name]) > 20 else "")
        hint = nearest(word, self.values[name])
        raise self._fault(f"'{word}' is no value of {name}; they are {shown}{hint}")

    def _terms(self, factors: Sequence[_Factor], joined: str) -> Iterator[Term]:
        """Yields the terms of one summand of the formula: a, a:b or a*b.

        joined: the sign between the factors. With ":" the terms are the products of the factors;
            with "*" the factors themselves come first.
        """
        for first, second in pairwise([factor.name for factor in factors]):
            if first == second:
                raise self._fault(f"'{first}' stands twice in a term")
        if len(factors) > 2:
            raise self._fault("a term has at most two columns")
        coded = [self._coded(factor) for factor in factors]
        if joined == "*":
            yield from (term for terms in coded for term in terms)
        if len(coded) == 1:
            yield from coded[0]
        else:
            yield from (first.times(second) for first, second in product(*coded))

    def _coded(self, factor: _Factor) -> list[Term]:
        """The terms of a factor: itself, or an indicator of every value but the first."""
        values = self.values[factor.name]
        numbers = None if factor.by_value else self._numbers(factor.name)
        if factor.values is None and numbers is not None:
            self.as_numbers.add(factor.name)
            return [Term(factor.name, {factor.name: numbers})]
        if factor.values is not None:
            return [self._indicator(factor.name, factor.values)]
        return [self._indicator(factor.name, (v,)) for v in values[1:] if v != ABSENT]

    def _indicator(self, name: str, values: Sequence[str]) -> Term:
        if ABSENT in values:
            raise self._fault(f"a model is of people with an answer; '{name}=absent' is none")
        present = np.array([v in values for v in self.values[name]], np.float64)
        return Term(f"{name}={'|'.join(values)}", {name: present})

    def _is_constant(self, term: Term) -> bool:
        """Whether a term is the same for everybody with an answer."""
        return all(
            np.unique(
                function[answered_values(name, self.published, as_number=name in self.as_numbers)]
            ).size
            < 2
            for name, function in term.functions.items()
        )

    def _numbers(self, name: str) -> Floats | None:
        """The numbers of a column's values, means of bins; None for a column of words."""
        scale = self.published.numbers.get(name)
        if scale is not None:
            ends = pairwise(scale.bin_starts)
            means = [(scale.scale.points[a] + scale.scale.points[b - 1]) / 2 for a, b in ends]
            return np.array([*means, *[0.0] * scale.non_numbers])
        values = self.published.columns["people"][name]
        if any(isinstance(v, str) and v != ABSENT for v in values):
            return None
        return np.array([0.0 if isinstance(v, str) else float(v) for v in values])

    def _linear_outcome(self, outcome: _Factor) -> Term:
        if outcome.values is None and self._numbers(outcome.name) is None:
            raise self._fault(
                f"'{outcome.name}' has words as values; write an indicator,"
                f" such as {outcome.name}={self.values[outcome.name][-1]}"
            )
        return self._coded(outcome)[0]

    def _logistic_outcome(self, outcome: _Factor) -> Term:
        """The outcome as 0 or 1: an indicator, or the second of a column's two values."""
        if outcome.values is not None:
            return self._coded(outcome)[0]
        present = [v for v in self.values[outcome.name] if v != ABSENT]
        if len(present) != 2 or outcome.name in self.published.numbers:
            raise self._fault(
                f"'{outcome.name}' has {len(present)} values; a logistic model needs an indicator,"
                f" such as {outcome.name}={present[-1]}"
            )
        return self._indicator(outcome.name, present[1:])

    def _fault(self, reason: str) -> UserError:
        return UserError(f"formula '{self.text}': {reason}")

    def _no_column(self, start: int) -> UserError:
        """The error for a text from `start` on that begins with no column."""
        word = re.split(r"[~+:*=]", self.text[start:])[0].strip()
        word = word.removeprefix("factor(").removesuffix(")")
        if not word or word.isdecimal():
            return self._fault(f"write columns as terms, such as '{self._example()}'")
        names = ", ".join(self.values)
        return self._fault(f"'{word}' is no column; there are {names}{nearest(word, self.values)}")

    def _example(self) -> str:
        names = [*self.values]
        first = next((n for n in names if self._numbers(n) is not None), None)
        outcome = first or f"{names[0]}={self.values[names[0]][-1]}"
        return f"{outcome} ~ {' + '.join([n for n in names if n != (first or names[0])][:2])}"
