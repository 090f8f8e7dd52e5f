"""Declarations of studies: who is protected, for how long and at what budget. Public; no data."""

from .alphabet import Alphabet
from .attribute import Attribute, Carry
from .data_sets import DataSetRelease, PeopleRelease, TableRelease
from .groups import BatchRelease, Groups
from .intake import Input
from .match import MatchRelease
from .model import (
    MOST_PRESENCE_WIDTH,
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
from .places import Places, SizesRelease
from .run import Run
from .scale import Numbers, Scale

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
    "MatchRelease",
    "Neighbours",
    "Numbers",
    "PeopleRelease",
    "Periods",
    "Places",
    "Release",
    "Run",
    "Scale",
    "Schedule",
    "SizesRelease",
    "Strategy",
    "Study",
    "StudyKeys",
    "TableRelease",
    "WindowRelease",
]
