"""Study files: TOML to a `Study`, with every fault at once."""

from .read import load_study, parse_study

__all__ = ["load_study", "parse_study"]
