"""What a study declares: who is protected, for how long, at what budget; public, and no data."""

from .alphabet import Alphabet
from .groups import BatchRelease, Groups
from .model import (
    Attribute,
    Carry,
    CounterName,
    CumulativeRelease,
    DeclaredPopulation,
    Head,
    JointRelease,
    Neighbours,
    Release,
    Run,
    Strategy,
    Study,
    WindowRelease,
)
from .periods import Periods, Schedule

__all__ = [
    "Alphabet",
    "Attribute",
    "BatchRelease",
    "Carry",
    "CounterName",
    "CumulativeRelease",
    "DeclaredPopulation",
    "Groups",
    "Head",
    "JointRelease",
    "Neighbours",
    "Periods",
    "Release",
    "Run",
    "Schedule",
    "Strategy",
    "Study",
    "WindowRelease",
]
