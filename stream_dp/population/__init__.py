"""CONFIDENTIAL: from the bytes of reports to the counts of a closed period."""

from .population import Accounting, ClosedPeriod, Population

__all__ = ["Accounting", "ClosedPeriod", "Population"]
