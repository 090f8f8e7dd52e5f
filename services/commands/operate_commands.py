"""The options of the commands that operate the service, and that check what is promised."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..intake.options import (
    member_group_column,
    public_source,
    reading_options,
    study_file,
    table_columns,
)
from ..process.pin_options import head_option, statement_option
from .command_line import Command, CommandGroup


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
            study_file,
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
            study_file,
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


def _verify(parser: argparse.ArgumentParser) -> None:
    public_source(parser)
    statement_option(parser)
    help_text = "continue after a failed check, and print the result of every check"
    parser.add_argument("--all", action="store_true", help=help_text)
    help_text = "write the result, also of a failure, for Prometheus' textfile collector"
    parser.add_argument("--textfile", type=Path, metavar="FILE.prom", help=help_text)


def _audit(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    help_text = "one release of the study; by default all of them are audited together"
    parser.add_argument("release", metavar="RELEASE", nargs="?", help=help_text)
    help_text = "runs in each of the two worlds, at least 50; 1000 by default"
    parser.add_argument("--runs", type=int, default=1000, metavar="N", help=help_text)
    help_text = "write the result as a statement that the key of [run.signing] signs"
    parser.add_argument("--statement", type=Path, metavar="FILE", help=help_text)
    help_text = "repeat the audit of this statement with its seed, and compare all figures"
    parser.add_argument("--repeat", type=Path, metavar="FILE", help=help_text)


def _evaluate(parser: argparse.ArgumentParser) -> None:
    study_file(parser)
    parser.add_argument("truth", type=Path, metavar="TRUTH")
    help_text = "runs of each mechanism; 200 by default, 5 of batch releases"
    parser.add_argument("--repetitions", type=int, metavar="R", help=help_text)
    parser.add_argument("--scales", metavar="X,...", help="repeat it with every rho times X")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, metavar="DIR", help="for figures, table and JSON")
    table_columns(parser)
    reading_options(parser)
    help_text = "where the study releases groups with their members"
    groups = parser.add_argument_group("groups", help_text)
    groups.add_argument("--groups", type=Path, metavar="FILE", help="a row for each group")
    groups.add_argument(
        "--members", type=Path, metavar="FILE", help="a row for each member, who is in TRUTH"
    )
    member_group_column(groups, "--members")
    help_text = (
        "table of places, as to 'stream-dp places'; not with a table of counts, which is TRUTH"
    )
    parser.add_argument("--places", type=Path, metavar="FILE", help=help_text)
    help_text = "judge data sets at this period's close; at the last due one by default"
    parser.add_argument("--at", metavar="PERIOD", help=help_text)


PROMISE = CommandGroup(
    "check what is promised",
    {
        "verify": Command(
            "check hashes, chain, prefixes and budget",
            "sqlite:study-public.db --all",
            _verify,
            "commands.verify",
        ),
        "audit": Command(
            "prove a lower bound on the cost of a study, from runs on simulated people",
            "study.toml --runs 500",
            _audit,
            "audit.audit",
        ),
        "evaluate": Command(
            "repeat the mechanisms on known data: errors against the truth (confidential)",
            "study.toml truth.csv --out errors",
            _evaluate,
            "evaluate.evaluate",
        ),
    },
)
