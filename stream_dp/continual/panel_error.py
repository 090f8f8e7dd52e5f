"""The expected error of a published synthetic panel's answers."""

from __future__ import annotations

import msgspec


class PanelError(msgspec.Struct, frozen=True):
    """The error of a query that the panel itself answers, without its padding, in people.

    query: as `answers/query.py` parses it
    error: the root mean square over periods and simulated repetitions
    bias: the mean error; 0 where chance explains it, or below a twentieth of the error
    """

    query: str
    error: float
    bias: float
