"""Options of commands that read a public log: what somebody kept of it elsewhere."""

from __future__ import annotations

import argparse


def pin_options(parser: argparse.ArgumentParser) -> None:
    """Adds what a reader of a public log may have kept elsewhere."""
    help_text = "the public key that message 0 must name, kept elsewhere: ed25519:..."
    parser.add_argument("--key", metavar="KEY", help=help_text)
    help_text = "the hash of a message that the log must have, kept elsewhere"
    parser.add_argument("--head", metavar="HASH", help=help_text)
