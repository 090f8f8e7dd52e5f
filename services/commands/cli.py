"""The command line: `stream-dp COMMAND`.

A user's mistake gives one clear line and exit code 2. A command's module is imported only when
the command runs: its help and the completion of words need no other imports than this file's.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from importlib import import_module
from typing import NoReturn, TextIO

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
from .operate_commands import LOOK, OPERATE, PROMISE
from .study_commands import BEGIN, PERIOD, Command

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


GROUPS = (BEGIN, PERIOD, LOOK, OPERATE, PROMISE)
COMMANDS = {name: command for group in GROUPS for name, command in group.commands.items()}
FIRST = ("init", "send", "close", "run", "page")  # lead from a table to something to look at
SERVICES = ("run", "worker", "aggregate")  # with --json every line of theirs is an event


# Can take long, and show no progress of their own.
TIMED = {"check", "plan", "page", "estimate", "estimates", "regress", "export", "verify", "backup"}


class _Parser(argparse.ArgumentParser):
    """A parser whose faults are UserErrors, with the nearest command or option."""

    called: argparse.ArgumentParser | None = None  # of the command that is called

    def error(self, message: str) -> NoReturn:
        parser = self.called or self
        close = ""
        if message.startswith("argument COMMAND:"):  # the help lists all commands
            message = message.partition(" (choose from")[0]
            close = _nearest(message.split("'")[1], COMMANDS)
        elif message.startswith("unrecognized arguments:"):
            wrong = [word.partition("=")[0] for word in message.split() if word.startswith("--")]
            options = parser._option_string_actions
            close = "".join([_nearest(word, options) for word in wrong][:1])
        raise UserError(f"{message}{close}; see '{parser.prog} --help'")


def _nearest(word: str, known: Iterable[str]) -> str:
    """Proposes the word nearest to a mistyped word; empty without a near word."""
    from difflib import get_close_matches  # only a mistyped word needs it

    matches = get_close_matches(word, known, 1)
    return f"; did you mean '{matches[0]}'?" if matches else ""


class _Version(argparse.Action):
    """Prints the version, which takes a while to find."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from stream_dp import __version__

        say(f"stream-dp {__version__}")
        parser.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code."""
    typed = sys.argv[1:] if arguments is None else arguments
    logged = False
    try:
        if "_ARGCOMPLETE" in os.environ and arguments is None:
            from argcomplete import autocomplete

            autocomplete(_parser())
        if not typed:
            say(_overview())
            return 0
        called = next((word for word in typed if not word.startswith("-")), "")
        if arguments is None:
            # pydantic would look for plug-ins in every installed package.
            os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
            # Matrices are small, in fits too: threads of linear algebra would wait for one another.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        # A parser of all commands takes long to build, and only a wrong word needs it.
        listed: Collection[str] = COMMANDS
        if typed[0] in COMMANDS:
            listed = [called]
        elif typed[0] in {"--help", "-h", "--version"}:
            listed = ()
        options = _parser(listed).parse_args(typed)
        logged = called in SERVICES
        from ..process.command_output import shown_elapsed
        from ..storage.atomic_files import reporting_mended_modes

        waits = shown_elapsed(f"stream-dp {called}") if called in TIMED else nullcontext()
        with reporting_mended_modes(partial(_note, as_json=options.json, logged=logged)), waits:
            module = import_module(command_module(options.command))
            run = getattr(module, COMMANDS[options.command].function)
            output: Output = run(options)
        if options.json:
            import json  # a help does not wait for it

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
        import json

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
    text = "\n".join(f"stream-dp: {printable(line)}" for line in lines)
    if as_json:
        import json

        text = json.dumps(fields)
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
    """Redirects a closed stream to nowhere, for the interpreter's flush at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def command_module(name: str) -> str:
    """The module that runs a command."""
    return f"stream_dp.services.{COMMANDS[name].module}"


def _overview() -> str:
    """The first commands, and the names of all others by their tasks."""
    lines = ["stream-dp publishes private synthetic data of people, period by period.", ""]
    lines += [_line(name, COMMANDS[name]) for name in FIRST]
    lines.append("")
    lines += [f"{group.title}: {', '.join(group.commands)}" for group in GROUPS]
    lines += ["", "An example and all options: stream-dp COMMAND --help"]
    return "\n".join([*lines, "A simulated study, without any data: stream-dp demo"])


def _line(name: str, command: Command) -> str:
    return f"  {name:<10} {command.help}"


def _parser(listed: Collection[str] = COMMANDS) -> argparse.ArgumentParser:
    """The parser of the command line. listed: the commands that the parser has."""
    groups = [
        "\n".join([f"{group.title}:", *(_line(*item) for item in group.commands.items())])
        for group in GROUPS
    ]
    parser = _Parser(
        "stream-dp",
        usage="stream-dp COMMAND ...",
        description="\n\n".join(["Continual release of private synthetic data.", *groups]),
        epilog=_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    help_text = "show the version and exit"
    parser.add_argument("--version", action=_Version, nargs=0, help=help_text)
    commands = parser.add_subparsers(
        required=True, metavar="COMMAND", help=argparse.SUPPRESS, dest="command", prog="stream-dp"
    )
    for name in listed:
        declared = COMMANDS[name]
        command = commands.add_parser(
            name,
            description=declared.help,
            epilog=f"example:\n  stream-dp {name} {declared.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_argument("--json", action="store_true", help="print the result as JSON")
        declared.options(command)
        parser.called = command if len(listed) == 1 else None
    return parser


if __name__ == "__main__":
    sys.exit(main())
