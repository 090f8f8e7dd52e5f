"""The draft of a study: from a table's header and answers to the study and the command that sends.

The draft is pure. The terminal and the page show its fields and change the answers.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from stream_dp.errors import UserError
from stream_dp.json_object import Json
from stream_dp.population.tables import FileForm
from stream_dp.population.tables.text_files import PACKED
from stream_dp.privacy.zcdp import epsilon, rho_within
from stream_dp.study import Study
from stream_dp.study.attribute import MOST_SYMBOLS
from stream_dp.study.call_arguments import exact_rho
from stream_dp.study.column_advice import (
    LikelyFunction,
    function_of,
    likely_functions,
    likely_orders,
)
from stream_dp.study.field_types import ABSENT
from stream_dp.study.periods import Periods
from stream_dp.study.study_text import toml_key, toml_value
from stream_dp.studyfile import parse_study

from .answers_form import NONE, Field, Form, whole_number
from .column_proposals import study_name
from .draft_columns import (
    Column,
    Layout,
    Sending,
    SourceTable,
    asked_columns,
    asked_layout,
    asked_periods,
    is_complete,
)
from .draft_picture import Fan, fan, queries, telling_query

SEPARATE, PRODUCT, HISTORIES = "separate", "product", "histories"
PRICE, AGAIN = "price", "price again"
_DRAWN = "Answer in the picture"
_EPSILON = "1"
_HIGH = 3  # eps above which the price is typed again
_MOST_PEOPLE = 10**9
_MOST_PATTERNS = 5_000  # whose errors are planned while somebody waits
_PEOPLE_A_PATTERN = 10  # at least, on average, unless somebody asks for longer patterns
_DIGITS = 3  # of rho
_MOST_SHOWN = 8  # values of a function


@dataclass(frozen=True)
class Draft:
    """A study in the making.

    fields: all questions with their answers.
    columns: the published columns.
    notes: by field, sentences about what its choices cost.
    study: None while an answer is missing or refused.
    form: the format of the file.
    options: of `stream-dp send` for the table.
    fan: the errors of an answer at three budgets; None if they cannot be planned.
    faults: of the study as a whole.
    comments: lines for the end of the study file, each a comment.
    """

    fields: tuple[Field, ...]
    columns: tuple[Column, ...]
    notes: Mapping[str, Sequence[str]]
    study: Study | None
    form: FileForm
    options: tuple[str, ...]
    fan: Fan | None
    faults: tuple[str, ...]
    comments: tuple[str, ...] = ()

    @property
    def pending(self) -> Field | None:
        """The first field that needs an answer."""
        return next((field for field in self.fields if field.is_open), None)


@dataclass(frozen=True)
class _People:
    """Who is protected, and how many there are. size: public, or a bound if `private`."""

    unit: str
    size: int
    private: bool

    @property
    def delta(self) -> str:
        return f"1e-{max(6, len(str(self.size)) + 1)}"


@dataclass(frozen=True)
class _Declared:
    """The declarations of a draft but for the link between columns.

    derived: by column, the declaration of the public function that it is.
    """

    name: str
    description: str
    people: _People
    periods: Periods
    columns: tuple[Column, ...]
    width: int
    rho: Fraction
    derived: Mapping[str, Json] = field(default_factory=dict)

    def study(self, link: str) -> Study:
        """The study with its columns linked in one of three ways. Raises UserError."""
        people, periods = self.people, self.periods
        releases = self._releases(link)
        share = str(Fraction(1, len(releases)))
        relation = "add_remove" if people.private else "replace_one"
        return parse_study(
            {
                "study": {
                    "name": self.name,
                    "description": self.description,
                    "unit": people.unit,
                    "neighbours": relation,
                    "rho": str(self.rho),
                    "delta": people.delta,
                    "periods": {
                        **{"every": periods.every, "first": periods.first},
                        **{"count": periods.count, "close": "marker"},
                    },
                    "population": {} if people.private else {"size": people.size},
                },
                "attributes": {column.name: column.declaration() for column in self.columns},
                "releases": [{**release, "share": share} for release in releases],
            }
        )

    def _releases(self, link: str) -> list[Json]:
        """The declared releases, for columns linked by HISTORIES, PRODUCT or SEPARATE."""
        rows = {"rows": self.people.size} if self.people.private else {}
        names = [column.name for column in self.columns]
        if link == HISTORIES:
            past = [{"of": n, "last": self.width} if self.width > 1 else n for n in names]
            table = {"name": "people", "kind": "table", **self._whole_histories()}
            functions = {"derived": self.derived} if self.derived else {}
            return [{**table, "attributes": past, **functions}]
        window = {"kind": "window", "width": self.width, **rows}
        if link == PRODUCT:
            releases: list[Json] = [{"name": "patterns", "attribute": names, **window}]
        else:
            releases = [{"name": f"{n}-patterns", "attribute": n, **window} for n in names]
        for column in self.columns:
            if column.event != NONE:
                totals = {"name": f"{column.name}-totals", "kind": "cumulative"}
                event = {"attribute": column.name, "event": [column.interest]}
                releases.append({**totals, **event, **rows})
        return releases

    def _whole_histories(self) -> Json:
        """When tables of histories come, one after the other, so that the last has the last period.

        Periods that are left over are the first ones.
        """
        left = self.periods.count % self.width
        if not left:
            return {"every": self.width}
        return {"at": list(self.periods.labels[left + self.width - 1 :: self.width])}


def drafted(source: Callable[[Form], SourceTable], answers: Mapping[str, str]) -> Draft:
    """The draft that follows from answers.

    source: asks for the format of the file, and reads its header. Raises UserError.
    """
    form, sending = Form(answers), Sending()
    table = source(form)
    notes: dict[str, Sequence[str]] = {}
    question = "Name of the study"
    name = form.ask("name", question, study_name, "study", proposal=_file_name(table.file))
    layout, warnings = asked_layout(form, table, sending)
    notes |= warnings
    periods = asked_periods(form, table, layout, sending)
    people = _people(form)
    complete = not people.private and is_complete(form, table, layout, people.unit)
    columns = asked_columns(form, table, layout, sending, complete=complete)
    link = _link(form, layout, columns)
    top = min(periods.count, 12)
    symbols = [column.symbols for column in columns]
    most = math.prod(symbols) if link == PRODUCT else max(symbols)
    patterns = min(_MOST_PATTERNS, people.size // _PEOPLE_A_PATTERN)
    fitting = [k for k in (1, 2, 3) if k <= top and most**k <= patterns]
    width = form.ask(
        "width",
        "Periods of a pattern, or of a history",
        lambda answer: whole_number(answer, 1, top),
        1,
        proposal=str(min(3, top) if link == HISTORIES else max(fitting, default=1)),
    )
    columns = [_figured(form, column, counted=link != HISTORIES) for column in columns]
    functions = [*_likely_functions(columns)] if link == HISTORIES else []
    derived = _derived(form, columns, functions, notes)
    rho = _price(form, Fraction(people.delta))
    declared = _Declared(
        name, table.description, people, periods, tuple(columns), width, rho, derived
    )
    study, drawn, faults = None, None, tuple[str, ...]()
    try:
        study = declared.study(link)
        form.forget("picture", queries(study))
        query = form.choose("picture", _DRAWN, queries(study), telling_query(study))
        drawn = fan(study, query, people.size)
    except UserError as error:
        faults = tuple(error.lines)
    if len(columns) > 1 and not layout.is_flat:
        notes["link"] = _costs(declared)
    settled = not any(field.is_open for field in form.fields)
    return Draft(
        tuple(form.fields),
        tuple(columns),
        notes,
        study if settled and not faults else None,
        table.form,
        sending.words,
        drawn,
        faults if settled else (),
        (
            *(_rule_comments(columns, study) if study and link == HISTORIES else ()),
            *(line for function in functions for line in _comments(function)),
        ),
    )


def _people(form: Form) -> _People:
    """Asks for the protected unit and the number of people."""
    unit = form.ask("unit", "Who is protected, one ...", study_name, "person", proposal="person")

    def read(answer: str) -> _People:
        bound = re.sub(r"^(at most|<=?|max\.?)\s*", "", answer.casefold())
        size = whole_number(bound, 1, _MOST_PEOPLE)
        return _People(unit, size, private=bound != answer.casefold())

    question = f"Number of {unit}s, such as 5000; 'at most 5000' if the number is not public"
    return form.ask("people", question, read, _People(unit, 1000, private=False))


def _link(form: Form, layout: Layout, columns: Sequence[Column]) -> str:
    """Asks how columns are linked. Only a table of people has columns with many numbers."""
    if any(column.is_number for column in columns):
        return HISTORIES
    if len(columns) == 1:
        return SEPARATE
    if layout.is_flat:
        return HISTORIES
    question = (
        f"How are the {len(columns)} columns linked: {SEPARATE} (a panel each, and no answer about"
        f" two columns), {PRODUCT} (one panel), {HISTORIES} (a table of people)"
    )
    choices = (SEPARATE, PRODUCT, HISTORIES)
    return form.choose("link", question, choices, SEPARATE, confirmed=True)


def _figured(form: Form, column: Column, *, counted: bool) -> Column:
    """A column with the value shown in figures."""
    if counted:
        question = f"Value of '{column.column}' to count over all periods so far; {NONE} for none"
        event = form.choose(f"{column.column}: count", question, [*column.texts, NONE], NONE)
        column = replace(column, event=event)
    of_codes = not {*column.texts} <= {*column.labels.values()}
    known = column.labels.get(str(column.interest), NONE)[:60] if of_codes else NONE
    question = f"'{column.column}={column.interest}' in words, for titles; {NONE} for none"
    label = form.ask(f"{column.column}: title", question, _title, NONE, proposal=known or NONE)
    return replace(column, label=label)


def _likely_functions(columns: Sequence[Column]) -> Iterator[LikelyFunction]:
    """The columns that look like public functions of others, by names, values and labels alone."""
    listed = {column.name: column for column in columns if not column.is_number}
    texts = {
        name: [*column.texts, *([ABSENT] if column.missing == ABSENT else [])]
        for name, column in listed.items()
    }
    for function in likely_functions(texts):
        if function.values is not None:
            yield function
            continue
        fine, coarse = (
            _by_code(listed[name], texts[name]) for name in (function.fine, function.coarse)
        )
        values = function_of([*coarse], [*fine])
        if values is not None:
            values = {fine[code]: coarse[of] for code, of in values.items()}
        yield function._replace(values=values)


def _by_code(column: Column, texts: Sequence[str]) -> dict[str, str]:
    """The values of a column by their code in the file; a value that is no label is its own."""
    codes = {label: code for code, label in column.labels.items()}
    return {codes.get(text, text): text for text in texts}


def _derived(
    form: Form,
    columns: Sequence[Column],
    functions: Sequence[LikelyFunction],
    notes: dict[str, Sequence[str]],
) -> dict[str, Json]:
    """Asks which of the likely functions with values are public; returns their declarations."""
    column_names = {column.name: column.column for column in columns}
    derived: dict[str, Json] = {}
    for fine, coarse, values in functions:
        if values is None or coarse in derived:
            continue
        key = f"function {coarse} of {fine}"
        result, argument = column_names[coarse], column_names[fine]
        shown = [f"{value} = {of}" for value, of in values.items() if value != ABSENT]
        more = len(shown) - _MOST_SHOWN
        notes[key] = [
            f"'{result}' may follow from '{argument}':"
            f" {', '.join(shown[:_MOST_SHOWN])}{f' and {more} more' * (more > 0)}",
            "the proposal comes from names, declared values and labels, never from people's rows",
        ]
        question = (
            f"Does a public definition say '{result}' of each '{argument}', without exceptions?"
            " Then no synthetic person contradicts it"
        )
        if form.choose(key, question, ("yes", "no"), "no", confirmed=True) == "yes":
            derived[coarse] = {"of": fine, "values": values}
    return derived


def _rule_comments(columns: Sequence[Column], study: Study) -> list[str]:
    """The key `rules` with orders of numbers that names or labels suggest, for the table's keys."""
    texts = {column.name: column.title or column.column for column in columns}
    rules = [*likely_orders(texts, study.attributes)]
    if not rules:
        return []
    return [
        "Names or labels alone suggest that these numbers are in order. Nobody looked at the data.",
        "A rule must be public knowledge: true of everybody, whatever this file says. Leave out",
        "all others, and remove the signs # of the rest.",
        "rules = [",
        *(f"    {toml_value(rule)}," for rule in rules),
        "]",
    ]


def _comments(function: LikelyFunction) -> list[str]:
    """The declaration of a function whose values are not known, to be completed by hand."""
    fine, coarse, values = function
    if values is not None:
        return []
    return [
        f"'{coarse}' looks like a public function of '{fine}', by its name alone. If a public",
        f"definition says '{coarse}' of each '{fine}', give an entry for each value, and remove"
        " the signs #.",
        f"[releases.derived.{toml_key(coarse)}]",
        f"of = {toml_value(fine)}",
        f'values = {{ "VALUE OF {fine}" = "VALUE OF {coarse}" }}',
    ]


def _title(answer: str) -> str:
    if len(answer) > 60:
        raise UserError("write at most 60 characters")
    return answer


def _price(form: Form, delta: Fraction) -> Fraction:
    """Asks for the price as eps; returns rho, rounded down to a short number."""

    def read(answer: str) -> Fraction:
        text = re.sub(r"^eps(ilon)?\s*=?\s*", "", answer.casefold())
        try:
            wanted = exact_rho("eps", text)
        except UserError:
            raise UserError("write a number such as 0.5 or 1") from None
        return _rounded_down(rho_within(wanted, delta))

    question = "Price of all releases together, eps"
    least = _rounded_down(rho_within(Fraction(_EPSILON), delta))
    rho = form.ask(PRICE, question, read, least, proposal=_EPSILON, confirmed=True)
    typed = form.fields[-1].answer
    if epsilon(rho, delta) > _HIGH:

        def same(answer: str) -> str:
            if answer != typed:
                raise UserError(f"type {typed} again, or change the price")
            return answer

        question = f"eps {typed} is above {_HIGH}, which is weak protection; type {typed} again"
        form.ask(AGAIN, question, same, "")
    return rho


def _rounded_down(rho: Fraction) -> Fraction:
    unit = Fraction(10) ** (Decimal(float(rho)).adjusted() - (_DIGITS - 1))
    return max(unit, math.floor(rho / unit) * unit)


def _costs(declared: _Declared) -> list[str]:
    """The cost of every link between columns, a line per link."""
    count = len(declared.columns)
    lines = []
    for link, about in (
        (SEPARATE, f"{count} panels that are not linked, each with 1/{count} of the price"),
        (PRODUCT, "one panel of all combinations of values"),
        (HISTORIES, f"a table of people every {declared.width} periods, with their last answers"),
    ):
        lines.append(f"{link}: {about}; {_half_width(declared, link)}")
    return lines


def _half_width(declared: _Declared, link: str) -> str:
    """The error of one share under a link, in words."""
    symbols = math.prod(column.symbols for column in declared.columns)
    if link == PRODUCT and symbols > MOST_SYMBOLS:
        return f"not possible: {symbols:,} combinations, at most {MOST_SYMBOLS}"
    if link == PRODUCT and symbols**declared.width > _MOST_PATTERNS:
        return f"{symbols**declared.width:,} patterns: 'stream-dp plan' says how precise"
    try:
        study = declared.study(link)
        query = telling_query(study)
        if link == PRODUCT:  # of the first column alone, as with the other links
            column = declared.columns[0]
            value = shlex.quote(f"{column.name}={column.interest}")
            query = f"patterns: at-least 1 of last {declared.width} {value}"
        budget = fan(study, query, declared.people.size)
    except UserError as error:
        return f"not possible: {error.lines[0]}"
    return f"a share is within {budget.budgets[1].points} percentage points"


def _file_name(file: Path) -> str:
    """A name of a study after a file, packed or not."""
    return study_name(Path(file.stem).stem if file.suffix.lower() in PACKED else file.stem)
