"""The questions of a draft about a table's columns, and what `send` must be told about them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from stream_dp.errors import UserError
from stream_dp.json_object import Json
from stream_dp.population.tables import FileForm
from stream_dp.population.tables.column_layout import EACH_ROW
from stream_dp.population.tables.value_texts import Coding
from stream_dp.study.attribute import MOST_SYMBOLS
from stream_dp.study.field_types import ABSENT
from stream_dp.study.number_texts import plain_decimal
from stream_dp.study.period_texts import named_period
from stream_dp.study.periods import Periods

from .answers_form import NONE, ONE, Form, joined, listed, whole_number
from .column_proposals import (
    MOST_VALUES,
    NO_REPEATED_IDS,
    PAIR,
    RepeatedIds,
    TableHeader,
    attribute_names,
    known_coding,
    labelled_example,
    study_name,
    value_to_show,
)
from .declared_columns import MOST_LISTED, DeclaredColumn

LAST = "last answer"  # the missing rule that repeats it
_MOST_PERIODS, _MOST_PROPOSED, _MOST_RANGE = 600, 8, 10**7
_MOST_LISTED = 100  # numbers of a range beside words
_MOST_NAMED = 4  # columns in a question
_EXAMPLE = "2026-01, 12"
Values = tuple[Sequence[int | str], tuple[int, ...]]  # of a column, and the codes beside a range
_STAND_IN: Values = (("no", "yes"), ())  # while none are declared
_ONCE = (
    f"with {EACH_ROW} each row is a person of its own: the guarantee does not cover a person who"
    " has several rows, or rows in several files"
)
_DECIMAL = r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?"
_FRACTIONS = re.compile(rf"({_DECIMAL}) *(?:\.\.+|to) *({_DECIMAL})(?: +by +({_DECIMAL}))?")
_RANGE = re.compile(r"(-?[0-9]+) *(?:\.\.+|to) *(-?[0-9]+)")


@dataclass(frozen=True)
class SourceTable:
    """What is known about a table before its cells are sent.

    values: by column, the proposed values.
    labels: by column, the labels of the file by code.
    titles: by column, its label in the file.
    sources: by column, the hash of the public table that its proposed values are from.
    is_complete: whether every person has an answer in every period of the table. Its arguments
        are the columns of ids, of the period or an empty text, and of answers.
    repeated: counts the ids that repeat, see `repeated_ids`.
    """

    file: Path
    form: FileForm
    header: TableHeader
    values: Mapping[str, list[str]] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    description: str = ""
    is_complete: Callable[[tuple[str, ...], str, tuple[str, ...]], bool] = lambda *_: False
    repeated: Callable[[str, str | None, Sequence[str]], RepeatedIds] = lambda *_: NO_REPEATED_IDS


@dataclass
class Sending:
    """What `send` must be told: options, names of columns, and the codings of attributes."""

    options: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    codings: dict[Coding, list[str]] = field(default_factory=dict)

    @property
    def words(self) -> tuple[str, ...]:
        """All options."""
        pairs = ",".join(f"{column}={name}" for column, name in self.columns.items())
        codings = (
            w for coding, names in self.codings.items() for w in (f"--{coding}", ",".join(names))
        )
        return (*self.options, *(("--columns", pairs) if pairs else ()), *codings)


@dataclass(frozen=True)
class Layout:
    """The roles of a table's columns.

    ids: the columns of ids; empty if each row is a person of its own.
    period: the column of periods; empty if all rows are of one, and in a wide table.
    pattern: of the columns of a wide table; empty for any other.
    attributes: by column, or pattern, the name of its attribute.
    """

    ids: tuple[str, ...]
    period: str
    pattern: str
    attributes: dict[str, str]

    @property
    def is_flat(self) -> bool:
        """Whether there is a row per person, and no period."""
        return not (self.period or self.pattern)


@dataclass(frozen=True)
class Column:
    """A published column.

    values: its answers, or a range of numbers.
    missing: LAST or a symbol.
    special: the codes beside a range.
    """

    column: str
    name: str
    title: str
    labels: Mapping[str, str]
    values: Sequence[int | str]
    missing: str
    source: str | None
    event: str = NONE
    label: str = NONE
    special: tuple[int, ...] = ()

    @property
    def listed(self) -> list[int | str]:
        """All values, with the special codes first."""
        return [*self.special, *self.values]

    @property
    def texts(self) -> list[str]:
        """The values that an answer can name."""
        return [] if self.is_number else [str(value) for value in self.listed]

    @property
    def symbols(self) -> int:
        """The number of values, with the symbol of an absent answer."""
        return len(self.special) + len(self.values) + (self.missing == ABSENT)

    @property
    def codes(self) -> str:
        """The meaning of codes in the file."""
        shown = [f"{code} = {label}" for code, label in self.labels.items()]
        return ", ".join(shown[:6]) + f" and {len(shown) - 6} more" * (len(shown) > 6)

    @property
    def is_number(self) -> bool:
        """Whether the values are too many to be counted one by one."""
        count = len(self.special) + len(self.values)
        return isinstance(self.values, range) and count > MOST_LISTED

    @property
    def base(self) -> str:
        """Whose shares figures show."""
        return "who answered, or all" if self.missing == ABSENT else "all"

    @property
    def interest(self) -> int | str:
        """The value that figures show: the counted one, or the proposed one."""
        if self.event != NONE:
            return self.listed[self.texts.index(self.event)]
        return value_to_show(self.values, self.labels)

    def declaration(self) -> Json:
        """The attribute in a study file."""
        first = self.values[0]
        missing: object = {"carry": True, "first": first}
        if self.missing != LAST:
            listed = self.missing in self.texts
            missing = self.listed[self.texts.index(self.missing)] if listed else ABSENT
        if self.is_number:
            given = [*self.special, self.values]
            return DeclaredColumn.of(self.name, given).declaration(missing)
        declared: Json = {"values": self.listed}
        if self.source:
            declared["values_from"] = self.source
        # Without `interest` a label of more than two values is the attribute's.
        if (self.label != NONE and len(self.listed) != 2) or self.interest != self.listed[-1]:
            declared["interest"] = self.interest
        if self.label != NONE:
            declared["label"] = self.label
        return {**declared, "missing": missing}


def asked_layout(
    form: Form, table: SourceTable, sending: Sending
) -> tuple[Layout, dict[str, Sequence[str]]]:
    """Asks for the roles of columns. Returns warnings by field, too."""
    notes: dict[str, Sequence[str]] = {}
    header = table.header
    unknown: tuple[str, ...] = (EACH_ROW,)
    ids = form.ask(
        "person",
        f"Column that identifies a person, such as {_some(header.names)}; two with {PAIR} between"
        f" them for a household and its member; {EACH_ROW} if each row is a person of its own",
        lambda answer: _identifying(answer, header.names),
        unknown,
        proposal=header.person,
    )
    if ids == (EACH_ROW,):
        notes["person"] = [_ONCE]
    names = [name for name in header.names if name not in ids]
    found = header.period or (NONE if header.wide else "")
    period = form.choose(
        "period",
        f"Column of the period; {NONE} if each period has a column, {ONE} if all rows are of one",
        [*names, NONE, ONE],
        found or ONE,
        confirmed=not found,
    )
    if len(ids) == 1 and ids != (EACH_ROW,):
        ids = _told_apart(form, table, sending, ids[0], period)
        names = [name for name in names if name not in ids]
    if len(ids) == 2:
        sending.options += ["--group", ids[0], "--member", ids[1]]
    elif ids != ("person",):
        sending.options += ["--person", *ids]
    if period == NONE:
        pattern = form.ask(
            "pattern",
            "Pattern of the periods' columns, {} for what differs",
            lambda answer: _pattern(answer, header),
            header.wide or "{}",
            proposal=header.wide,
        )
        proposal = study_name(pattern.replace("{}", "")) or "value"
        question = "Name of what these columns hold"
        attribute = form.ask("attribute", question, study_name, proposal, proposal=proposal)
        sending.options += ["--attribute", attribute]
        return Layout(ids, "", pattern, {pattern: attribute}), notes
    if period not in ("period", ONE):
        sending.options += ["--period", period]
    rest = [name for name in names if name and name != period]
    answers = header.answers(rest) or rest
    published = form.ask(
        "columns",
        "Columns to publish, with commas between them",
        lambda answer: _among(listed(answer), rest),
        answers[:_MOST_PROPOSED],
        proposal=joined(answers) if len(answers) <= _MOST_PROPOSED else "",
    )
    attributes = attribute_names(published)
    sending.columns |= {column: name for column, name in attributes.items() if column != name}
    return Layout(ids, "" if period == ONE else period, "", attributes), notes


def _some(names: Sequence[str]) -> str:
    """The first names."""
    return " or ".join(repr(name) for name in names[:_MOST_NAMED])


def _told_apart(
    form: Form, table: SourceTable, sending: Sending, person: str, period: str
) -> tuple[str, ...]:
    """Asks for the columns of ids again if ids repeat and a second column tells them apart.

    No answer is proposed: one person's rows can raise the question, and never answer it.
    """
    within = None if period in (NONE, ONE) else period
    others = [name for name in table.header.names if name not in (person, period)]
    found = table.repeated(person, within, others)
    if not found.beside:
        return (person,)
    pair = f"{found.beside}{PAIR}{person}"
    same = f"'{person}'" if within is None else f"'{person}' and '{period}'"
    again = "; if it is the column of the period, name it there" * (period == ONE)
    chosen = form.choose(
        "repeated",
        f"{found.rows} rows repeat an earlier {same}, and none does with '{found.beside}' beside"
        f" it: write {pair} if ids are numbers within '{found.beside}', {person} if the last row of"
        f" a person counts{again}",
        (pair, person),
        "",
    )
    if chosen == person:
        sending.columns["{}"] = ""
        return (person,)
    return (found.beside, person)


def _identifying(answer: str, names: Sequence[str]) -> tuple[str, ...]:
    """The column of ids, or the columns of groups' keys and members' numbers."""
    pair = tuple(part.strip() for part in answer.split(PAIR))
    if answer not in names and len(pair) == 2 and {*pair} <= {*names}:
        return pair
    if answer not in names and answer != EACH_ROW:
        raise UserError(
            f"write one of {', '.join(names)}, two with {PAIR} between them, or {EACH_ROW} if no"
            " column identifies persons"
        )
    return (answer,)


def _pattern(answer: str, header: TableHeader) -> str:
    if answer.count("{}") != 1 or not header.matching(answer):
        raise UserError("write a pattern with one {} that fits columns of the table, such as m{}")
    return answer


def _among(names: list[str], columns: list[str]) -> list[str]:
    for name in names:
        if name not in columns:
            raise UserError(f"there is no column '{name}'; there are {', '.join(columns)}")
    return names


def asked_periods(form: Form, table: SourceTable, layout: Layout, sending: Sending) -> Periods:
    """Asks for the first period and their number."""
    columns: dict[str, str] = {}
    options: list[str] = []

    def read(answer: str) -> Periods:
        periods, texts = horizon(answer)
        if layout.pattern:
            columns.update(table.header.period_columns(layout.pattern, periods))
        if texts:
            options[:] = ["--map", _meanings(texts, periods)]
        return periods

    proposal = "1, 1" if layout.is_flat else ""
    if layout.pattern:
        proposal = table.header.horizon(layout.pattern)
    periods = form.ask(
        "periods",
        f"First period and how many, such as {_EXAMPLE}; of waves their texts, such as 0,6,12",
        read,
        Periods(every="step", first="1", count=12),
        proposal=proposal,
    )
    sending.columns |= columns
    sending.options += options
    if layout.is_flat:
        sending.options += ["--period", periods.labels[0]]
    return periods


def horizon(answer: str) -> tuple[Periods, list[str]]:
    """The periods of an answer, and the texts of steps if these are listed. Raises UserError."""
    fault = UserError(f"write the first period and how many, such as {_EXAMPLE}")
    if ends := re.fullmatch(r"(.+?) *(?:\.\.+| to ) *(.+)", answer):
        first, last = named_period(ends[1]), named_period(ends[2])
        if first is None or last is None or first[0] != last[0]:
            raise fault
        labels = Periods(every=first[0], first=first[1], count=_MOST_PERIODS).labels
        if last[1] not in labels:
            raise UserError(f"the last period is before the first, or over {_MOST_PERIODS} later")
        return Periods(every=first[0], first=first[1], count=labels.index(last[1]) + 1), []
    parts = [p.strip() for p in answer.split(",")] if "," in answer else answer.rsplit(" ", 1)
    if len(parts) > 2:
        return Periods(every="step", first="1", count=len(listed(answer))), parts
    named = named_period(parts[0])
    if named is None or len(parts) < 2:
        raise fault
    count = whole_number(parts[1], 1, _MOST_PERIODS)
    return Periods(every=named[0], first=named[1], count=count), []


def _meanings(texts: Sequence[str], periods: Periods) -> str:
    """The `--map` of `send` for the texts of all periods, in order. Raises UserError."""
    if fault := next((text for text in texts if set(text) & set('=:{}"')), ""):
        raise UserError(f"'{fault}' cannot be a text of a period; write, for example, 0,6,12")
    pairs = zip(texts, periods.labels, strict=True)
    return "period:" + ",".join(f"{text}={label}" for text, label in pairs)


def is_complete(form: Form, table: SourceTable, layout: Layout, unit: str) -> bool:
    """Asks for the public statement that every person answers in every period."""
    ids = tuple(name for name in layout.ids if name != EACH_ROW)
    columns = tuple(layout.attributes)
    if layout.pattern:
        columns = tuple(table.header.matching(layout.pattern))
    looks = table.is_complete(ids, layout.period, columns)
    question = (
        f"Shall the study say that every {unit} answers in every period? Then nothing is paid for"
        " absence, and an answer that is absent later repeats the last one"
    )
    proposal = "yes" if looks else "no"
    return form.choose("complete", question, ("yes", "no"), proposal, confirmed=looks) == "yes"


def asked_columns(
    form: Form, table: SourceTable, layout: Layout, sending: Sending, *, complete: bool
) -> list[Column]:
    """Asks about each published column."""
    columns, alone = [], layout.is_flat and len(layout.attributes) == 1

    def read(answer: str) -> Values:
        values, special = _values(answer)
        if alone and len(values) + len(special) > MOST_LISTED:
            raise UserError(
                f"a column alone has at most {MOST_LISTED} values; write fewer, or publish a second"
                " column, such as with columns = A,B"
            )
        return values, special

    for name_of_column, name in layout.attributes.items():
        proposed = table.header.of_column(table.values, name_of_column) or []
        named = table.header.of_column(table.labels, name_of_column) or {}
        example = "yes,no or 0 to 10" if proposed or not named else labelled_example(named)
        values, special = form.ask(
            f"{name_of_column}: values",
            f"Values of '{name_of_column}', such as {example}",
            read,
            _STAND_IN,
            proposal=joined(proposed) if len(proposed) <= MOST_VALUES else "",
        )
        few = len(values) + len(special) <= MOST_SYMBOLS
        texts = [str(value) for value in (*special, *values)] if few else []
        if coding := known_coding(named, proposed, texts):
            sending.codings.setdefault(coding, []).append(name)
        question, choices = f"An empty answer to '{name_of_column}' means", [*texts, ABSENT, LAST]
        proposal = LAST if complete else ABSENT
        missing = form.choose(f"{name_of_column}: empty", question, choices, proposal)
        columns.append(
            Column(
                name_of_column,
                name,
                table.header.of_column(table.titles, name_of_column) or "",
                named,
                values,
                missing,
                table.sources.get(name_of_column) if {*texts} <= {*proposed} else None,
                special=special,
            )
        )
    return columns


def _values(answer: str) -> Values:
    """The values in an answer, and the codes beside a range. Raises UserError.

    A range is its numbers if it stands alone, or as the only range beside whole numbers, the codes,
    or beside words. Beside another range or a text with digits, such as '21+', a range is a text as
    written: '1 to 5'.
    """
    parts = listed(answer)
    ranges = [part for part in parts if _FRACTIONS.fullmatch(part)]
    beside = [_value(part) for part in parts if part not in ranges]
    codes = tuple(value for value in beside if isinstance(value, int))
    values: Sequence[int | str] = [_value(part) for part in parts]
    if len(ranges) == 1 and len(codes) == len(beside):
        values = _numbers(ranges[0])
        if {*codes} & {*values}:
            raise UserError("write each value once: a code is in the range")
        if isinstance(values, range):
            return values, codes
        values = [*codes, *values]
    elif len(ranges) == 1 and not any(re.search("[0-9]", str(value)) for value in beside):
        numbers = _numbers(ranges[0])
        if len(numbers) > _MOST_LISTED:
            raise UserError(f"beside words a range has at most {_MOST_LISTED} numbers")
        at = parts.index(ranges[0])
        values = [*parts[:at], *numbers, *parts[at + 1 :]]
    if len(values) == 1 and (ends := re.fullmatch(rf"({_DECIMAL}) *[-–—:] *({_DECIMAL})", answer)):
        raise UserError(f"for all numbers of a range write '{ends[1]} to {ends[2]}'")
    if len(values) < 2:
        raise UserError("write at least two values, such as yes,no or 0 to 10")
    return (values if all(type(v) is int for v in values) else [*map(str, values)]), ()


def _value(text: str) -> int | str:
    """A value: a whole number, or any other text."""
    return int(text) if re.fullmatch("0|-?[1-9][0-9]{0,17}", text) else text


def _numbers(text: str) -> Sequence[int | str]:
    """The numbers of a range. Raises UserError."""
    if (ends := _RANGE.fullmatch(text)) is None:
        steps = _FRACTIONS.fullmatch(text)
        assert steps is not None
        return _steps(*(steps[i] for i in (1, 2, 3)))
    low, high = int(ends[1]), int(ends[2])
    if not 0 < high - low < _MOST_RANGE:
        raise UserError(f"a range goes up, by less than {_MOST_RANGE:,}")
    return range(low, high + 1)


def _steps(least: str, most: str, by: str | None) -> list[int | str]:
    """The numbers of a range in equal steps, by default of its last decimal. Raises UserError."""
    numbers = [Decimal(text) for text in (least, most, by) if text is not None]
    low, high, *given = numbers
    digits = max(-int(number.as_tuple().exponent) for number in numbers)
    step = given[0] if given else Decimal(1).scaleb(-digits)
    count, rest = divmod(high - low, step) if step else (Decimal(0), Decimal(1))
    if rest or not 0 < count < MOST_SYMBOLS:
        raise UserError(f"a range goes up in whole steps, by less than {MOST_SYMBOLS} of them")
    texts = [plain_decimal(low + step * i) for i in range(int(count) + 1)]
    return [int(text) if "." not in text else text for text in texts]
