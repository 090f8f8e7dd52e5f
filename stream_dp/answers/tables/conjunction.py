"""Queries about data sets in words: values of columns that a row must have.

age=30-39 & sex=f                    people with both
work=none|some                       either value
households: region=north & size=2    groups (the study's own word, or `groups`)
households: work=full                groups with at least one such member
people: region=north                 people, by columns of their groups too
income-12*rent <= 0 & sex=f          people on one side of a sum of numbers (threshold_query.py)

Without `people:` or the groups' word a query is about people, or about groups where it names
columns of groups alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import UserError
from stream_dp.study.group_releases import KEY_COLUMN

from ..query import nearest
from .table_facts import PublishedTables, Value
from .threshold_query import LinearThreshold, example_threshold, parse_threshold

_MOST_PAIRED = 2_000  # cells of all pairs of columns of a table


@dataclass(frozen=True)
class Conjunction:
    """text: the query in its shortest words
    table: which rows are counted: `people` or `groups`
    codes: by table and column, the codes that a row may have
    linear: the sums of numbers that a person must be on one side of
    """

    text: str
    table: str
    codes: Mapping[str, Mapping[str, tuple[int, ...]]]
    linear: tuple[LinearThreshold, ...] = ()

    def of(self, table: str) -> Mapping[str, tuple[int, ...]]:
        return self.codes.get(table, {})

    def measurable(self, published: PublishedTables) -> Iterator[Conjunction]:
        """The same without sums of numbers: in the cells of columns that may be measured."""
        choices = [tuple(one.measurable(published)) for one in self.linear]
        for chosen in product(*choices):
            codes = dict(self.of("people"))
            for column, cells in chosen:
                both = {*cells} & {*codes.get(column, cells)}
                codes[column] = tuple(sorted(both))
            yield Conjunction(self.text, self.table, {**self.codes, "people": codes})


def parse_conjunction(text: str, published: PublishedTables) -> Conjunction:
    """The query that the words mean of a data set. Raises UserError with the nearest right word."""
    head, terms = _head(" ".join(text.split()), published)
    codes: dict[str, dict[str, tuple[int, ...]]] = {}
    words, linear = [], []
    for term in _terms(text, terms, published):
        threshold = parse_threshold(text, term, published)
        if threshold is not None:
            linear.append(threshold)
            words.append(threshold.text)
            continue
        name, equals, value = (part.strip() for part in term.partition("="))
        table = _table_of(text, name, published)
        if not equals:
            raise UserError(f"query '{text}': write what '{name}' must be, as in {name}=...")
        if name in codes.get(table, {}):
            raise UserError(f"query '{text}': '{name}' stands twice; join its values by |")
        values = published.columns[table][name]
        own = _codes(text, name, value, values)
        codes.setdefault(table, {})[name] = own
        words.append(f"{name}={'|'.join(str(values[code]) for code in own)}")
    table = head or ("groups" if set(codes) == {"groups"} and not linear else "people")
    prefix = {"people": "people: ", "groups": f"{_unit(published)}s: "}[table]
    shortest = " & ".join(words)
    return Conjunction(
        prefix + shortest if "groups" in published.tables else shortest,
        table,
        codes,
        tuple(linear),
    )


def example_conjunctions(published: PublishedTables) -> list[str]:
    """Examples of what can be asked of a data set."""

    def term(table: str, name: str) -> str:
        return f"{name}={published.columns[table][name][-1]}"

    people = [term("people", name) for name in published.names["people"][:3]]
    alone = [people[0], " & ".join(people[:2])]
    if "groups" not in published.tables:
        threshold = example_threshold(published)
        return list(dict.fromkeys([*alone, *([threshold] if threshold else [])]))
    groups = [term("groups", name) for name in published.names["groups"]]
    unit = _unit(published)
    mixed = [f"people: {groups[0]} & {people[0]}", f"{unit}s: {' & '.join(groups[-2:])}"]
    return list(dict.fromkeys([*alone, *mixed, f"{unit}s: {groups[0]} & {people[0]}"]))


def small_conjunctions(published: PublishedTables) -> Iterator[Conjunction]:
    """Each value of each column and, of tables with few of them, each two values of two columns."""
    for table, names in published.names.items():
        columns = {name: published.columns[table][name] for name in names}
        prefix = "" if "groups" not in published.tables else "people: "
        prefix = f"{_unit(published)}s: " if table == "groups" else prefix
        pairs = list(combinations(names, 2))
        if sum(len(columns[a]) * len(columns[b]) for a, b in pairs) > _MOST_PAIRED:
            pairs = []
        for own in [*((name,) for name in names), *pairs]:
            for cell in product(*(range(len(columns[name])) for name in own)):
                codes = {name: (code,) for name, code in zip(own, cell, strict=True)}
                words = " & ".join(
                    f"{name}={columns[name][code]}" for name, (code,) in codes.items()
                )
                yield Conjunction(prefix + words, table, {table: codes})


def matching_rows(query: Conjunction, published: PublishedTables) -> int:
    """How many synthetic rows have the values. A group has them if a member has its part."""
    people = _mask(query, published, "people")
    if "groups" not in published.tables:
        return int(people.sum())
    groups = _mask(query, published, "groups")
    key = published.tables["people"][KEY_COLUMN].to_numpy()
    if query.table == "people":
        return int((people & groups[key]).sum())
    if query.of("people"):
        groups &= np.bincount(key[people], minlength=groups.size) > 0
    return int(groups.sum())


def _mask(query: Conjunction, published: PublishedTables, table: str) -> NDArray[np.bool_]:
    rows = published.tables[table]
    mask = np.ones(rows.num_rows, bool)
    for name, codes in query.of(table).items():
        mask &= np.isin(rows[name].to_numpy(), codes)
    for threshold in query.linear if table == "people" else ():
        mask &= threshold.rows(published)
    return mask


def _unit(published: PublishedTables) -> str:
    groups = published.study.groups
    return "group" if groups is None else groups.unit


def _head(text: str, published: PublishedTables) -> tuple[str | None, str]:
    """The table that the words before a colon name, and the words after it."""
    unit = _unit(published)
    tables = {"people": "people"}
    if "groups" in published.tables:
        tables |= dict.fromkeys(("groups", "group", unit, f"{unit}s"), "groups")
    head, colon, rest = text.partition(":")
    if colon and "=" not in head:
        if head.strip() not in tables:
            known = " or ".join(dict.fromkeys(("people", *([f"{unit}s"] * (len(tables) > 1)))))
            near = nearest(head.strip(), tables)
            raise UserError(f"query '{text}': '{head.strip()}' is not counted; {known} are{near}")
        return tables[head.strip()], rest
    return None, text


def _terms(text: str, terms: str, published: PublishedTables) -> list[str]:
    """The terms of a conjunction: joined by &, or by commas as published measurements have it."""
    every = [name for own in published.names.values() for name in own]
    before = "|".join(re.escape(name) for name in every)
    parts = re.split(rf"\s*&\s*|\s*,\s+(?=(?:{before})\s*=)", terms.strip())
    if not all(parts):
        raise UserError(f"query '{text}': write values of columns, such as '{_example(published)}'")
    return parts


def _example(published: PublishedTables) -> str:
    return example_conjunctions(published)[1]


def _table_of(text: str, name: str, published: PublishedTables) -> str:
    for table, names in published.names.items():
        if name in names:
            return table
    every = [each for own in published.names.values() for each in own]
    raise UserError(
        f"query '{text}': '{name}' is no column; there are {', '.join(every)}{nearest(name, every)}"
    )


def _codes(text: str, name: str, value: str, values: Sequence[Value]) -> tuple[int, ...]:
    known = {str(each): code for code, each in enumerate(values)}
    chosen = [value] if value in known else [word.strip() for word in value.split("|")]
    for word in chosen:
        if word not in known:
            shown = ", ".join(list(known)[:20]) + (", ..." if len(known) > 20 else "")
            raise UserError(
                f"query '{text}': '{word}' is no value of {name}; they are {shown}"
                f"{nearest(word, known)}"
            )
    return tuple(sorted({known[word] for word in chosen}))
