"""Study files: TOML to a `Study`, with every fault at once."""

from .study_file import load_study, parse_study

__all__ = ["load_study", "parse_study"]
