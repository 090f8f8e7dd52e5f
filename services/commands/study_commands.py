"""What the command line says of the commands that begin a study, and of those of every period.

A command has a line of help, an example, options and the module that runs it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from ..intake.options import (
    coding_options,
    file_form_options,
    group_columns,
    head_option,
    member_group_column,
    reading_options,
    study_file,
    table_columns,
)


class Command(NamedTuple):
    """A command, without what it needs to run.

    help: a line of help.
    example: the arguments of an example.
    options: adds the options.
    module: the command's module, below `stream_dp.services`.
    function: runs the command.
    """

    help: str
    example: str
    options: Callable[[argparse.ArgumentParser], None]
    module: str
    function: str = "run"


class CommandGroup(NamedTuple):
    """Commands for one task, by name, under a title."""

    title: str
    commands: Mapping[str, Command]


_SCHEMAS = ("json", "avro", "asyncapi", "estimates-avro")


def _init(parser: argparse.ArgumentParser) -> None:
    help_text = "a table of reports: its header is read, and which cells are empty"
    parser.add_argument("file", type=Path, metavar="FILE", help=help_text)
    help_text = "the study file to write; by default NAME.toml in the current folder"
    parser.add_argument("--out", type=Path, metavar="STUDY.toml", help=help_text)
    help_text = "values to propose: a CSV with columns 'column' and 'value', DDI (.xml), .sav, .dta"
    parser.add_argument("--codebook", type=Path, metavar="BOOK", help=help_text)
    help_text = "FILE is public or of people whom this study does not protect: propose its values"
    parser.add_argument("--public", action="store_true", help=help_text)
    help_text = "one form on a page of this machine's browser instead of the terminal"
    parser.add_argument("--page", action="store_true", help=help_text)
    file_form_options(parser)


def _demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=Path("stream-dp-demo"), metavar="DIR")


def _new(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    help_text = "a small survey on this broker, localhost:9092 by default; the study and its"
    help_text += " topics have the name of the file"
    parser.add_argument(
        "--kafka", nargs="?", const="localhost:9092", metavar="HOST:PORT", help=help_text
    )


def _check(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    help_text = "the whole plan: every period's charge as a fraction, each mechanism's parameters,"
    help_text += " the errors of small groups and of panels' own answers"
    parser.add_argument("--long", action="store_true", help=help_text)
    help_text = "a register of studies: the study is in it, or must fit into its budget"
    parser.add_argument("--register", type=Path, metavar="FILE", help=help_text)


def _plan(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    help_text = "in words, may be repeated; by default examples of every release"
    parser.add_argument("--query", action="append", metavar="QUERY", help=help_text)
    help_text = "ask this release only; by default every release that can answer"
    parser.add_argument("--release", metavar="NAME", help=help_text)
    help_text = "print the rho for half-widths of at most E at every period"
    parser.add_argument("--error", type=float, metavar="E", help=help_text)
    help_text = "the level of the intervals, 0.95 by default"
    parser.add_argument("--confidence", type=float, default=0.95, metavar="LEVEL", help=help_text)
    parser.add_argument("--count", action="store_true", help="--error is a number of people")
    help_text = "the number of people as the base of shares, if it is private or unknown"
    parser.add_argument("--people", type=int, metavar="N", help=help_text)
    help_text = "plan the same study over N periods"
    parser.add_argument("--periods", type=int, metavar="N", help=help_text)
    help_text = (
        "other kinds, widths, counters, horizons and waves that answer each query, with their"
    )
    help_text += " errors at the same rho"
    parser.add_argument("--alternatives", action="store_true", help=help_text)
    help_text = "every period, with standard errors, and the errors of small groups"
    parser.add_argument("--long", action="store_true", help=help_text)
    help_text = "write half-widths over the periods, and the alternatives, as a picture .svg"
    parser.add_argument("--picture", type=Path, metavar="OUT", help=help_text)


def _rehearse(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    table_columns(parser)
    reading_options(parser)
    parser.add_argument("--groups", type=Path, metavar="FILE", help="table of groups")
    help_text = "table of their members, with the column of ids that reports have"
    parser.add_argument("--members", type=Path, metavar="FILE", help=help_text)
    parser.set_defaults(member_group=None)
    parser.add_argument("--places", type=Path, metavar="FILE", help="table of places")
    parser.add_argument("--seed", type=int, default=1, help="of the simulated noise")
    help_text = "a folder for the text, a page to look at, and each release's panel and estimates"
    parser.add_argument("--out", type=Path, metavar="DIR", help=help_text)


def _register(parser: argparse.ArgumentParser) -> None:
    help_text = "begin a register, add a study to it, or check it, and whether a study fits"
    parser.add_argument("action", choices=["begin", "add", "check"], help=help_text)
    parser.add_argument("register", type=Path, metavar="FILE", help="the register")
    parser.add_argument("study", type=Path, nargs="?", metavar="STUDY.toml", help="add, check")
    head_option(parser, "check: a head that was kept elsewhere")
    begin = parser.add_argument_group("begin")
    begin.add_argument(
        "--population", metavar="WORDS", help="the people whom the studies are about"
    )
    begin.add_argument("--unit", metavar="UNIT", help="study.unit of every study")
    begin.add_argument("--neighbours", metavar="RELATION", help="study.neighbours of every study")
    begin.add_argument("--rho", metavar="RHO", help="the most that all studies may cost together")


def _schema(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    help_text = (
        "JSON Schema of reports (the default), Avro of reports, Avro of answers, or AsyncAPI"
    )
    help_text += " of all topics; several with --out"
    parser.add_argument("--kind", choices=_SCHEMAS, action="append", help=help_text)
    help_text = (
        "write STUDY.report.schema.json and so on into this folder; without --kind all of them"
    )
    parser.add_argument("--out", type=Path, metavar="FOLDER", help=help_text)


BEGIN = CommandGroup(
    "begin a study",
    {
        "init": Command(
            "ask about a table and write the study file for it",
            "answers.csv",
            _init,
            "desk.init",
        ),
        "demo": Command(
            "simulate a study, run every period, draw a page",
            "--out demo",
            _demo,
            "desk.demo",
        ),
        "new": Command(
            "write a commented study file to start from",
            "study.toml",
            _new,
            "commands.new",
        ),
        "check": Command(
            "validate a study file and print the plan",
            "study.toml",
            _check,
            "commands.plans",
            "check_study",
        ),
        "plan": Command(
            "print the errors to expect before any data, and the budget for a wanted error",
            "study.toml --release quarters --error 0.01",
            _plan,
            "commands.plans",
            "plan_queries",
        ),
        "rehearse": Command(
            "run the study on a copy in memory, with simulated noise (confidential)",
            "study.toml january.csv february.csv --out rehearsal",
            _rehearse,
            "evaluate.rehearse",
        ),
        "register": Command(
            "add up the costs of all studies of a population",
            "add people.register study.toml",
            _register,
            "commands.register",
        ),
        "schema": Command(
            "write the schemas of a study's reports and topics",
            "study.toml --kind asyncapi",
            _schema,
            "contract.schema",
        ),
        "topics": Command(
            "create the topics, or check existing topics",
            "study.toml",
            study_file,
            "commands.run",
            "create_topics",
        ),
    },
)


def _send(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    table_columns(parser)
    reading_options(parser)
    parser.add_argument("--check", action="store_true", help="judge the files and send nothing")
    help_text = "send nothing if a cell would not count, or if ids look different from earlier ids"
    parser.add_argument("--strict", action="store_true", help=help_text)
    help_text = "list the texts that would not count, with their numbers; only on a terminal"
    parser.add_argument("--show-texts", action="store_true", help=help_text)
    help_text = "FILE replaces this earlier one: cells that it lacks are cleared"
    parser.add_argument("--replace", type=Path, metavar="EARLIER", help=help_text)


def _groups(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    parser.add_argument("groups", type=Path, metavar="GROUPS")
    parser.add_argument("members", type=Path, metavar="MEMBERS")
    group_columns(parser)
    member_group_column(parser, "MEMBERS")
    parser.add_argument("--person", default="person", metavar="COL", help="column of members' ids")
    coding_options(parser)
    file_form_options(parser)


def _places(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    parser.add_argument("places", type=Path, metavar="PLACES")
    parser.add_argument("--place", default="place", metavar="COL", help="column of places' keys")
    file_form_options(parser)


def _close(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    parser.add_argument("period", metavar="PERIOD")
    help_text = "show the contents of open periods (confidential), and close nothing"
    parser.add_argument("--check", action="store_true", help=help_text)
    help_text = "close without counting and without asking, as it is without a terminal"
    parser.add_argument("--yes", action="store_true", help=help_text)
    help_text = "close the period that [study.gate] holds, with all reports up to now"
    parser.add_argument("--despite-gate", action="store_true", help=help_text)
    help_text = "wait this long before the markers are written, such as 30m; an interrupt withdraws"
    parser.add_argument("--after", type=_duration, metavar="TIME", default=0, help=help_text)


def _duration(text: str) -> int:
    from stream_dp.study.periods import duration_seconds  # a help does not wait for studies

    try:
        return duration_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _run(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    parser.add_argument("--until-idle", action="store_true", help="stop when nothing is left to do")
    help_text = "with --until-idle: take the role even from a live releaser, which then waits"
    parser.add_argument("--take-over", action="store_true", help=help_text)
    help_text = (
        "the logs' files were moved or restored, and NO other copy of them will run: two copies"
    )
    help_text += " would draw noise for the same periods, and the guarantee would be lost"
    parser.add_argument("--moved", action="store_true", help=help_text)
    help_text = (
        "the declared witness is empty although the study has releases; use once, and only if"
    )
    help_text += " no older backup was restored"
    parser.add_argument("--new-witness", action="store_true", help=help_text)


PERIOD = CommandGroup(
    "every period",
    {
        "send": Command(
            "send tables of reports",
            "study.toml january.csv --person id --map poverty:poor=1,other=0",
            _send,
            "commands.send",
        ),
        "groups": Command(
            "send the table of groups and their members, once",
            "study.toml households.csv members.csv --group household",
            _groups,
            "commands.send",
            "send_groups",
        ),
        "places": Command(
            "send the table of places and their regions, once",
            "study.toml places.csv --place municipality",
            _places,
            "commands.send",
            "send_places",
        ),
        "close": Command(
            "show the contents of open periods, and close all periods up to PERIOD",
            "study.toml 2026-01 --check",
            _close,
            "commands.close",
        ),
        "run": Command(
            "close periods, decide and publish releases; stops on SIGTERM",
            "study.toml --until-idle",
            _run,
            "commands.run",
        ),
    },
)
