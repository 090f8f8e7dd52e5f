"""Study files: TOML to a `Study`, with every fault at once."""

from .read import load, parse

__all__ = ["load", "parse"]
