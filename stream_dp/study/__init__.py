"""Declarations of studies: who is protected, for how long and at what budget. Public; no data."""

from .alphabet import Alphabet
from .data_sets import DataSetRelease, PeopleRelease
from .groups import BatchRelease, Groups
from .intake import Input
from .model import (
    MOST_PRESENCE_WIDTH,
    Attribute,
    Carry,
    CounterName,
    CumulativeRelease,
    DeclaredPopulation,
    JointRelease,
    Neighbours,
    Release,
    Strategy,
    Study,
    StudyKeys,
    WindowRelease,
)
from .periods import Periods, Schedule
from .run import Run

__all__ = [
    "MOST_PRESENCE_WIDTH",
    "Alphabet",
    "Attribute",
    "BatchRelease",
    "Carry",
    "CounterName",
    "CumulativeRelease",
    "DataSetRelease",
    "DeclaredPopulation",
    "Groups",
    "Input",
    "JointRelease",
    "Neighbours",
    "PeopleRelease",
    "Periods",
    "Release",
    "Run",
    "Schedule",
    "Strategy",
    "Study",
    "StudyKeys",
    "WindowRelease",
]
