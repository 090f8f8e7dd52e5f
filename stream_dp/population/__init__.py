"""CONFIDENTIAL: from the bytes of reports to the counts of a closed period."""

from .accounting import Accounting, CellCounts
from .population import ClosedPeriod, Population

__all__ = ["Accounting", "CellCounts", "ClosedPeriod", "Population"]
