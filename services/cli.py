"""The command line: `stream-dp COMMAND`. One clear line and exit code 2 for a user's mistake."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from stream_dp import __version__
from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.base import Fenced, LogError, Unavailable, Unknown

# A service manager may start again after AGAIN, and must not after any other of these.
JOB_FAILED, BAD_INPUT, FENCED, INCONSISTENT, AGAIN = 1, 2, 3, 4, 5


@dataclass(frozen=True)
class Output:
    """What a command says: data for machines, text for people."""

    data: Any
    text: str
    code: int = 0


def printable(text: str) -> str:
    """The text with escapes for whatever a terminal would not show as it is: control characters,
    ends of lines, marks that turn the direction of writing, letters its encoding does not know."""
    shown = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )
    encoding = sys.stdout.encoding or "utf-8"
    return shown.encode(encoding, "backslashreplace").decode(encoding)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see '{self.prog} --help'")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    try:
        options = _parser().parse_args(arguments)
        output: Output = options.command(options)
        if options.json:
            print(json.dumps(output.data, indent=2).replace("\x7f", "\\u007f"))
        elif output.text:
            print("\n".join(printable(line) for line in output.text.split("\n")))
        sys.stdout.flush()
        return output.code
    except Inconsistent as error:
        return _fail(error.lines, INCONSISTENT)
    except UserError as error:
        return _fail(error.lines, BAD_INPUT)
    except Fenced as error:
        return _fail([str(error)], FENCED)
    except (Unknown, Unavailable) as error:
        return _fail([str(error)], AGAIN)
    except LogError as error:
        return _fail([str(error)], BAD_INPUT)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            return _left()
        place = f"{error.filename}: " if error.filename else ""
        return _fail([f"{place}{error.strerror or type(error).__name__}"], AGAIN)
    except KeyboardInterrupt:
        return _fail(["interrupted"], 130)


def _left() -> int:
    """The reader of our output has left: keep the interpreter from complaining at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _fail(lines: Sequence[str], code: int) -> int:
    for line in lines:
        print(f"stream-dp: {printable(line)}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    from stream_dp.services import (
        analyst,
        demo,
        evaluating,
        groups,
        jobs,
        operator,
        rejected,
        sending,
    )

    parser = _Parser("stream-dp", description="Continual release of private synthetic data.")
    parser.add_argument("--version", action="version", version=f"stream-dp {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Any, words: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = commands.add_parser(name, help=words, description=words)
        added.add_argument("--json", action="store_true", help="for machines")
        added.set_defaults(command=run)
        return added

    added = command("demo", demo.demo, "simulate a study, run every period, draw a page")
    added.add_argument("--out", type=Path, default=Path("stream-dp-demo"), metavar="DIR")

    added = command("new", operator.new, "write a commented study file to start from")
    added.add_argument("study", type=Path, metavar="STUDY.toml")

    added = command("check", operator.check, "validate a study file and print the plan")
    added.add_argument("study", type=Path, metavar="STUDY.toml")

    added = command("topics", operator.topics, "make the topics, or check those there are")
    added.add_argument("study", type=Path, metavar="STUDY.toml")

    added = command("send", sending.send, "send tables of reports")
    added.add_argument("study", type=Path, metavar="STUDY.toml")
    added.add_argument("files", type=Path, nargs="+", metavar="FILE")
    _layout(added)

    added = command("groups", groups.send, "send the table of groups and their members, once")
    added.add_argument("study", type=Path, metavar="STUDY.toml")
    added.add_argument("groups", type=Path, metavar="GROUPS")
    added.add_argument("members", type=Path, metavar="MEMBERS")
    _keys(added, "MEMBERS")
    added.add_argument("--person", default="person", metavar="COL", help="column of members' ids")

    added = command("close", operator.close, "close every open period up to this one")
    added.add_argument("study", type=Path, metavar="STUDY.toml")
    added.add_argument("period", metavar="PERIOD")

    added = command("run", operator.run, "close, decide and publish; stops on SIGTERM")
    added.add_argument("study", type=Path, metavar="STUDY.toml")
    added.add_argument("--until-idle", action="store_true", help="stop when nothing is left to do")
    words = "the logs' files were moved or restored, and NO other copy of them goes on: two would"
    words += " draw noise for the same periods, and the guarantee would be lost"
    added.add_argument("--moved", action="store_true", help=words)

    added = command("status", operator.status, "open period, last release, budget (confidential)")
    added.add_argument("study", type=Path, metavar="STUDY.toml")

    added = command("jobs", jobs.jobs, "batch jobs: states, retry, abandon (confidential)")
    added.add_argument("study", type=Path, metavar="STUDY.toml")
    word = added.add_mutually_exclusive_group()
    word.add_argument("--retry", metavar="ID", help="try a failed job again")
    word.add_argument("--abandon", metavar="ID", help="give a job up; its charge stands")

    added = command("worker", jobs.worker, "make the data sets of batch jobs; stops on SIGTERM")
    added.add_argument("study", type=Path, metavar="STUDY.toml")
    added.add_argument("--until-idle", action="store_true", help="stop when no job is open")
    added.add_argument("--attached", action="store_true", help=argparse.SUPPRESS)

    added = command("rejected", rejected.rejected, "dead letters by reason (confidential)")
    added.add_argument("study", type=Path, metavar="STUDY.toml")

    public = "a study file, or a public log such as sqlite:FILE"
    added = command("releases", analyst.releases, "what has been published")
    added.add_argument("source", metavar="STUDY|PUBLIC", help=public)

    added = command("export", analyst.export, "write a synthetic panel, or the tables of groups")
    added.add_argument("source", metavar="STUDY|PUBLIC", help=public)
    added.add_argument("release", metavar="RELEASE")
    words = "a panel: a file .parquet or .csv; groups and people: a folder for two Parquet files"
    added.add_argument("out", type=Path, metavar="OUT", help=words)
    added.add_argument("--period", help="the panel up to this period; the last one by default")

    added = command("estimate", analyst.estimate, "answer a query, with its standard error")
    added.add_argument("source", metavar="STUDY|PUBLIC", help=public)
    added.add_argument("release", nargs="?", metavar="RELEASE")
    added.add_argument("query", nargs="?", metavar="QUERY")
    added.add_argument("--period", help="as of this period; the last one by default")
    unit = added.add_mutually_exclusive_group()
    unit.add_argument("--share", action="store_true", help="as a share of people (default)")
    unit.add_argument("--count", action="store_true", help="as a number of people")

    added = command("verify", analyst.verify, "check hashes, chain, prefixes and budget")
    added.add_argument("source", metavar="STUDY|PUBLIC", help=public)
    added.add_argument("--head", metavar="HASH", help="a hash that was kept elsewhere")

    words = "repeat the mechanisms on known data: errors against the truth (confidential)"
    added = command("evaluate", evaluating.evaluate, words)
    added.add_argument("study", type=Path, metavar="STUDY.toml")
    added.add_argument("truth", type=Path, metavar="TRUTH")
    words = "runs of each mechanism; 200 by default, 5 of batch releases"
    added.add_argument("--repetitions", type=int, metavar="R", help=words)
    added.add_argument("--scales", metavar="X,...", help="repeat it with every rho times X")
    added.add_argument(
        "--compare", action="store_true", help="every form of each release against the paper's"
    )
    added.add_argument("--simulated", action="store_true", help="of --compare: TRUTH is simulated")
    added.add_argument("--seed", type=int, default=0)
    added.add_argument("--out", type=Path, metavar="DIR", help="for figures, table and JSON")
    _layout(added)
    words = "where the study releases groups with their members"
    about = added.add_argument_group("groups", words)
    about.add_argument("--groups", type=Path, metavar="FILE", help="a row for each group")
    about.add_argument(
        "--members", type=Path, metavar="FILE", help="a row for each member, who is in TRUTH"
    )
    _keys(about, "--members")
    words = "judge the population at this period's close; at the last due one by default"
    about.add_argument("--at", metavar="PERIOD", help=words)
    return parser


def _keys(parser: argparse._ActionsContainer, members: str) -> None:
    parser.add_argument("--group", default="group", metavar="COL", help="column of groups' keys")
    words = f"the same in {members}, where it differs"
    parser.add_argument("--member-group", metavar="COL", help=words)


def _layout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--person", default="person", metavar="COL", help="column of ids")
    parser.add_argument(
        "--period", default="period", metavar="COL", help="column of periods (long)"
    )
    parser.add_argument("--attribute", metavar="A", help="wide: the attribute of every cell")
    parser.add_argument("--columns", metavar="COL=NAME,...", help="columns under other names")


if __name__ == "__main__":
    sys.exit(main())
