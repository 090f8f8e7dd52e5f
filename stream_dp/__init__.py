"""stream-dp: continual release of differentially private synthetic data, from a stream.

These are the names that notebooks and scripts need. Each is imported from its module when it is
first used, so `import stream_dp` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .answers.joint_answers import JointAnswers as JointAnswers
    from .answers.tables.regression import Regression as Regression
    from .batch.data.domain import Column as Column
    from .batch.data.domain import Domain as Domain
    from .batch.data.domain import Hierarchy as Hierarchy
    from .batch.data.hierarchy_tables import from_tables as from_tables
    from .batch.data.hierarchy_tables import to_tables as to_tables
    from .batch.fit_tables import FittedTables as FittedTables
    from .batch.fit_tables import fit_tables as fit_tables
    from .batch.kinds import load_synthesizer as load_synthesizer
    from .batch.sizes.region_tables import FittedSizes as FittedSizes
    from .batch.sizes.region_tables import fit_sizes as fit_sizes
    from .batch.synthesizer import FitContext as FitContext
    from .batch.synthesizer import MemoryTranscript as MemoryTranscript
    from .client import PublicLog as PublicLog
    from .client import open as open
    from .continual.counters.stream_counters import Counter as Counter
    from .continual.cumulative.cumulative import Cumulative as Cumulative
    from .continual.joint.joint import Joint as Joint
    from .continual.mechanism_interface import Mechanism as Mechanism
    from .continual.mechanism_interface import Step as Step
    from .continual.mechanisms import mechanism as mechanism
    from .continual.window.window import FixedWindow as FixedWindow
    from .errors import Inconsistent as Inconsistent
    from .errors import UserError as UserError
    from .log import open_log as open_log
    from .log.log import LogError as LogError
    from .log.memory import MemoryLog as MemoryLog
    from .panel import Panel as Panel
    from .panel import window_codes as window_codes
    from .planning.alternatives import Alternative as Alternative
    from .planning.alternatives import Goal as Goal
    from .planning.alternatives import NeededBudget as NeededBudget
    from .planning.alternatives import alternatives as alternatives
    from .planning.alternatives import needed_budget as needed_budget
    from .planning.alternatives import study_over as study_over
    from .planning.expected_errors import ExpectedError as ExpectedError
    from .planning.expected_errors import expected_errors as expected_errors
    from .planning.plan import Plan as Plan
    from .planning.plan import plan_study as plan_study
    from .privacy.noise import SeededNoise as SeededNoise
    from .privacy.noise import SystemNoise as SystemNoise
    from .privacy.zcdp import epsilon as epsilon
    from .privacy.zcdp import gaussian_rho as gaussian_rho
    from .release.answer import Answer as Answer
    from .release.answer import ReleaseQuery as ReleaseQuery
    from .release.public_reader import PublishedRelease as PublishedRelease
    from .release.published_panels import PanelCertificate as PanelCertificate
    from .release.published_sizes import PublishedSizes as PublishedSizes
    from .release.published_sizes import SizesCertificate as SizesCertificate
    from .release.published_tables import BatchCertificate as BatchCertificate
    from .release.published_tables import DataSet as DataSet
    from .services.desk.fitted_panel import FittedPanel as FittedPanel
    from .services.desk.fitted_table import FittedTable as FittedTable
    from .services.desk.fitted_table import fit as fit
    from .services.desk.panel_calls import cumulative as cumulative
    from .services.desk.panel_calls import joint as joint
    from .services.desk.panel_calls import window as window
    from .services.releaser.study_in_memory import run_study as run_study
    from .study import BatchRelease as BatchRelease
    from .study import Study as Study
    from .studyfile import load_study as load_study
    from .studyfile import parse_study as parse_study

    __version__: str

# Public names by module; the imports above declare the same to type checkers.
_MODULES = {
    "batch.synthesizer": ("FitContext", "MemoryTranscript"),
    "batch.data.domain": ("Column", "Domain", "Hierarchy"),
    "batch.data.hierarchy_tables": ("from_tables", "to_tables"),
    "batch.fit_tables": ("FittedTables", "fit_tables"),
    "batch.kinds": ("load_synthesizer",),
    "batch.sizes.region_tables": ("FittedSizes", "fit_sizes"),
    "client": ("PublicLog", "open"),
    "continual.cumulative.cumulative": ("Cumulative",),
    "continual.joint.joint": ("Joint",),
    "continual.mechanisms": ("mechanism",),
    "continual.window.window": ("FixedWindow",),
    "continual.mechanism_interface": ("Mechanism", "Step"),
    "continual.counters.stream_counters": ("Counter",),
    "errors": ("Inconsistent", "UserError"),
    "release.answer": ("Answer", "ReleaseQuery"),
    "answers.joint_answers": ("JointAnswers",),
    "answers.tables.regression": ("Regression",),
    "log": ("open_log",),
    "log.log": ("LogError",),
    "log.memory": ("MemoryLog",),
    "panel": ("Panel", "window_codes"),
    "planning.plan": ("Plan", "plan_study"),
    "planning.alternatives": (
        *("Alternative", "Goal", "NeededBudget"),
        *("alternatives", "needed_budget", "study_over"),
    ),
    "planning.expected_errors": ("ExpectedError", "expected_errors"),
    "privacy.noise": ("SeededNoise", "SystemNoise"),
    "privacy.zcdp": ("epsilon", "gaussian_rho"),
    "release.published_tables": ("BatchCertificate", "DataSet"),
    "release.published_panels": ("PanelCertificate",),
    "release.public_reader": ("PublishedRelease",),
    "release.published_sizes": ("PublishedSizes", "SizesCertificate"),
    "services.desk.fitted_table": ("FittedTable", "fit"),
    "services.desk.fitted_panel": ("FittedPanel",),
    "services.desk.panel_calls": ("cumulative", "joint", "window"),
    "services.releaser.study_in_memory": ("run_study",),
    "study": ("BatchRelease", "Study"),
    "studyfile": ("load_study", "parse_study"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """A public name, imported from its module. Raises AttributeError for unknown names."""
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("stream-dp")
    elif name in _HOMES:
        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
