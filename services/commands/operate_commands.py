"""What the command line says of the commands that read what is published, operate the service, and
check what is promised.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ..intake.options import (
    head_option,
    member_group_column,
    pin_options,
    public_source,
    reading_options,
    statement_option,
    study_file,
    table_columns,
)
from .study_commands import Command, CommandGroup


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
            "commands.status",
            "list_jobs",
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
            "commands.status",
            "list_rejected",
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


def _page(parser: argparse.ArgumentParser) -> None:
    public_source(parser)
    parser.add_argument("out", type=Path, metavar="OUT", help="a file .html")


def _monitor(parser: argparse.ArgumentParser) -> None:
    help_text = "public logs such as sqlite:FILE or kafka://host:port/prefix, or a folder of files"
    help_text += " that end with -public.db; with --operator study files"
    parser.add_argument("sources", nargs="+", metavar="PUBLIC|STUDY.toml", help=help_text)
    pin_options(parser)
    statement_option(parser)
    help_text = "the outlines of the regions of sizes, a GeoJSON file: pages have maps then"
    parser.add_argument("--map", type=Path, metavar="FILE", help=help_text)
    help_text = "the operator's pages of a study (confidential), with its close, retry and abandon"
    parser.add_argument("--operator", action="store_true", help=help_text)
    help_text = (
        "operator: a file with a token that clients give; needed beyond the loopback. Without"
    )
    help_text += " it a link is printed, which works once"
    parser.add_argument("--token-file", type=Path, metavar="FILE", help=help_text)
    help_text = "operator: the header in which a proxy, which sends the token, names the user"
    parser.add_argument("--proxy-header", metavar="NAME", help=help_text)
    help_text = "where the pages are public, such as https://poverty.example.org: previews of links"
    help_text += " and embedded figures name it"
    parser.add_argument("--url", metavar="URL", default="", help=help_text)
    help_text = "further names of the host in clients' addresses, but for that of --url"
    parser.add_argument("--hosts", metavar="NAME,...", default="", help=help_text)
    help_text = "where pages are served; 127.0.0.1:8080 by default"
    parser.add_argument("--listen", metavar="HOST:PORT", default="127.0.0.1:8080", help=help_text)


def _estimate(parser: argparse.ArgumentParser) -> None:
    public_source(parser)
    parser.add_argument("release", nargs="?", metavar="RELEASE")
    parser.add_argument("query", nargs="?", metavar="QUERY")
    parser.add_argument("--period", help="as of this period; the last one by default")
    help_text = "subtract the answer at this period, with the joint error of both"
    parser.add_argument("--minus", metavar="PERIOD", help=help_text)
    help_text = "of sizes of places, such as north/0101; all regions together by default"
    parser.add_argument("--region", metavar="PATH", help=help_text)
    help_text = (
        "of sizes of places: subtract the answer of this region; an empty path means all regions"
    )
    parser.add_argument("--minus-region", metavar="PATH", help=help_text)
    help_text = "another answer, together with the first: the error of their difference and ratio,"
    help_text += " a band that covers all at once, with --json all covariances; repeatable"
    several = ("RELEASE", "QUERY", "PERIOD")
    parser.add_argument("--also", nargs=3, action="append", metavar=several, help=help_text)
    help_text = "the answers at every period so far, with a joint band"
    parser.add_argument("--each-period", action="store_true", help=help_text)
    help_text = "whom shares are of: everybody, respondents or another query; by default those"
    help_text += " who answered in the period, where people can be absent"
    parser.add_argument("--of", metavar="PEOPLE", help=help_text)
    help_text = "of panels and tables: the unbiased answer, not the default one"
    parser.add_argument("--unbiased", action="store_true", help=help_text)
    help_text = "also the unbiased answer, the panel's own answer and its bias, and the method"
    parser.add_argument("--long", action="store_true", help=help_text)
    unit = parser.add_mutually_exclusive_group()
    unit.add_argument("--share", action="store_true", help="as a share of people (default)")
    unit.add_argument("--count", action="store_true", help="as a number of people")


def _estimates(parser: argparse.ArgumentParser) -> None:
    public_source(parser)
    parser.add_argument("out", type=Path, metavar="OUT", help="a file .parquet or .csv")
    parser.add_argument("--release", help="of this release alone")


def _regress(parser: argparse.ArgumentParser) -> None:
    public_source(parser)
    parser.add_argument("release", metavar="RELEASE")
    help_text = "OUTCOME ~ TERM + TERM, such as 'income ~ age + sex' or 'work=full ~ age*sex'"
    parser.add_argument("formula", metavar="FORMULA", help=help_text)
    parser.add_argument("--period", help="the table of this period; the last one by default")
    parser.add_argument("--logistic", action="store_true", help="a logistic model, not linear")
    help_text = "also the error of sampling people: by [study.sampling], or simple random sampling"
    parser.add_argument("--sampling", action="store_true", help=help_text)


def _export(parser: argparse.ArgumentParser) -> None:
    public_source(parser)
    parser.add_argument("release", metavar="RELEASE")
    help_text = (
        "a folder for all tables of the release and their descriptions; a .xlsx file; of a panel"
        " also a .parquet or .csv file"
    )
    parser.add_argument("out", type=Path, metavar="OUT", help=help_text)
    help_text = "of a panel, up to this period; of a data set, at this period; the last by default"
    parser.add_argument("--period", help=help_text)
    form = parser.add_mutually_exclusive_group()
    help_text = "a row for each synthetic person and period, with the dates of the period"
    form.add_argument("--long", action="store_true", help=help_text)
    help_text = "the noisy answers of every period, with their variances, instead of a panel"
    form.add_argument("--measurements", action="store_true", help=help_text)
    help_text = "of the tables in a folder; parquet by default"
    parser.add_argument("--format", choices=("parquet", "csv"), help=help_text)
    help_text = "between the cells of a .csv file: a comma by default; some spreadsheets want ;"
    parser.add_argument("--separator", choices=(",", ";", "tab"), help=help_text)
    help_text = "begin a .csv file with a byte order mark, by which Excel knows UTF-8"
    parser.add_argument("--bom", action="store_true", help=help_text)


LOOK = CommandGroup(
    "look at what is published",
    {
        "page": Command(
            "write one HTML file about a public log, which opens offline",
            "sqlite:study-public.db study.html",
            _page,
            "monitor.page",
        ),
        "monitor": Command(
            "serve a public log as web pages and a JSON API; stops on SIGTERM",
            "kafka://localhost:9092/study --listen 127.0.0.1:8080",
            _monitor,
            "monitor.monitor",
        ),
        "estimate": Command(
            "answer a query, with its standard error",
            "sqlite:study-public.db quarters 'at-least 1 of last 3 poverty=1' --each-period",
            _estimate,
            "commands.estimate",
        ),
        "estimates": Command(
            "write all answers of all releases as one table",
            "sqlite:study-public.db answers.csv",
            _estimates,
            "commands.estimate",
            "write_estimates",
        ),
        "regress": Command(
            "fit a regression about the people of a table, with its standard errors",
            "sqlite:study-public.db people 'income ~ age + sex'",
            _regress,
            "commands.estimate",
            "fit_regression",
        ),
        "export": Command(
            "write a synthetic panel, or the tables of groups",
            "sqlite:study-public.db quarters panel.csv --long",
            _export,
            "commands.export",
        ),
        "releases": Command(
            "list all releases",
            "sqlite:study-public.db",
            public_source,
            "commands.export",
            "list_releases",
        ),
    },
)
