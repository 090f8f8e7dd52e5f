"""Options that several commands have."""

from __future__ import annotations

import argparse
from pathlib import Path

from stream_dp.errors import UserError
from stream_dp.population.tables import TableLayout


def study_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, metavar="STUDY.toml")


def public_source(parser: argparse.ArgumentParser) -> None:
    """What `deployment.open_public` opens."""
    words = "a study file, or a public log such as sqlite:FILE"
    parser.add_argument("source", metavar="STUDY|PUBLIC", help=words)


def group_columns(parser: argparse._ActionsContainer, members: str) -> None:
    parser.add_argument("--group", default="group", metavar="COL", help="column of groups' keys")
    words = f"the same in {members}, where it differs"
    parser.add_argument("--member-group", metavar="COL", help=words)


def table_columns(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--person", default="person", metavar="COL", help="column of ids")
    parser.add_argument(
        "--period", default="period", metavar="COL", help="column of periods (long)"
    )
    parser.add_argument("--attribute", metavar="A", help="wide: the attribute of every cell")
    parser.add_argument("--columns", metavar="COL=NAME,...", help="columns under other names")


def layout(options: argparse.Namespace) -> TableLayout:
    columns: dict[str, str] = {}
    for pair in (options.columns or "").split(",") if options.columns else []:
        name, equals, meant = pair.partition("=")
        if not equals:
            raise UserError(f"--columns: write COL=NAME,COL=NAME, not '{pair}'")
        columns[name] = meant
    return TableLayout(options.person, options.period, options.attribute, columns)
