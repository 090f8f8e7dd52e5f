"""Options that several commands have, also those with facts that a reader kept elsewhere."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stream_dp.errors import UserError

if TYPE_CHECKING:
    from stream_dp.population.tables import FileForm, TableLayout
    from stream_dp.population.tables.value_texts import Codings
    from stream_dp.study import Study
    from stream_dp.study.number_texts import NumberTexts

    from .group_files import RosterTables


def pin_options(parser: argparse.ArgumentParser) -> None:
    """Adds what a reader of a public log may have kept elsewhere."""
    help_text = "the public key that message 0 must name, kept elsewhere: ed25519:..."
    parser.add_argument("--key", metavar="KEY", help=help_text)
    head_option(parser, "the hash of a message that the log must have, kept elsewhere")


def head_option(parser: argparse.ArgumentParser, help_text: str) -> None:
    """Adds a hash that was kept elsewhere."""
    parser.add_argument("--head", type=_hash, metavar="HASH", help=help_text)


def _hash(text: str) -> str:
    """A hash as messages have it. Raises ArgumentTypeError."""
    from stream_dp.release.signatures import is_hash  # a help does not wait for it

    if not is_hash(text.lower()):
        raise argparse.ArgumentTypeError("write the 64 hexadecimal digits of a hash")
    return text.lower()


def statement_option(parser: argparse.ArgumentParser) -> None:
    """Adds the signed statements of audits."""
    help_text = "a signed statement of an audit, whose signature is checked; may be repeated"
    parser.add_argument(
        "--statement", type=Path, action="append", default=[], metavar="FILE", help=help_text
    )


def study_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, metavar="STUDY.toml")


def public_source(parser: argparse.ArgumentParser) -> None:
    """Adds the argument `source` of `deployment.open_public`, and its pins."""
    help_text = "a study file, or a public log such as sqlite:FILE"
    parser.add_argument("source", metavar="STUDY|PUBLIC", help=help_text)
    pin_options(parser)


def group_columns(parser: argparse._ActionsContainer) -> None:
    """Adds the columns of groups' keys and of members' numbers."""
    parser.add_argument("--group", default="group", metavar="COL", help="column of groups' keys")
    help_text = "column of numbers within a group: ids are GROUP/NUMBER"
    parser.add_argument("--member", metavar="COL", help=help_text)


def member_group_column(parser: argparse._ActionsContainer, members: str) -> None:
    help_text = f"column of groups' keys in {members}, if its name differs"
    parser.add_argument("--member-group", metavar="COL", help=help_text)


def roster_tables(options: argparse.Namespace) -> RosterTables:
    """The tables of groups and their members, by the options of `group_columns`."""
    from .group_files import RosterTables  # who reads no table does not wait for it

    return RosterTables(
        groups=options.groups,
        members=options.members,
        key=options.group,
        member_key=options.member_group or options.group,
        person=options.person,
        member=options.member,
        codings=codings(options),
    )


def table_columns(parser: argparse.ArgumentParser) -> None:
    help_text = "column of ids; - if each row is a person of its own"
    parser.add_argument("--person", default="person", metavar="COL", help=help_text)
    group_columns(parser)
    help_text = "column of periods (long), or the period of all rows"
    parser.add_argument("--period", default="period", metavar="COL", help=help_text)
    parser.add_argument("--attribute", metavar="A", help="wide: the attribute of every cell")
    help_text = (
        "column with the number of the event in the row, from 1: its 'mode' is mode_1, mode_2, ..."
    )
    parser.add_argument("--event", metavar="COL", help=help_text)
    help_text = (
        "columns under other names; m{}=... are the periods in order, {}= leaves out all others"
    )
    parser.add_argument("--columns", metavar="COL=NAME,...", help=help_text)
    help_text = (
        "the meaning of a text of the file; an empty VALUE means no answer; A may be 'period', and"
        " TEXT have {} for any text, which {} in VALUE repeats; may be repeated"
    )
    parser.add_argument("--map", action="append", metavar="A:TEXT=VALUE,...", help=help_text)
    help_text = (
        "format of dates, such as %%d.%%m.%%Y, %%b %%Y or '%%Y Q%%q'; {} is text without a meaning"
    )
    parser.add_argument("--dates", metavar="FORMAT", help=help_text)
    help_text = "of the days that times in UTC, or with an offset, count for: Europe/Lisbon"
    parser.add_argument("--zone", metavar="ZONE", help=help_text)
    help_text = "of the names of months, such as de,fr; by default en"
    parser.add_argument("--language", metavar="LANGUAGE,...", help=help_text)
    number_options(parser)
    help_text = "put zeros in front of ids of fewer digits"
    parser.add_argument("--id-width", type=int, metavar="DIGITS", help=help_text)
    help_text = "ids of no person, such as NA,Total: their rows are left out; may be repeated"
    parser.add_argument("--no-id", action="append", metavar="TEXT,...", help=help_text)
    coding_options(parser)
    file_form_options(parser)


def coding_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options for columns of which a file of SPSS or Stata has codes and labels."""
    for option, contents in (("--labels", "labels of the file's codes"), ("--codes", "codes")):
        help_text = f"the declared values of these attributes are {contents}; by default of all"
        parser.add_argument(option, nargs="?", const="", metavar="A,...", help=help_text)


def codings(options: argparse.Namespace) -> Codings:
    """What columns hold, by the options of `coding_options`. Raises UserError."""
    from stream_dp.population.tables.value_texts import Codings

    labels, codes = (
        frozenset[str]() if names is None else frozenset(names.split(","))
        for names in (options.labels, options.codes)
    )
    for name in sorted(labels & codes):
        raise UserError(f"--labels and --codes both name {name or 'all attributes'}; leave one out")
    return Codings(labels, codes)


def number_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the marks in whole numbers."""
    help_text = "the decimal mark of numbers, . or ,"
    parser.add_argument("--decimal", metavar="C", help=help_text)
    help_text = "the mark of thousands in numbers: . , ' or space"
    parser.add_argument("--thousands", metavar="C", help=help_text)
    help_text = "round numbers with a fraction, in columns that are declared with 'number'"
    parser.add_argument("--round", action="store_true", help=help_text)


def number_texts(options: argparse.Namespace) -> NumberTexts:
    """How texts write whole numbers, by the options of `number_options`. Raises UserError."""
    from stream_dp.study.number_texts import SPACE, NumberTexts

    thousands = " " if options.thousands == SPACE else options.thousands
    try:
        return NumberTexts(options.decimal, thousands, options.round)
    except UserError as error:
        raise UserError(f"--{line.replace(', t', ', --t')}" for line in error.lines) from None


def reading_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options for the readings of tables."""
    help_text = (
        "write how the columns are read; if FILE is there, refuse tables that are read otherwise"
    )
    parser.add_argument("--reading", type=Path, metavar="FILE", help=help_text)
    help_text = "do not show how the columns are read"
    parser.add_argument("--quiet", action="store_true", help=help_text)


def file_form_options(parser: argparse.ArgumentParser) -> None:
    help_text = (
        "between the cells of a text file, 'tab' or 'space' too; by default as in the header"
    )
    parser.add_argument("--separator", metavar="CHARACTER", help=help_text)
    help_text = "of a text file, such as cp1252; by default UTF-8, or that of its first bytes"
    parser.add_argument("--encoding", metavar="NAME", help=help_text)
    parser.add_argument("--sheet", metavar="NAME", help="of a spreadsheet with several")
    help_text = "row of the header, from 1; by default the first that is not blank"
    parser.add_argument("--header-row", type=int, metavar="N", help=help_text)
    help_text = "rows begin with a name that the header leaves out, as R's write.table writes them"
    parser.add_argument("--row-names", action="store_true", help=help_text)


def file_form(options: argparse.Namespace) -> FileForm:
    """The form of a table's file, by the options of `file_form_options`. Raises UserError."""
    from stream_dp.population.tables import FileForm
    from stream_dp.population.tables.table_files import separator_of

    return FileForm(
        separator=separator_of(options.separator),
        encoding=options.encoding,
        sheet=options.sheet,
        header_row=options.header_row,
        row_names=options.row_names,
    )


def layout(options: argparse.Namespace) -> TableLayout:
    """The layout of a table, by the options of `table_columns`. Raises UserError."""
    from stream_dp.population.report_judging import LONGEST_ID
    from stream_dp.population.tables import TableLayout

    columns: dict[str, str] = {}
    for pair in (options.columns or "").split(",") if options.columns else []:
        name, equals, column = pair.partition("=")
        if not equals:
            raise UserError(f"--columns: write COL=NAME,COL=NAME, not '{pair}'")
        columns[name] = column
    # --columns may also name the columns of ids and of periods.
    person, period = (
        next((name for name, meant in columns.items() if meant == key == default), default)
        for key, default in (("person", options.person), ("period", options.period))
    )
    if options.id_width is not None and not 0 < options.id_width <= LONGEST_ID:
        raise UserError(f"--id-width: write a number of digits from 1 to {LONGEST_ID}")
    return TableLayout(
        person=person,
        period=period,
        attribute=options.attribute,
        columns=columns,
        values=_mapped_values(options.map or []),
        dates=options.dates,
        id_width=options.id_width,
        nobody=tuple(text for texts in options.no_id or () for text in listed_texts(texts)),
        form=file_form(options),
        group=options.group,
        member=options.member,
        event=options.event,
        numbers=number_texts(options),
        codings=codings(options),
        zone=options.zone,
        languages=tuple(filter(None, (options.language or "").split(","))),
    )


def listed_texts(texts: str) -> list[str]:
    """The texts of a list with commas. A text with a comma stands in quotes."""
    import csv  # a help does not wait for it

    return next(csv.reader([texts]), [])


def _mapped_values(mappings: Sequence[str]) -> dict[str, dict[str, str]]:
    """By attribute, the values for texts of the file. Raises UserError.

    A text with a comma stands in quotes.
    """
    mapped: dict[str, dict[str, str]] = {}
    for mapping in mappings:
        attribute, colon, pairs = mapping.partition(":")
        values = mapped.setdefault(attribute, {})
        for pair in listed_texts(pairs) or [""]:
            text, equals, value = pair.rpartition("=")
            if not colon or not equals:
                raise UserError(f"--map: write A:TEXT=VALUE,TEXT=VALUE, not '{mapping}'")
            values[text] = value
    return mapped


def check_mapped_values(study: Study, layout: TableLayout) -> None:
    """Raises UserError if `--map` names an undeclared attribute or value, or no period."""
    from stream_dp.population.tables.period_columns import PERIOD, texts_of_periods

    texts_of_periods(study, layout)
    for name, values in layout.values.items():
        attribute = study.attributes.get(name)
        if attribute is None:
            if name == PERIOD:
                continue
            declared = ", ".join(study.attributes)
            raise UserError(f"--map: attribute '{name}' is not declared; there are {declared}")
        for value in values.values():
            judged = attribute.values_known
            if value and judged and not attribute.takes(value):
                raise UserError(f"--map: '{value}' is no value of {name}; it is {attribute.words}")
