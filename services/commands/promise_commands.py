"""The options of the commands that check what is promised."""

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
from ..process.pin_options import statement_option
from .command_line import Command, CommandGroup


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
