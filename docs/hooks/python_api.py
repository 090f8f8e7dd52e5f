"""The objects that the page on Python shows, by heading; mkdocstrings reads their docstrings."""

from __future__ import annotations

from typing import Any

from stream_dp.batch.base import Memory
from stream_dp.batch.data.domain import Column, Domain, Hierarchy
from stream_dp.batch.data.tables import from_tables, to_tables
from stream_dp.client import PublicLog, PublishedRelease
from stream_dp.continual import Cumulative, FixedWindow, Joint
from stream_dp.continual.base import Mechanism, Step
from stream_dp.continual.counters import Counter
from stream_dp.errors import Inconsistent, UserError
from stream_dp.estimate.answer import Estimate
from stream_dp.log import open_log
from stream_dp.panel import Panel
from stream_dp.plan import Plan, plan_study
from stream_dp.privacy.noise import SeededNoise, SystemNoise
from stream_dp.privacy.zcdp import epsilon, gaussian_rho
from stream_dp.release.data_sets import BatchCertificate, DataSet
from stream_dp.release.panels import PanelCertificate
from stream_dp.study import Study
from stream_dp.studyfile import load_study, parse_study

OBJECTS: dict[str, tuple[Any, ...]] = {
    "A public log": (open_log, PublicLog, PublishedRelease, PanelCertificate, Panel, Estimate),
    "Data sets of groups": (DataSet, BatchCertificate),
    "A study and its plan": (load_study, parse_study, Study, plan_study, Plan),
    "Continual mechanisms": (Mechanism, Step, FixedWindow, Cumulative, Joint, Counter),
    "Batch synthesizers": (Domain, Column, Hierarchy, from_tables, to_tables, Memory),
    "Noise and costs": (SystemNoise, SeededNoise, gaussian_rho, epsilon),
    "Errors": (UserError, Inconsistent),
}


def markdown() -> str:
    parts = []
    for heading, objects in OBJECTS.items():
        names = [f"::: {each.__module__}.{each.__qualname__}" for each in objects]
        parts.append("\n\n".join([f"## {heading}", *names]))
    return "\n\n".join(parts)
