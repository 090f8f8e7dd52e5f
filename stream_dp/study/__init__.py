"""What a study declares: who is protected, for how long, at what budget; public, and no data."""

from .alphabet import Alphabet
from .groups import BatchRelease, Groups
from .model import (
    Attribute,
    Carry,
    CounterName,
    CumulativeRelease,
    DeclaredPopulation,
    JointRelease,
    Neighbours,
    Release,
    Run,
    Strategy,
    Study,
    StudyKeys,
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
    "JointRelease",
    "Neighbours",
    "Periods",
    "Release",
    "Run",
    "Schedule",
    "Strategy",
    "Study",
    "StudyKeys",
    "WindowRelease",
]
