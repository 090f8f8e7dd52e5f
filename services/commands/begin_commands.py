"""The options of the commands that begin a study."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..intake.options import file_form_options, reading_options, study_file, table_columns
from ..process.pin_options import head_option
from .command_line import Command, CommandGroup

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
            "commands.topics",
        ),
    },
)
