"""Options of commands that read a public log: facts kept by a reader elsewhere."""

from __future__ import annotations

import argparse
from pathlib import Path


def pin_options(parser: argparse.ArgumentParser) -> None:
    """Adds what a reader of a public log may have kept elsewhere."""
    help_text = "the public key that message 0 must name, kept elsewhere: ed25519:..."
    parser.add_argument("--key", metavar="KEY", help=help_text)
    head_option(parser, "the hash of a message that the log must have, kept elsewhere")


def head_option(parser: argparse.ArgumentParser, help_text: str) -> None:
    """Adds a hash that was kept elsewhere."""
    parser.add_argument("--head", type=_hash, metavar="HASH", help=help_text)


def _hash(text: str) -> str:
    """A hash as messages have it. Raises ArgumentTypeError."""
    from stream_dp.release.signatures import is_hash  # a help does not wait for it

    if not is_hash(text.lower()):
        raise argparse.ArgumentTypeError("write the 64 hexadecimal digits of a hash")
    return text.lower()


def statement_option(parser: argparse.ArgumentParser) -> None:
    """Adds the signed statements of audits."""
    help_text = "a signed statement of an audit, whose signature is checked; may be repeated"
    parser.add_argument(
        "--statement", type=Path, action="append", default=[], metavar="FILE", help=help_text
    )
