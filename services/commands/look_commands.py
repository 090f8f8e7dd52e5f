"""The options of the commands that read what is published."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..intake.options import public_source
from ..process.pin_options import pin_options, statement_option
from .command_line import Command, CommandGroup


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
            "commands.estimates",
        ),
        "regress": Command(
            "fit a regression about the people of a table, with its standard errors",
            "sqlite:study-public.db people 'income ~ age + sex'",
            _regress,
            "commands.regress",
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
            "commands.releases",
        ),
    },
)
