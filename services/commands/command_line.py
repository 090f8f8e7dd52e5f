"""What the command line says of a command: its help, an example, its options and its module."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import NamedTuple


class Command(NamedTuple):
    """A command, without what it needs to run.

    help: a line of help.
    example: the arguments of an example.
    options: adds the options.
    module: the command's module, below `stream_dp.services`.
    function: runs the command.
    """

    help: str
    example: str
    options: Callable[[argparse.ArgumentParser], None]
    module: str
    function: str = "run"


class CommandGroup(NamedTuple):
    """Commands for one task, by name, under a title."""

    title: str
    commands: Mapping[str, Command]
