"""The demo: a simulated study of twelve months, through the real releaser."""

from __future__ import annotations

import argparse

from .cli import Output


def demo(options: argparse.Namespace) -> Output:
    return Output({}, "")
