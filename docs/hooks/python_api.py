"""The public names of the package, by page; mkdocstrings reads their docstrings."""

from __future__ import annotations

import stream_dp

NAMES: dict[str, tuple[str, ...]] = {
    "tables": ("fit", "FittedTable", "window", "cumulative", "joint", "FittedPanel"),
    "public-log": (
        "open",
        "PublicLog",
        "PublishedRelease",
        "PanelCertificate",
        "Panel",
        "Answer",
        "ReleaseQuery",
        "JointAnswers",
        "Regression",
    ),
    "data-sets": ("DataSet", "BatchCertificate"),
    "sizes": ("fit_sizes", "FittedSizes", "PublishedSizes", "SizesCertificate"),
    "studies": ("load_study", "parse_study", "Study", "plan_study", "Plan", "study_over"),
    "errors-to-expect": (
        "expected_errors",
        "ExpectedError",
        "needed_budget",
        "Goal",
        "NeededBudget",
        "alternatives",
        "Alternative",
    ),
    "scripts": ("run_study", "MemoryLog", "open_log"),
    "mechanisms": (
        "mechanism",
        "Mechanism",
        "Step",
        "FixedWindow",
        "Cumulative",
        "Joint",
        "Counter",
        "window_codes",
    ),
    "synthesizers": (
        "fit_tables",
        "FittedTables",
        "load_synthesizer",
        "BatchRelease",
        "Domain",
        "Column",
        "Hierarchy",
        "from_tables",
        "to_tables",
        "FitContext",
        "MemoryTranscript",
    ),
    "noise-and-costs": ("SystemNoise", "SeededNoise", "gaussian_rho", "epsilon"),
    "errors": ("UserError", "Inconsistent", "LogError"),
}


def markdown(page: str) -> str:
    """The names of `docs/reference/python/PAGE.md`, each with its docstring."""
    objects = [getattr(stream_dp, name) for name in NAMES[page]]
    return "\n\n".join(f"::: {value.__module__}.{value.__qualname__}" for value in objects)
