"""The options of the commands of every period."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..intake.options import (
    coding_options,
    file_form_options,
    group_columns,
    member_group_column,
    reading_options,
    study_file,
    table_columns,
)
from .command_line import Command, CommandGroup


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
            "commands.tables",
            "send_groups",
        ),
        "places": Command(
            "send the table of places and their regions, once",
            "study.toml places.csv --place municipality",
            _places,
            "commands.tables",
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
