"""The meaning of a table's columns: ids, periods and attributes, by name or pattern."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from stream_dp.errors import UserError, visible
from stream_dp.study import Study
from stream_dp.study.group_releases import slot_attribute
from stream_dp.study.id_forms import BLANKS
from stream_dp.study.number_texts import NumberTexts
from stream_dp.study.period_texts import PeriodTexts, period_advice

from ..arrow_tables import TableSource
from .column_order import ColumnOrder, named_columns
from .period_columns import PERIOD
from .table_files import FileForm
from .value_texts import Codings

EACH_ROW = "-"  # in place of a column of ids: each row is a person of its own
IN_ORDER = "..."  # in the target of a pattern: the study's periods, in order
_ANY = "{}"
_MOST_NAMES = 12  # in an error
_FIRST = "_1"  # at the end of the first slot of an attribute
_LEAST_WIDE = 3  # columns of one pattern that look like periods
_ALIKE = 0.7  # similarity, from 0 to 1, of a column's name and the name of an attribute


@dataclass(frozen=True)
class TableLayout:
    """The meaning of a table's columns.

    A long table has a column for each attribute, a wide table a column for each period.

    person: the column of ids; or `EACH_ROW`: the ids are the name of the file and the row's number.
    group: the column of groups' keys, where `member` is given.
    member: the column of members' numbers within their group; with it ids are GROUP/NUMBER, and
        `person` has no meaning.
    period: of a long table, the column of periods; or the period of all rows, where no column has
        this name.
    attribute: the attribute of all cells of a wide table; None for a long table.
    columns: the study's name by the file's name, if the two differ. `{}` in the file's name stands
        for any text, which `{}` in the study's name repeats; `...` instead of a period names the
        study's periods in order, and `2021-04...` the periods from 2021-04 on.
    values: by attribute, the declared value of a text in the file; an empty value makes an empty
        cell. Under `period`, the period of a text.
    dates: the format of dates, see `stream_dp.study.date_formats.date_reader`.
    zone: the time zone whose days count for times with a distance from UTC; by default that of the
        study's schedule.
    languages: of the names of months; English by default.
    numbers: how texts write whole numbers.
    id_width: ids of fewer digits get zeros in front.
    nobody: ids of no person, whose rows are left out.
    form: the format of the file.
    event: of a long table, the column with the number of a person's event in the period; the column
        `mode` of the row of event 3 has the attribute `mode_3`.
    codings: what the columns of attributes hold, codes or labels, where the file has both.
    """

    person: str = "person"
    period: str = "period"
    attribute: str | None = None
    columns: Mapping[str, str] | None = None
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    dates: str | None = None
    id_width: int | None = None
    nobody: tuple[str, ...] = ()
    form: FileForm = field(default_factory=FileForm)
    group: str = "group"
    member: str | None = None
    event: str | None = None
    codings: Codings = field(default_factory=Codings)
    zone: str | None = None
    languages: tuple[str, ...] = ()
    numbers: NumberTexts = field(default_factory=NumberTexts)

    @property
    def ids(self) -> tuple[str, ...]:
        """The column of ids, or the columns of groups' keys and members' numbers; none for
        `EACH_ROW`.
        """
        if self.member is None and self.person == EACH_ROW:
            return ()
        return (self.person,) if self.member is None else (self.group, self.member)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that every file must have, but for the period of all rows."""
        if self.attribute is not None:
            return self.ids
        return (*self.ids, self.period, *([] if self.event is None else [self.event]))


@dataclass(frozen=True)
class Header:
    """The meaning of a file's columns.

    sources: by column of the file, its period and attribute; the period is empty in a long table.
        A column of events has a source for each number of an event, see `slots`.
    left_out: columns that appear in no report.
    faults: left-out columns that look like a period or an attribute: a line each, with the remedy.
    period: of all rows of a long table without a column of periods; else empty.
    slots: by source of a column of events, the column of the file and the number of the event.
    """

    sources: Mapping[str, tuple[str, str]]
    left_out: tuple[str, ...]
    faults: tuple[str, ...]
    period: str = ""
    slots: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    def column(self, source: str) -> str:
        """The column of the file that a source is in."""
        return self.slots[source][0] if source in self.slots else source

    def attribute(self, source: str) -> str:
        """The attribute of a source; of a slot the name before the number of the event."""
        _, name = self.sources[source]
        if source in self.slots:
            return name.removesuffix(slot_attribute("", self.slots[source][1]))
        return name

    @property
    def most_events(self) -> int:
        """The largest number of an event, 0 without events."""
        return max((number for _, number in self.slots.values()), default=0)


def read_header(
    path: TableSource, names: Sequence[str], study: Study, layout: TableLayout, texts: PeriodTexts
) -> Header:
    """Reads the columns of a table. Raises UserError, with every fault."""
    renamed, problems = _renamed(path=path, names=names, study=study, layout=layout, texts=texts)
    option = "--person" if layout.member is None else "--group and --member"
    problems += [
        f"{path}: no column '{name}'; name the ids with {option}: there are {_several(names)}"
        + _alike(name, names, "--person" if layout.member is None else "")
        + "; if each row is a person of its own: --person -" * (layout.member is None)
        + _blanks(names)
        for name in layout.ids
        if name not in names
    ]
    all_rows, slots = "", dict[str, tuple[str, int]]()
    if layout.event is not None and not layout.ids:
        problems.append("--event: needs a column of ids; name it with --person")
    unknown = [name for name in layout.values if name not in (*study.attributes, PERIOD)]
    problems += [f"--map: attribute '{name}' is not declared" for name in unknown]
    if layout.attribute is not None:
        if layout.attribute not in study.attributes:
            declared = ", ".join(study.attributes)
            problems.append(f"attribute '{layout.attribute}': not declared; there are {declared}")
        if layout.event is not None:
            problems.append("--event: goes with a row for each event, not with --attribute")
        labels = {n: texts.label(meant) for n, meant in renamed.items() if n not in layout.ids}
        known_periods = study.periods.numbers
        sources = {n: (p, layout.attribute) for n, p in labels.items() if p in known_periods}
        hint = "a column for each period, or --columns NAME=PERIOD,..."
        if not sources and (
            named := named_columns(list(labels), study.periods, texts, layout.attribute)
        ):
            hint += f", or {' or '.join(named)}"
        elif not sources:
            advice = period_advice(study.periods, list(labels))
            hint += f", or {advice}" if advice.startswith("--dates") else ""
    else:
        if layout.period not in names:
            all_rows = texts.label(layout.period)
            if all_rows not in study.periods.numbers:
                problems.append(_without_period(path, names, study, layout, texts))
        sources = {n: ("", a) for n, a in renamed.items() if a in study.attributes}
        if layout.event is not None:
            slots = _slots(renamed, study, layout.event)
            problems += _event_faults(path, names, study, layout.event, slots)
            problems += [
                f"{path}: columns '{column}' and '{own}' both have {meant}; leave one out with"
                f" --columns '{own}='"
                for column, number in slots.values()
                for own, (_, meant) in sources.items()
                if meant == slot_attribute(renamed[column], number)
            ]
            sources |= {column: ("", "") for column, _ in slots.values()}
        hint = f"a column for an attribute ({', '.join(study.attributes)}), or --attribute (wide)"
    used = Counter(sources[n][0] if layout.attribute else renamed[n] for n in names if n in sources)
    used += Counter(n for n in names if n in set(layout.keys) - used.keys())
    problems += [f"{path}: '{n}' is there in {c} columns" for n, c in used.items() if c > 1]
    rest = {n: renamed[n] for n in names if n not in sources and n not in layout.keys}
    faults = (
        []
        if problems
        else _doubtful(
            path=path, rest=rest, study=study, layout=layout, texts=texts, sources=sources
        )
    )
    if not sources and not problems:
        problems = [f"{path}: nothing to send: give {hint}", *faults]
        if len(names) < _LEAST_WIDE or not all(names):
            problems.append(
                f"{path}: if the names of columns are in two rows, such as a year above its months,"
                " write them in one row, and name it: --header-row 1"
            )
    if problems:
        raise UserError(problems)
    sources = {name: source for name, source in sources.items() if source != ("", "")}
    sources |= {
        source: ("", slot_attribute(renamed[column], number))
        for source, (column, number) in slots.items()
    }
    return Header(sources, tuple(n for n in rest if n), tuple(faults), all_rows, slots)


def _slots(renamed: Mapping[str, str], study: Study, event: str) -> dict[str, tuple[str, int]]:
    """Finds the columns of events: by source, the column and the number of the event."""
    slots = {}
    for column, name in renamed.items():
        number = 1
        while name not in study.attributes and slot_attribute(name, number) in study.attributes:
            slots[f"{column}, {event} {number}"] = column, number
            number += 1
    return slots


def _event_faults(
    path: TableSource, names: Sequence[str], study: Study, event: str, slots: Collection[str]
) -> list[str]:
    """Describes why `--event` does not fit a table; empty if it does.

    names: the table's columns.
    event: the column that `--event` names, with the number of the event in each row.
    slots: what `_slots` found, the columns with the values of events.
    """
    if event not in names:
        return [f"{path}: no column '{event}'; name the numbers of events with --event"]
    if slots:
        return []
    columns = [name.removesuffix(_FIRST) for name in study.attributes if name.endswith(_FIRST)]
    if not columns:
        return ["--event: the study declares no attribute with slots; leave the option out"]
    return [f"{path}: no column of events ({', '.join(columns)}); leave --event out"]


def _alike(name: str, names: Sequence[str], option: str) -> str:
    """The option for a column whose name has other letters' size, blanks or quotes."""
    alike = [other for other in names if _plain(other) == _plain(name)]
    return f"; if it is '{alike[0]}': {option} {shlex.quote(alike[0])}" if alike and option else ""


def _blanks(names: Sequence[str]) -> str:
    """The option for a header whose only cell has blanks."""
    one = len(names) == 1 and len(names[0].split()) > 1
    return "; if blanks separate the cells: --separator space" if one else ""


def _plain(name: str) -> str:
    return name.strip(BLANKS + "'\"`").casefold()


def _without_period(
    path: TableSource, names: Sequence[str], study: Study, layout: TableLayout, texts: PeriodTexts
) -> str:
    """Describes a missing column of periods. A wide table is not told of a period of all rows."""
    line = f"{path}: no column '{layout.period}'; name it with --period"
    if alike := _alike(layout.period, names, "--period"):
        return line + alike
    if numbered_columns(names) or any(texts.is_period(name) for name in names):
        return f"{line}; if each period has a column: --attribute {next(iter(study.attributes))}"
    return f"{line}; if all rows are of one period: --period {study.periods.labels[0]}"


def numbered_columns(names: Sequence[str]) -> str:
    """Returns the pattern of most columns with a number at the end, as `m{}`; empty for few
    columns.
    """
    stems = Counter(re.sub(r"\d+$", "", name) for name in names if re.search(r"\d$", name))
    stem, count = next(iter(stems.most_common(1)), ("", 0))
    return f"{stem}{_ANY}" if count >= _LEAST_WIDE else ""


def _doubtful(
    path: TableSource,
    rest: Mapping[str, str],
    study: Study,
    layout: TableLayout,
    texts: PeriodTexts,
    sources: Mapping[str, tuple[str, str]],
) -> list[str]:
    """Describes left-out columns with names like a period or an attribute, a line a column."""
    if layout.attribute is not None:
        labels = study.periods.labels
        beyond = [name for name, meant in rest.items() if meant and texts.is_period(meant)]
        leave = ",".join(f"{name}=" for name in beyond[:_MOST_NAMES])
        return [
            f"{path}: {_several(beyond)}: no periods of the study, {labels[0]} to {labels[-1]};"
            f" to leave them out: --columns '{leave}'"
        ] * bool(beyond)
    absent = {a.casefold(): a for a in study.attributes if ("", a) not in sources.values()}
    lines = []
    for name, meant in rest.items():
        for folded in get_close_matches(meant.strip().casefold(), absent, 1, _ALIKE):
            lines.append(
                f"{path}: column '{name}' is not declared; if it is {absent[folded]}:"
                f" --columns '{name}={absent[folded]}'; to leave it out: --columns '{name}='"
            )
    return lines


def _renamed(
    path: TableSource, names: Sequence[str], study: Study, layout: TableLayout, texts: PeriodTexts
) -> tuple[dict[str, str], list[str]]:
    """Maps columns to the study's names. Returns the names and the faults of the renaming.

    A pattern applies to columns without a name of the study and without a renaming of their own.
    A name with a line break is named as it is, or as a message shows it.
    """
    as_shown, problems = (
        {visible(name): name for name in names} | {name: name for name in names},
        [],
    )
    columns = {as_shown.get(name, name): meant for name, meant in (layout.columns or {}).items()}
    order = ColumnOrder(study.periods, texts, layout.languages)
    renamed = {name: columns.get(name, name) for name in names}
    study_names = study.attributes if layout.attribute is None else study.periods.numbers
    named = {n for n in names if (n if layout.attribute is None else texts.label(n)) in study_names}
    free = [n for n in names if n not in named.union(columns, layout.keys)]
    for source, meant in columns.items():
        if source in names:
            continue
        placeholders = _matches(source, free)
        if not placeholders:
            problems.append(f"{path}: no column '{source}' to rename")
        elif meant.endswith(IN_ORDER):
            try:
                renamed |= order.assign(source, placeholders, meant.removesuffix(IN_ORDER))
            except UserError as error:
                problems += [f"{path}: --columns '{source}={meant}': {x}" for x in error.lines]
        else:
            renamed |= {name: meant.replace(_ANY, text) for name, text in placeholders.items()}
    return renamed, problems


def _matches(pattern: str, names: Sequence[str]) -> dict[str, str]:
    """Finds the columns that fit the pattern. Returns their text in the place of `{}`."""
    prefix, any_text, suffix = pattern.partition(_ANY)
    if not any_text:
        return {}
    fits = re.compile(re.escape(prefix) + "(.*)" + re.escape(suffix), re.DOTALL).fullmatch
    return {name: match[1] for name in names if (match := fits(name))}


def _several(names: Sequence[str]) -> str:
    """Lists the first of the names."""
    return ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
