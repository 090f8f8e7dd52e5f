"""The public names of the package, by heading; mkdocstrings reads their docstrings."""

from __future__ import annotations

import stream_dp

NAMES: dict[str, tuple[str, ...]] = {
    "A table in, a table out": ("fit", "FittedTable", "window"),
    "A public log": (
        "open",
        "PublicLog",
        "PublishedRelease",
        "PanelCertificate",
        "Panel",
        "Answer",
        "ReleaseQuery",
        "JointAnswers",
    ),
    "Data sets of groups": ("DataSet", "BatchCertificate"),
    "Published sizes of places": ("PublishedSizes", "SizesCertificate"),
    "A study and its plan": (
        "load_study",
        "parse_study",
        "Study",
        "plan_study",
        "Plan",
        "expected_errors",
        "ExpectedError",
        "needed_budget",
        "Goal",
        "NeededBudget",
        "alternatives",
        "Alternative",
        "study_over",
    ),
    "A study in a script": ("run_study", "MemoryLog", "open_log"),
    "Continual mechanisms": (
        "mechanism",
        "Mechanism",
        "Step",
        "FixedWindow",
        "Cumulative",
        "Joint",
        "Counter",
        "window_codes",
    ),
    "Batch synthesizers": (
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
    "Sizes of groups": ("fit_sizes", "FittedSizes"),
    "Noise and costs": ("SystemNoise", "SeededNoise", "gaussian_rho", "epsilon"),
    "Errors": ("UserError", "Inconsistent", "LogError"),
}


def markdown() -> str:
    parts = []
    for heading, names in NAMES.items():
        objects = [getattr(stream_dp, name) for name in names]
        paths = [f"::: {each.__module__}.{each.__qualname__}" for each in objects]
        parts.append("\n\n".join([f"## {heading}", *paths]))
    return "\n\n".join(parts)
