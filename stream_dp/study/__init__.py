"""What a study declares: who is protected, for how long, at what budget; public, and no data."""

from .alphabet import Alphabet
from .groups import Batch, Groups
from .model import (
    Attribute,
    Carry,
    CounterName,
    Cumulative,
    Head,
    Joint,
    Neighbours,
    Population,
    Release,
    Run,
    Strategy,
    Study,
    Window,
)
from .periods import Periods, Schedule

__all__ = [
    "Alphabet",
    "Attribute",
    "Batch",
    "Carry",
    "CounterName",
    "Cumulative",
    "Groups",
    "Head",
    "Joint",
    "Neighbours",
    "Periods",
    "Population",
    "Release",
    "Run",
    "Schedule",
    "Strategy",
    "Study",
    "Window",
]
