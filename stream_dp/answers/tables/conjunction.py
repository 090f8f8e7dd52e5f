"""Queries about data sets in words: values of columns that a row must have.

age=30-39 & sex=f                    people with both
work=none|some                       either value
households: region=north & size=2    groups (the study's own word, or `groups`)
households: work=full                groups with at least one such member
people: region=north                 people, by columns of their groups too
income-12*rent <= 0 & sex=f          people on one side of a sum of numbers (see below)
trips: mode=bus & age=30-39          events (the study's own word, or `events`), also by columns of
                                     their people; `people: mode=bus` counts who has such an event

Without `people:` or the groups' word a query is about people, or about groups where it names
columns of groups alone. Where people have events it is about events, or about people where it names
columns of people alone.

Linear thresholds in words: a sum of numbers with whole weights, compared with a whole number.

age <= 39, income-12*rent > 0, 2*age-3*income <= -100. Whoever is absent in one of the numbers is
neither at or below the bound nor above it.

Sums are integers base + unit * k, so every threshold is one k of the sum whose weights have no
common divisor and begin with a positive one: -2*rent <= -1500 asks for rent > 749, and so does
rent >= 750. A histogram that is measured, of a projection or of a number's bins, answers where one
of its thresholds is the same k; its cells on one side are the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.release.answer import RESPONDENTS
from stream_dp.study.field_types import ABSENT
from stream_dp.study.scale import Numbers
from stream_dp.study.thresholds import MOST_SUM

from ..query import EVERYBODY, QueryWords, nearest
from .table_facts import PublishedTables, Value

_COMPARED = re.compile(r"([^=<>]*?)\s*(<=|>=|<|>)\s*([^=<>]*)")
_WHOLE = re.compile(r"-?[0-9]{1,16}")


@dataclass(frozen=True)
class LinearThreshold:
    """A sum's side of a bound.

    weights: by number, without a common divisor; the first is positive.
    bound: a possible value of the sum.
    exceeds: whether the sum must be above the bound, or else at most the bound.
    """

    weights: tuple[tuple[str, int], ...]
    bound: int
    exceeds: bool

    @property
    def text(self) -> str:
        return f"{_sum_text(self.weights)} {'>' if self.exceeds else '<='} {self.bound}"

    def rows(self, published: PublishedTables) -> NDArray[np.bool_]:
        """Whether each synthetic person has all the numbers and a sum on this side, (people,)."""
        complete = np.ones(published.tables["people"].num_rows, np.bool_)
        weighted_sum = np.zeros(complete.size, np.int64)
        for name, weight in self.weights:
            points = published.numbers[name].scale.points
            codes = published.number_codes[name]
            complete &= codes < len(points)
            weighted_sum += weight * (points.start + points.step * codes)
        on_side = weighted_sum > self.bound if self.exceeds else weighted_sum <= self.bound
        matching: NDArray[np.bool_] = complete & on_side
        return matching

    def measurable(self, published: PublishedTables) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The columns with a measured histogram that may answer, and the answering cells."""
        for column, (weights, ends) in _histograms(published).items():
            for position, end in enumerate(ends):
                same = reduced(weights, end, published.numbers)
                if (same.weights, same.bound) == (self.weights, self.bound):
                    upper = same.exceeds != self.exceeds
                    cells = range(len(ends) + 1)
                    yield column, tuple(cells[position + 1 :] if upper else cells[: position + 1])


def parse_threshold(text: str, term: str, published: PublishedTables) -> LinearThreshold | None:
    """Parses a term of a query; None for a term without a comparison.

    text: the whole query, for the errors. Raises UserError.
    """
    compared = _COMPARED.fullmatch(term)
    if compared is None:
        return None
    sum_text, sign, bound = compared.groups()
    weights = _weights(text, sum_text, published)
    if not _WHOLE.fullmatch(bound):
        raise UserError(f"query '{text}': write a whole number after {sign}, not '{bound}'")
    ends = [
        sorted((w * points[0], w * points[-1]))
        for w, points in ((w, published.numbers[name].scale.points) for name, w in weights.items())
    ]
    minimum, maximum = (sum(end) for end in zip(*ends, strict=True))
    if max(-minimum, maximum) > MOST_SUM:
        raise UserError(f"query '{text}': the sum may be over {MOST_SUM:,}; take smaller weights")
    at_most = int(bound) - (sign in ("<", ">="))
    if not minimum <= at_most < maximum:
        raise UserError(
            f"query '{text}': '{sum_text}' is from {minimum} to {maximum};"
            " compare it with what is between"
        )
    threshold = reduced(weights, at_most, published.numbers)
    exceeds = threshold.exceeds != (sign in (">", ">="))
    return LinearThreshold(threshold.weights, threshold.bound, exceeds)


def example_threshold(published: PublishedTables) -> str | None:
    """A measured threshold, rather of a projection than of a number; None without any."""
    for weights, ends in reversed(_histograms(published).values()):
        if ends:
            middle = ends[len(ends) // 2]
            return reduced(weights, middle, published.numbers).text
    return None


def reduced(
    weights: Mapping[str, int], at_most: int, numbers: Mapping[str, Numbers]
) -> LinearThreshold:
    """The threshold sum <= at_most, in the canonical form of equal thresholds.

    Divided by the weights' common divisor, with the sign that makes the first weight positive, the
    sum is base + unit k for whole k. The bound becomes the largest such sum on its side.
    """
    divisor = gcd(*weights.values())
    order = [name for name in numbers if name in weights]
    if weights[order[0]] < 0:
        divisor = -divisor
    coprime = tuple((name, weights[name] // divisor) for name in order)
    scales = [(w, numbers[name].scale.points) for name, w in coprime]
    base = sum(w * points.start for w, points in scales)
    unit = gcd(*(w * points.step for w, points in scales))
    if divisor > 0:
        return LinearThreshold(coprime, base + unit * ((at_most // divisor - base) // unit), False)
    # The reduced sum is at least at_most / divisor, so above the largest sum below that.
    minimum = -(at_most // -divisor)
    return LinearThreshold(coprime, base + unit * (-((base - minimum) // unit) - 1), True)


class _Histogram(NamedTuple):
    """A measured histogram of a sum of numbers.

    weights: of the numbers in the sum.
    ends: the largest sum in each cell but the last.
    """

    weights: dict[str, int]
    ends: tuple[int, ...]


def _histograms(published: PublishedTables) -> dict[str, _Histogram]:
    """The measured histograms, by column of a number or of a projection."""
    histograms: dict[str, _Histogram] = {}
    for name, numbers in published.numbers.items():
        points = numbers.scale.points
        bin_ends = tuple(points[start - 1] for start in numbers.bin_starts[1:-1])
        histograms[name] = _Histogram({name: 1}, bin_ends)
    for column, cells in published.projections.items():
        ends = [cell.partition("..")[2] for cell in cells if cell != ABSENT]
        histograms[column] = _Histogram(_measured_weights(column), tuple(map(int, ends[:-1])))
    return histograms


def _measured_weights(column: str) -> dict[str, int]:
    """The weights of a projection by its name, 2*age-3*income. Names may have signs, not a *."""
    first, *pieces = column.split("*")
    weights, weight = dict[str, int](), int(first)
    for piece in pieces[:-1]:
        sign = max(piece.rfind("+"), piece.rfind("-"))
        weights[piece[:sign]], weight = weight, int(piece[sign:])
    return {**weights, pieces[-1]: weight}


def _sum_text(weights: tuple[tuple[str, int], ...]) -> str:
    terms = (f"{'-' if w < 0 else '+'}{'' if abs(w) == 1 else f'{abs(w)}*'}{n}" for n, w in weights)
    return "".join(terms).removeprefix("+")


def _weights(text: str, text_of_sum: str, published: PublishedTables) -> dict[str, int]:
    """The weights by number. Raises UserError if `text_of_sum` is no sum of numbers."""
    if not published.numbers:
        raise UserError(f"query '{text}': only numbers are compared, and no column is a number")
    term = _term(published.numbers)
    weights, position = dict[str, int](), 0
    while position < len(text_of_sum) or not weights:
        match = term.match(text_of_sum, position)
        if match is None or (weights and not match[1]):
            raise UserError(f"query '{text}': {_fault(text_of_sum[position:], published)}")
        sign, digits, name = match.groups()
        weight = int(sign + (digits or "1"))
        if name in weights or not weight:
            why = "stands twice in the sum" if name in weights else "has the weight 0; leave it out"
            raise UserError(f"query '{text}': '{name}' {why}")
        weights[name], position = weight, match.end()
    return weights


def _term(names: Iterable[str]) -> re.Pattern[str]:
    """The pattern of a name with sign and weight, before the next term or the end."""
    either = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.compile(rf"\s*([+-]?)\s*(?:([0-9]{{1,16}})\s*\*\s*)?({either})(?=\s*(?:[+-]|$))")


def _fault(faulty: str, published: PublishedTables) -> str:
    """The reason why `faulty` is no sum of numbers, and the text to write."""
    numbers, columns = list(published.numbers), published.names["people"]
    example = f"write a sum of numbers, such as 2*{numbers[0]}"
    example += f"-{numbers[1]}" if len(numbers) > 1 else ""
    term = _term(columns).match(faulty)
    if term is not None and term[3] not in numbers:
        return (
            f"'{term[3]}' has listed values: write some of them, such as '{term[3]}=A|B'; numbers"
            f" are {', '.join(numbers)}"
        )
    named = re.match(r"\s*[+-]?\s*(?:[0-9]+\s*\*\s*)?([A-Za-z0-9][A-Za-z0-9._-]*)\s*$", faulty)
    if named is None or named[1] in numbers:
        return example
    hint = nearest(named[1], columns)
    return f"'{named[1]}' is no column; numbers are {', '.join(numbers)}{hint}"


@dataclass(frozen=True)
class Conjunction:
    """A query for rows with given values.

    text: the query in its shortest form
    table: the table with the counted rows: `people`, `groups` or `events`
    codes: by table and column, the codes that a row may have
    linear: the bounds on sums of numbers that a person must satisfy
    """

    text: str
    table: str
    codes: Mapping[str, Mapping[str, tuple[int, ...]]]
    linear: tuple[LinearThreshold, ...] = ()

    def of(self, table: str) -> Mapping[str, tuple[int, ...]]:
        return self.codes.get(table, {})

    def measurable(self, published: PublishedTables) -> Iterator[Conjunction]:
        """The query without sums of numbers: in the cells of columns that may be measured."""
        choices = [tuple(threshold.measurable(published)) for threshold in self.linear]
        for chosen in product(*choices):
            codes = dict(self.of("people"))
            for column, cells in chosen:
                common = {*cells} & {*codes.get(column, cells)}
                codes[column] = tuple(sorted(common))
            yield Conjunction(self.text, self.table, {**self.codes, "people": codes})


def parse_conjunction(text: str, published: PublishedTables) -> Conjunction:
    """Parses a query about a data set. Raises UserError with the nearest valid word."""
    head, terms = _head(" ".join(text.split()), published)
    codes: dict[str, dict[str, tuple[int, ...]]] = {}
    terms_text, linear = [], []
    for term in _terms(text, terms, published):
        threshold = parse_threshold(text, term, published)
        if threshold is not None:
            linear.append(threshold)
            terms_text.append(threshold.text)
            continue
        name, equals, value = (piece.strip() for piece in term.partition("="))
        table = _table_of(text, name, published)
        if not equals:
            raise UserError(f"query '{text}': write what '{name}' must be, as in {name}=...")
        if name in codes.get(table, {}):
            raise UserError(f"query '{text}': '{name}' stands twice; join its values by |")
        values = published.columns[table][name]
        term_codes = _codes(text, name, value, values, in_bins=name in published.numbers)
        codes.setdefault(table, {})[name] = term_codes
        terms_text.append(f"{name}={'|'.join(str(values[code]) for code in term_codes)}")
    link = published.link
    of_owners = link is not None and set(codes) == {link.owners} and not linear
    table = head or (link.owners if link is not None and of_owners else published.rows_asked)
    shortest = " & ".join(terms_text)
    return Conjunction(
        shortest if link is None else f"{published.noun(table)}: {shortest}",
        table,
        codes,
        tuple(linear),
    )


def parse_among(
    words: QueryWords, published: PublishedTables
) -> tuple[Conjunction, Conjunction | None]:
    """The query for the rows to count, and for the rows in the denominator if the query names them.

    Raises UserError.
    """
    query = parse_conjunction(words.query, published)
    if words.among is None or words.among == EVERYBODY:
        return query, None
    if words.among == RESPONDENTS or words.among.startswith(f"{RESPONDENTS} & "):
        condition = words.among.removeprefix(RESPONDENTS).removeprefix(" & ")
        others = _respondents(query, condition, published)
    else:
        others = parse_conjunction(words.among, published)
    text = f"{query.text} among {others.text}"
    first, second = published.noun(query.table), published.noun(others.table)
    if first != second:
        raise UserError(f"query '{text}': counts {first} on one side and {second} on the other")
    link = published.link
    if (
        link is not None
        and query.table == link.owners
        and (query.of(link.members) or others.of(link.members))
    ):
        raise UserError(f"query '{text}': {first} are compared by columns of {first} alone")
    return _both(query, others, text), others


def among_answering(
    query: Conjunction, published: PublishedTables
) -> tuple[Conjunction, Conjunction] | None:
    """The rows of a query without an absent column, and all rows without one: a share's base.

    None where nobody can be absent in a column of it, and for the share of the absent or of all who
    answered, which tells the response.
    """
    if published.link is not None or query.linear:
        return None
    try:
        answered = _respondents(query, "", published)
    except UserError:
        return None
    both = _both(query, answered, query.text)
    codes = both.of("people")
    if not all(codes.values()) or codes == answered.of("people"):
        return None
    return both, answered


def _both(query: Conjunction, others: Conjunction, text: str) -> Conjunction:
    """The query for the rows in both queries."""
    codes = {table: dict(columns) for table, columns in query.codes.items()}
    for table, columns in others.codes.items():
        for name, chosen in columns.items():
            now = codes.setdefault(table, {}).get(name, chosen)
            codes[table][name] = tuple(code for code in now if code in chosen)
    linear = tuple(dict.fromkeys((*query.linear, *others.linear)))
    return Conjunction(text, query.table, codes, linear)


def _respondents(query: Conjunction, condition: str, published: PublishedTables) -> Conjunction:
    """The query for the rows that are absent in no column of a query.

    condition: a further one, or ""; without it, some column must have 'absent'. Raises UserError.
    """
    codes: dict[str, dict[str, tuple[int, ...]]] = {}
    for table, columns in query.codes.items():
        for name in columns:
            values = [str(value) for value in published.columns[table][name]]
            if ABSENT in values:
                present = (code for code, value in enumerate(values) if value != ABSENT)
                codes.setdefault(table, {})[name] = tuple(present)
    if query.linear or not (codes or condition):
        raise UserError(
            f"query '{query.text} among {RESPONDENTS}': nobody is absent in a listed column of it;"
            " leave 'among' out"
        )
    respondents = Conjunction(RESPONDENTS, query.table, codes)
    if not condition:
        return respondents
    further = parse_conjunction(condition, published)
    return _both(further, respondents, f"{RESPONDENTS} & {further.text}")


def example_conjunctions(published: PublishedTables) -> list[str]:
    """Examples of queries to a data set, about values other than 'absent'."""

    def term(table: str, name: str) -> str:
        values, numbers = published.columns[table][name], published.numbers.get(name)
        if table == "people" and numbers is not None:
            values = values[: len(values) - numbers.non_numbers]
        return f"{name}={next((v for v in reversed(values) if v != ABSENT), values[-1])}"

    asked, link = published.rows_asked, published.link
    people = [term(asked, name) for name in published.names[asked][:3]]
    people_examples = [people[0], " & ".join(people[:2])]
    if link is None:
        threshold = example_threshold(published)
        return list(dict.fromkeys([*people_examples, *([threshold] if threshold else [])]))
    groups = [term(link.owners, name) for name in published.names[link.owners]]
    members, owners = published.noun(link.members), published.noun(link.owners)
    mixed = [f"{members}: {groups[0]} & {people[0]}", f"{owners}: {' & '.join(groups[-2:])}"]
    return list(dict.fromkeys([*people_examples, *mixed, f"{owners}: {groups[0]} & {people[0]}"]))


def survey_conjunctions(published: PublishedTables) -> list[str]:
    """Examples of shares of everybody and of weighted answers, where a data set has them."""
    weights, columns = published.study.weights, published.columns["people"]
    by = None if weights is None else weights.by
    column = next((name for name in published.names["people"] if name != by), None)
    if column is None:
        return []
    values = [str(value) for value in columns[column]]
    example = f"{column}={next(v for v in reversed(values) if v != ABSENT)}"
    return [
        *([f"{example} among {EVERYBODY}"] if ABSENT in values else []),
        *([f"weighted {example}"] if by in columns else []),
    ]


def matching_rows(query: Conjunction, published: PublishedTables) -> int:
    """The number of synthetic rows with the values: of groups, with a member with the values."""
    people, link = _mask(query, published, published.rows_asked), published.link
    if link is None:
        return int(people.sum())
    groups = _mask(query, published, link.owners)
    key = published.tables[link.members][link.key].to_numpy()
    if query.table == link.members:
        return int((people & groups[key]).sum())
    if query.of(link.members):
        groups &= np.bincount(key[people], minlength=groups.size) > 0
    return int(groups.sum())


def _mask(query: Conjunction, published: PublishedTables, table: str) -> NDArray[np.bool_]:
    """(rows,) whether each synthetic row of a table has the query's values of its columns."""
    rows = published.tables[table]
    mask = np.ones(rows.num_rows, bool)
    for name, codes in query.of(table).items():
        mask &= np.isin(rows[name].to_numpy(), codes)
    for threshold in query.linear if table == "people" else ():
        mask &= threshold.rows(published)
    return mask


def _head(text: str, published: PublishedTables) -> tuple[str | None, str]:
    """The table named before a colon, and the text after the colon."""
    tables = dict[str, str]()
    for table in published.tables:
        nouns = (table, published.noun(table)) if table != "people" else (table,)
        tables |= dict.fromkeys((*nouns, *(noun.removesuffix("s") for noun in nouns)), table)
    head, colon, rest = text.partition(":")
    if colon and "=" not in head:
        if head.strip() not in tables:
            counted = " or ".join(map(published.noun, reversed([*published.tables])))
            hint = nearest(head.strip(), tables)
            raise UserError(f"query '{text}': '{head.strip()}' is not counted; {counted} are{hint}")
        return tables[head.strip()], rest
    return None, text


def _terms(text: str, terms: str, published: PublishedTables) -> list[str]:
    """The terms of a conjunction: joined by &, or by commas as in published measurements."""
    columns = [name for names in published.names.values() for name in names]
    either = "|".join(re.escape(name) for name in columns)
    terms_found = re.split(rf"\s*&\s*|\s*,\s+(?=(?:{either})\s*=)", terms.strip())
    if not all(terms_found):
        example = example_conjunctions(published)[1]
        raise UserError(f"query '{text}': write values of columns, such as '{example}'")
    return terms_found


def _table_of(text: str, name: str, published: PublishedTables) -> str:
    """The table with a column. text: the query, for the error. Raises UserError."""
    for table, names in published.names.items():
        if name in names:
            return table
    columns = [column for names in published.names.values() for column in names]
    hint = nearest(name, columns)
    raise UserError(f"query '{text}': '{name}' is no column; there are {', '.join(columns)}{hint}")


def _codes(
    text: str, name: str, value: str, values: Sequence[Value], *, in_bins: bool
) -> tuple[int, ...]:
    """The codes of values joined by |, and of ranges of listed whole numbers. Raises UserError."""
    code_of, codes = {str(label): code for code, label in enumerate(values)}, set[int]()
    for word in [value] if value in code_of else [word.strip() for word in value.split("|")]:
        ends = re.fullmatch(r"(-?[0-9]{1,17})\.\.(-?[0-9]{1,17})", word)
        ranged = set[int]()
        if ends:
            numbers = [value for value in values if isinstance(value, int)]
            ranged = {code_of[str(x)] for x in numbers if int(ends[1]) <= x <= int(ends[2])}
        if word not in code_of and not ranged:
            shown = ", ".join([*code_of][:20]) + (", ..." if len(code_of) > 20 else "")
            ask = f"; write '{name} >= {ends[1]} & {name} <= {ends[2]}'" if ends else ""
            hint = ask if in_bins and ask else nearest(word, code_of)
            fault = f"'{word}' is no value of {name}; they are {shown}{hint}"
            raise UserError(f"query '{text}': {fault}")
        codes |= {code_of[word]} if word in code_of else ranged
    return tuple(sorted(codes))
