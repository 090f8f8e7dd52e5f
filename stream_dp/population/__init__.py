"""CONFIDENTIAL: from the bytes of reports to the counts of a closed period."""

from .population import Accounting, Closed, Population

__all__ = ["Accounting", "Closed", "Population"]
