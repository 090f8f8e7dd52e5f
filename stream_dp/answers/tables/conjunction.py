"""Queries about data sets in words: values of columns that a row must have.

age=30-39 & sex=f                    people with both
work=none|some                       either value
households: region=north & size=2    groups (the study's own word, or `groups`)
households: work=full                groups with at least one such member
people: region=north                 people, by columns of their groups too
income-12*rent <= 0 & sex=f          people on one side of a sum of numbers
trips: mode=bus & age=30-39          events (the study's own word, or `events`), also by columns of
                                     their people; `people: mode=bus` counts who has such an event

Without `people:` or the groups' word a query is about people, or about groups where it names
columns of groups alone. Where people have events it is about events, or about people where it names
columns of people alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.release.answer import RESPONDENTS
from stream_dp.study.field_types import ABSENT

from ..query import EVERYBODY, QueryWords, nearest
from .linear_thresholds import LinearThreshold, example_threshold, parse_threshold
from .table_facts import PublishedTables, Value

_RANGE = re.compile(r"(-?[0-9]{1,16})\.\.(-?[0-9]{1,16})")


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

    @property
    def bounded(self) -> frozenset[str]:
        """The numbers of which a bound is named: whoever is absent in them is in no answer."""
        weights = (threshold.weights for threshold in self.linear)
        return frozenset(numbers[0][0] for numbers in weights if len(numbers) == 1)

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
    for term in (side for t in _terms(text, terms, published) for side in _sides(t, published)):
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
        term_codes = _codes(text, name, value, values)
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
    implied: frozenset[str] = frozenset()
    if words.among == RESPONDENTS:
        others, implied = _respondents(query, "", published), query.bounded
    elif words.among.startswith(f"{RESPONDENTS} & "):
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
    return _both(query, others, text, implied), others


def among_answering(
    query: Conjunction, published: PublishedTables
) -> tuple[Conjunction, Conjunction] | None:
    """The rows of a query without an absent column, and all rows without one: a share's base.

    None where nobody can be absent in a column of it, and for the share of the absent or of all who
    answered, which tells the response.
    """
    if published.link is not None:
        return None
    try:
        answered = _respondents(query, "", published)
    except UserError:
        return None
    both = _both(query, answered, query.text, query.bounded)
    codes = both.of("people")
    if not all(codes.values()) or (codes == answered.of("people") and not query.linear):
        return None
    return both, answered


def _both(
    query: Conjunction, others: Conjunction, text: str, implied: frozenset[str] = frozenset()
) -> Conjunction:
    """The query for the rows in both queries.

    implied: columns of people of which the first query implies what the second says
    """
    codes = {table: dict(columns) for table, columns in query.codes.items()}
    for table, columns in others.codes.items():
        for name, chosen in columns.items():
            if name in implied and table == "people" and name not in codes.get(table, {}):
                continue
            now = codes.setdefault(table, {}).get(name, chosen)
            codes[table][name] = tuple(code for code in now if code in chosen)
    linear = tuple(dict.fromkeys((*query.linear, *others.linear)))
    return Conjunction(text, query.table, codes, linear)


def _respondents(query: Conjunction, condition: str, published: PublishedTables) -> Conjunction:
    """The query for the rows that are absent in no column of a query.

    condition: a further one, or ""; without it, some column must have 'absent'. Raises UserError.
    """
    codes: dict[str, dict[str, tuple[int, ...]]] = {}
    for table in published.names:
        numbers = query.bounded if table == "people" else ()
        for name in {**query.of(table), **dict.fromkeys(sorted(numbers))}:
            values = [str(value) for value in published.columns[table][name]]
            if ABSENT in values:
                present = (code for code, value in enumerate(values) if value != ABSENT)
                codes.setdefault(table, {})[name] = tuple(present)
    if any(len(threshold.weights) > 1 for threshold in query.linear):
        raise UserError(
            f"query '{query.text} among {RESPONDENTS}': sums of several numbers have no"
            " respondents; leave 'among' out"
        )
    if not (codes or condition):
        raise UserError(
            f"query '{query.text} among {RESPONDENTS}': nobody is absent in a column of it;"
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


def _sides(term: str, published: PublishedTables) -> list[str]:
    """A range of a number as its bounds, unless it is a bin; any other term alone."""
    name, _, value = (piece.strip() for piece in term.partition("="))
    ends, numbers = _RANGE.fullmatch(value), published.numbers.get(name)
    if ends is None or numbers is None or value in published.columns["people"][name]:
        return [term]
    points, (least, most) = numbers.scale.points, map(int, ends.groups())
    if least > most:
        return [term]
    sides = [f"{name} >= {least}"] if least > points[0] else []
    sides += [f"{name} <= {most}"] if most < points[-1] else []
    labels = published.columns["people"][name]
    every = "|".join(map(str, labels[: len(labels) - numbers.non_numbers]))
    return sides or [f"{name}={every}"]


def _table_of(text: str, name: str, published: PublishedTables) -> str:
    """The table with a column. text: the query, for the error. Raises UserError."""
    for table, names in published.names.items():
        if name in names:
            return table
    columns = [column for names in published.names.values() for column in names]
    hint = nearest(name, columns)
    raise UserError(f"query '{text}': '{name}' is no column; there are {', '.join(columns)}{hint}")


def _codes(text: str, name: str, value: str, values: Sequence[Value]) -> tuple[int, ...]:
    """The codes of values joined by |, and of ranges of listed whole numbers. Raises UserError."""
    code_of, codes = {str(label): code for code, label in enumerate(values)}, set[int]()
    for word in [value] if value in code_of else [word.strip() for word in value.split("|")]:
        ends = _RANGE.fullmatch(word)
        ranged = set[int]()
        if ends:
            numbers = [value for value in values if isinstance(value, int)]
            ranged = {code_of[str(x)] for x in numbers if int(ends[1]) <= x <= int(ends[2])}
        if word not in code_of and not ranged:
            if bin_label := _bin_with(word, values):
                fault = f"{name} was counted in bins: '{word}' is in {name}={bin_label}"
                raise UserError(f"query '{text}': {fault}")
            shown = ", ".join([*code_of][:20]) + (", ..." if len(code_of) > 20 else "")
            fault = f"'{word}' is no value of {name}; they are {shown}{nearest(word, code_of)}"
            raise UserError(f"query '{text}': {fault}")
        codes |= {code_of[word]} if word in code_of else ranged
    return tuple(sorted(codes))


def _bin_with(word: str, values: Sequence[Value]) -> str | None:
    """The label of the bin of a number that is none of the values."""
    if re.fullmatch("-?[0-9]{1,18}", word):
        for value in values:
            ends = _RANGE.fullmatch(str(value))
            if ends is not None and int(ends[1]) <= int(word) <= int(ends[2]):
                return str(value)
    return None
