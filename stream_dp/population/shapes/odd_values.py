"""Stand-ins for values that no cell, id or period can have."""

from __future__ import annotations

from enum import Enum


class Odd(Enum):
    """Stands for a value other than text, whole numbers and null. Every attribute rejects it.

    ZONELESS: stands for a time whose period only a zone would decide.
    """

    VALUE = "odd"
    ZONELESS = "zoneless"
