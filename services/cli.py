"""The command line: `stream-dp COMMAND`. One clear line and exit code 2 for a user's mistake.

A command's module is imported when the command is called.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn, TextIO

from stream_dp import __version__
from stream_dp.errors import Inconsistent, UserError, is_lasting
from stream_dp.log.base import Damaged, Fenced, LogError, Unavailable, UnknownCommit

from .output import (
    AGAIN,
    BAD_INPUT,
    FENCED,
    INCONSISTENT,
    INTERRUPTED,
    JOB_FAILED,
    Output,
    printable,
    say,
)

_KINDS = {
    BAD_INPUT: "bad input",
    FENCED: "fenced",
    INCONSISTENT: "inconsistent",
    AGAIN: "unavailable",
    INTERRUPTED: "interrupted",
}
_CODES = f"""exit codes: {JOB_FAILED} a batch job failed; {BAD_INPUT} bad input; {FENCED} fenced;
{INCONSISTENT} inconsistent or damaged logs; {AGAIN} no answer, no room: starting again may cure it.
With --json an error is one line on standard error:
{{"error": "bad input", "lines": ["what is wrong, where, what to do"], "code": {BAD_INPUT}}}"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see '{self.prog} --help'")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        options = _parser().parse_args(given)
        output: Output = options.command(options)
        if options.json:
            say(json.dumps(output.data, indent=2).replace("\x7f", "\\u007f"))
        elif output.text:
            say(output.text)
        return output.code
    except BrokenPipeError:
        _discard(sys.stdout)
        return 1
    except (Exception, KeyboardInterrupt) as error:
        code, lines = _failure(error)
        return _fail(lines, code, as_json="--json" in given)


def _failure(error: BaseException) -> tuple[int, Sequence[str]]:
    """Exit code and lines for an error; a fault of this program is raised again."""
    match error:
        case Inconsistent():
            return INCONSISTENT, error.lines
        case UserError():
            return BAD_INPUT, error.lines
        case Fenced():
            return FENCED, [str(error)]
        case Damaged():
            return INCONSISTENT, [str(error)]
        case UnknownCommit() | Unavailable():
            return AGAIN, [str(error)]
        case LogError():
            return BAD_INPUT, [str(error)]
        case OSError():
            place = f"{error.filename}: " if error.filename else ""
            line = f"{place}{error.strerror or type(error).__name__}"
            return BAD_INPUT if is_lasting(error) else AGAIN, [line]
        case KeyboardInterrupt():
            return INTERRUPTED, ["interrupted"]
    raise error


def _fail(lines: Sequence[str], code: int, *, as_json: bool) -> int:
    text = json.dumps({"error": _KINDS[code], "lines": list(lines), "code": code})
    if not as_json:
        text = "\n".join(f"stream-dp: {printable(line)}" for line in lines)
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:
        _discard(sys.stdout)
    return code


def _discard(stream: TextIO) -> None:
    """Keep the interpreter from complaining at exit of a stream that takes no more."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Later:
    """A command's function, MODULE.NAME in `commands`; the module is imported with the call."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.__name__ = target.partition(".")[2]

    def __call__(self, options: argparse.Namespace) -> Output:
        module = import_module(f"stream_dp.services.commands.{self.target.partition('.')[0]}")
        output: Output = getattr(module, self.__name__)(options)
        return output


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        "stream-dp",
        description="Continual release of private synthetic data.",
        epilog=_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"stream-dp {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, target: str, words: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = commands.add_parser(name, help=words, description=words)
        added.add_argument("--json", action="store_true", help="for machines")
        added.set_defaults(command=_Later(target))
        return added

    added = command("demo", "demo.demo", "simulate a study, run every period, draw a page")
    added.add_argument("--out", type=Path, default=Path("stream-dp-demo"), metavar="DIR")

    added = command("new", "operator.new", "write a commented study file to start from")
    added.add_argument("study", type=Path, metavar="STUDY.toml")

    added = command("check", "operator.check", "validate a study file and print the plan")
    added.add_argument("study", type=Path, metavar="STUDY.toml")

    added = command("topics", "operator.topics", "make the topics, or check those there are")
    added.add_argument("study", type=Path, metavar="STUDY.toml")

    added = command("send", "send.send", "send tables of reports")
    added.add_argument("study", type=Path, metavar="STUDY.toml")
    added.add_argument("files", type=Path, nargs="+", metavar="FILE")
    _layout(added)

    added = command("groups", "groups.send", "send the table of groups and their members, once")
    added.add_argument("study", type=Path, metavar="STUDY.toml")
    added.add_argument("groups", type=Path, metavar="GROUPS")
    added.add_argument("members", type=Path, metavar="MEMBERS")
    _keys(added, "MEMBERS")
    added.add_argument("--person", default="person", metavar="COL", help="column of members' ids")

    added = command("close", "operator.close", "close every open period up to this one")
    added.add_argument("study", type=Path, metavar="STUDY.toml")
    added.add_argument("period", metavar="PERIOD")

    added = command("run", "operator.run", "close, decide and publish; stops on SIGTERM")
    added.add_argument("study", type=Path, metavar="STUDY.toml")
    added.add_argument("--until-idle", action="store_true", help="stop when nothing is left to do")
    words = "the logs' files were moved or restored, and NO other copy of them goes on: two would"
    words += " draw noise for the same periods, and the guarantee would be lost"
    added.add_argument("--moved", action="store_true", help=words)

    added = command("status", "operator.status", "open period, last release, budget (confidential)")
    added.add_argument("study", type=Path, metavar="STUDY.toml")

    added = command("jobs", "jobs.jobs", "batch jobs: states, retry, abandon (confidential)")
    added.add_argument("study", type=Path, metavar="STUDY.toml")
    word = added.add_mutually_exclusive_group()
    word.add_argument("--retry", metavar="ID", help="try a failed job again")
    word.add_argument("--abandon", metavar="ID", help="give a job up; its charge stands")

    added = command("worker", "jobs.worker", "make the data sets of batch jobs; stops on SIGTERM")
    added.add_argument("study", type=Path, metavar="STUDY.toml")
    added.add_argument("--until-idle", action="store_true", help="stop when no job is open")
    added.add_argument("--attached", action="store_true", help=argparse.SUPPRESS)

    added = command("rejected", "rejected.rejected", "dead letters by reason (confidential)")
    added.add_argument("study", type=Path, metavar="STUDY.toml")

    public = "a study file, or a public log such as sqlite:FILE"
    added = command("releases", "analyst.releases", "what has been published")
    added.add_argument("source", metavar="STUDY|PUBLIC", help=public)

    added = command("export", "analyst.export", "write a synthetic panel, or the tables of groups")
    added.add_argument("source", metavar="STUDY|PUBLIC", help=public)
    added.add_argument("release", metavar="RELEASE")
    words = "a panel: a file .parquet or .csv; groups and people: a folder for two Parquet files"
    added.add_argument("out", type=Path, metavar="OUT", help=words)
    added.add_argument("--period", help="the panel up to this period; the last one by default")

    added = command("estimate", "analyst.estimate", "answer a query, with its standard error")
    added.add_argument("source", metavar="STUDY|PUBLIC", help=public)
    added.add_argument("release", nargs="?", metavar="RELEASE")
    added.add_argument("query", nargs="?", metavar="QUERY")
    added.add_argument("--period", help="as of this period; the last one by default")
    unit = added.add_mutually_exclusive_group()
    unit.add_argument("--share", action="store_true", help="as a share of people (default)")
    unit.add_argument("--count", action="store_true", help="as a number of people")

    added = command("verify", "analyst.verify", "check hashes, chain, prefixes and budget")
    added.add_argument("source", metavar="STUDY|PUBLIC", help=public)
    added.add_argument("--head", metavar="HASH", help="a hash that was kept elsewhere")

    words = "repeat the mechanisms on known data: errors against the truth (confidential)"
    added = command("evaluate", "evaluate.evaluate", words)
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
