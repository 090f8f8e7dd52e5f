"""CONFIDENTIAL: from the bytes of reports to the counts of a closed period."""

from .accounting import Accounting, CellCounts
from .closed import ClosedPeriod
from .population import Population

__all__ = ["Accounting", "CellCounts", "ClosedPeriod", "Population"]
