"""How the counters of every kind are made: the `METHOD` of the kind's module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from importlib import import_module

from stream_dp.study import CounterKind
from stream_dp.study.plugins import COUNTERS, plugin

from .stream_counters import Counter


@dataclass(frozen=True, kw_only=True)
class CounterMethod:
    """The constructor of a kind of counters.

    title: the algorithm and its source, as certificates have it
    of_length: gives the counter of n steps
    whole_matrices: whether the matrices are whole numbers by definition, so that every machine has
        the same. Otherwise the longest is stored when a study begins, and a shorter counter must
        be its last rows and columns
    whole_sums: whether sums are whole numbers
    endless_column2: gives a bound of `Counter.column2` for every length; None for a counter whose
        noise depends on the horizon. The entries of such a counter's matrix must be 0 or more,
        and its first rows must not depend on the length.
    """

    title: str
    of_length: Callable[[int], Counter]
    whole_matrices: bool = False
    whole_sums: bool = False
    endless_column2: Callable[[], Fraction] | None = None


def module_name(kind: CounterKind) -> str:
    """The name of a kind's module in this folder."""
    return kind.replace("-", "_")


@cache
def counter_method(kind: CounterKind) -> CounterMethod:
    """The method of a kind. Raises UserError for a package that cannot be loaded."""
    plugged_method = (
        plugin(COUNTERS, kind, CounterMethod) if kind not in list(CounterKind) else None
    )
    if plugged_method is not None:
        plugged: CounterMethod = plugged_method.value
        return replace(plugged, title=plugged_method.titled(plugged.title))
    method: CounterMethod = import_module(f"{__package__}.{module_name(kind)}").METHOD
    return method


def counter(kind: CounterKind, length: int) -> Counter:
    """The counter of this kind with `length` steps."""
    return counter_method(kind).of_length(length)
