"""The command line: `stream-dp COMMAND`.

A user's mistake gives one clear line and exit code 2. A command's module is imported only when
the command is called.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import NoReturn, TextIO

from stream_dp import __version__
from stream_dp.errors import UserError

from ..process.command_output import (
    BAD_INPUT,
    FENCED,
    INCONSISTENT,
    INTERRUPTED,
    JOB_FAILED,
    UNAVAILABLE,
    VIOLATION,
    Output,
    failure,
    printable,
    say,
)

_KINDS = {
    BAD_INPUT: "bad input",
    FENCED: "fenced",
    INCONSISTENT: "inconsistent",
    UNAVAILABLE: "unavailable",
    INTERRUPTED: "interrupted",
}
_CODES = f"""exit codes: {JOB_FAILED} a batch job failed; {BAD_INPUT} bad input; {FENCED} fenced;
{INCONSISTENT} inconsistent or damaged logs; {UNAVAILABLE} no answer, no room: \
starting again may cure it;
{VIOLATION} an audit found a violation.
With --json an error is one line on standard error:
{{"error": "bad input", "lines": ["what is wrong, where, what to do"], "code": {BAD_INPUT}}}"""


# What each command does, in the order of the help.
COMMANDS = {
    "demo": "simulate a study, run every period, draw a page",
    "init": "ask about a table and write the study file for it",
    "new": "write a commented study file to start from",
    "check": "validate a study file and print the plan",
    "audit": "prove a lower bound on the cost of a release, from runs on simulated people",
    "register": "add up the costs of all studies of a population",
    "plan": "print the errors to expect before any data, and the budget for a wanted error",
    "schema": "write the schemas of a study's reports and topics",
    "topics": "create the topics, or check existing topics",
    "send": "send tables of reports",
    "rehearse": "run the study on a copy in memory, with simulated noise (confidential)",
    "groups": "send the table of groups and their members, once",
    "places": "send the table of places and their regions, once",
    "close": "show the contents of open periods, and close all periods up to PERIOD",
    "run": "close periods, decide and publish releases; stops on SIGTERM",
    "status": "show the open period, the last release and the budget (confidential)",
    "backup": "copy a study while it runs: logs, snapshots, study file (confidential)",
    "restore": "restore a study from its backup, if no noise could be drawn again",
    "jobs": "list, retry or abandon batch jobs (confidential)",
    "worker": "fit the data sets of batch jobs; stops on SIGTERM",
    "aggregate": "close periods in parts, in several processes; stops on SIGTERM",
    "rejected": "list dead letters by reason (confidential)",
    "releases": "list all releases",
    "export": "write a synthetic panel, or the tables of groups",
    "estimate": "answer a query, with its standard error",
    "regress": "fit a regression about the people of a table, with its standard errors",
    "estimates": "write all answers of all releases as one table",
    "page": "write one HTML file about a public log, which opens offline",
    "monitor": "serve a public log as web pages and a JSON API; stops on SIGTERM",
    "verify": "check hashes, chain, prefixes and budget",
    "evaluate": "repeat the mechanisms on known data: errors against the truth (confidential)",
}


# Where the module of a command is: in `commands` under its name, or in the room that it opens.
_ROOMS = {
    "aggregate": "parts.aggregate",
    "audit": "audit.audit",
    "demo": "desk.demo",
    "evaluate": "evaluate.evaluate",
    "init": "desk.init",
    "monitor": "monitor.monitor",
    "page": "monitor.page",
    "rehearse": "evaluate.rehearse",
    "schema": "contract.schema",
}

SERVICES = ("run", "worker", "aggregate")  # with --json every line of theirs is an event


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        if message.startswith("argument COMMAND:"):  # the help lists all commands
            message = message.partition(" (choose from")[0]
        raise UserError(f"{message}; see '{self.prog} --help'")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code."""
    typed = sys.argv[1:] if arguments is None else arguments
    logged = False
    try:
        called = next((word for word in typed if not word.startswith("-")), "")
        if arguments is None and called != "worker":
            # Except in fits matrices are small, and threads of linear algebra wait for one another.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        # A parser of all commands is dear, and only the help and a wrong word need it.
        listed = [called] if called in COMMANDS and called == typed[0] else COMMANDS
        options = _parser([called], listed).parse_args(typed)
        logged = called in SERVICES
        from ..storage.file_modes import reporting_mended_modes

        with reporting_mended_modes(partial(_note, as_json=options.json, logged=logged)):
            output: Output = options.command(options)
        if options.json:
            # What a service prints is a log: one line for each event, the last among them.
            text = json.dumps(output.data, indent=None if logged else 2)
            say(text.replace("\x7f", "\\u007f"))
        elif output.text:
            say(output.text)
        return output.code
    except BrokenPipeError:
        _discard(sys.stdout)
        return 1
    except (Exception, KeyboardInterrupt) as error:
        code, lines = failure(error)
        return _fail(lines, code, as_json="--json" in typed, logged=logged)


def _note(line: str, *, as_json: bool, logged: bool) -> None:
    """Tells of a mended mode on standard error, for which a command goes on."""
    text = f"stream-dp: {printable(line)}"
    if as_json:
        from ..process.events import head

        text = json.dumps({**(head("mode-mended") if logged else {}), "message": line})
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def _fail(lines: Sequence[str], code: int, *, as_json: bool, logged: bool) -> int:
    """Writes an error's lines to standard error; returns its code.

    logged: whether the command's other output is a log of events, which the error ends.
    """
    fields = {"error": _KINDS[code], "lines": list(lines), "code": code}
    if logged:
        from ..process.events import head  # no other command needs it

        fields = {**head("ended"), **fields}
    text = json.dumps(fields)
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
    """Redirects a closed stream to nowhere, so that the interpreter can flush it at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def command_module(name: str) -> str:
    """The module that has the options of a command and runs it."""
    return f"stream_dp.services.{_ROOMS.get(name, f'commands.{name}')}"


def _parser(
    names: Collection[str] = COMMANDS, listed: Collection[str] = COMMANDS
) -> argparse.ArgumentParser:
    """The parser of the command line.

    names: the commands whose modules are imported for their options.
    listed: the commands that the parser has.
    """
    parser = _Parser(
        "stream-dp",
        description="Continual release of private synthetic data.",
        epilog=_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"stream-dp {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name in listed:
        help_text = COMMANDS[name]
        command = commands.add_parser(name, help=help_text, description=help_text)
        command.add_argument("--json", action="store_true", help="print the result as JSON")
        if name in names:
            module = import_module(command_module(name))
            module.options(command)
            command.set_defaults(command=module.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
