"""Every command's help, from the parser of the command line."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping

from stream_dp.services.commands import cli


def parsers() -> Mapping[str, argparse.ArgumentParser]:
    """The parser of each command, by its name."""
    (commands,) = (
        action
        for action in cli._parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return commands.choices


def markdown() -> str:
    os.environ["COLUMNS"] = "90"
    return "\n\n".join(
        f"## {name}\n\n```text\n{parser.format_help().strip()}\n```"
        for name, parser in parsers().items()
    )
