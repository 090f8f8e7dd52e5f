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
    module: whose function `run` runs the command, below `stream_dp.services`.
    """

    help: str
    example: str
    options: Callable[[argparse.ArgumentParser], None]
    module: str


class CommandGroup(NamedTuple):
    """Commands for one task, by name, under a title."""

    title: str
    commands: Mapping[str, Command]
