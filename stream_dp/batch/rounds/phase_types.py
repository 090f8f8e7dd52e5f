"""The types of a fit's phases, and of the function that gives the next phase."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from .annealing import Annealed
from .phases import Everything, NoisyAnswers, Rounds

Phase: TypeAlias = Everything | Rounds | Annealed

# The phase with a number, from 0, given all answers of earlier phases; None after the last phase.
NextPhase: TypeAlias = Callable[[int, NoisyAnswers], Phase | None]
