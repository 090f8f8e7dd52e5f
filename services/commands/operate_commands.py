"""The options of the commands for operators of the service."""

from __future__ import annotations

import argparse

from ..intake.options import study_file
from ..process.pin_options import head_option
from .command_line import Command, CommandGroup


def _status(parser: argparse.ArgumentParser) -> None:
    study_file(parser)


def _jobs(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    word = parser.add_mutually_exclusive_group()
    word.add_argument("--retry", metavar="ID", help="try a failed job again")
    word.add_argument("--abandon", metavar="ID", help="give a job up; its charge stands")


def _worker(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    parser.add_argument("--until-idle", action="store_true", help="stop when no job is open")
    parser.add_argument("--attached", action="store_true", help=argparse.SUPPRESS)


def _aggregate(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    parser.add_argument("--until-idle", action="store_true", help="stop when no order is open")
    parser.add_argument("--attached", action="store_true", help=argparse.SUPPRESS)


def _rejected(parser: argparse.ArgumentParser) -> None:
    study_file(parser)


def _backup(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    help_text = "a folder for the backup of this study alone, or an fsspec URL; a later backup"
    help_text += " copies only new data"
    parser.add_argument("place", metavar="DIR|URL", help=help_text)


def _restore(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    parser.add_argument("place", metavar="DIR|URL", help="where `stream-dp backup` wrote it")
    help_text = (
        "the last hash of the public log that was kept elsewhere; needed if the public log is lost"
    )
    head_option(parser, help_text)


OPERATE = CommandGroup(
    "operate the service",
    {
        "status": Command(
            "show the open period, the last release and the budget (confidential)",
            "study.toml",
            _status,
            "commands.status",
        ),
        "jobs": Command(
            "list, retry or abandon batch jobs (confidential)",
            "study.toml --retry people-2026-06",
            _jobs,
            "commands.jobs",
        ),
        "worker": Command(
            "fit the data sets of batch jobs; stops on SIGTERM",
            "study.toml --until-idle",
            _worker,
            "commands.worker",
        ),
        "aggregate": Command(
            "close periods in parts, in several processes; stops on SIGTERM",
            "study.toml",
            _aggregate,
            "parts.aggregate",
        ),
        "rejected": Command(
            "list dead letters by reason (confidential)",
            "study.toml",
            _rejected,
            "commands.rejected",
        ),
        "backup": Command(
            "copy a study while it runs: logs, snapshots, study file (confidential)",
            "study.toml /var/backups/study",
            _backup,
            "commands.backups",
            "back_up_study",
        ),
        "restore": Command(
            "restore a study from its backup, if no noise could be drawn again",
            "study.toml /var/backups/study",
            _restore,
            "commands.backups",
            "restore_study",
        ),
    },
)
