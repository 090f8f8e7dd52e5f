"""Declarations of studies: the unit of privacy, the horizon, the budget. Public; no data."""

from .alphabet import Alphabet
from .attribute import Attribute, Carry
from .counter_kinds import CounterKind
from .described_kinds import Strategy
from .families import Family, Kind, Neighbours
from .group_releases import BatchRelease, Groups
from .input_shapes import Input
from .match_releases import MatchRelease
from .periods import Periods, Schedule
from .place_releases import Places, SizesRelease
from .run_settings import Run
from .scale import Numbers, Scale
from .study import (
    MOST_PRESENCE_WIDTH,
    CumulativeRelease,
    DeclaredPopulation,
    JointRelease,
    Release,
    Study,
    StudyKeys,
    WindowRelease,
    has_patterns,
    has_totals,
)
from .table_releases import DataSetRelease, PeopleRelease, TableRelease

__all__ = [
    "MOST_PRESENCE_WIDTH",
    "Alphabet",
    "Attribute",
    "BatchRelease",
    "Carry",
    "CounterKind",
    "CumulativeRelease",
    "DataSetRelease",
    "DeclaredPopulation",
    "Family",
    "Groups",
    "Input",
    "JointRelease",
    "Kind",
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
    "has_patterns",
    "has_totals",
]
