"""The figures of a data set of any family."""

from __future__ import annotations

from collections.abc import Callable

from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.study import Family
from stream_dp.study.families import DATA_SET_FAMILIES, Registry

from .groups_figures import DataSetFigures, data_set_figures
from .sizes_figures import sizes_figures

FIGURES: Registry[Family, Callable[[PublicLog, str, str | None], DataSetFigures]] = Registry(
    "figures of data sets",
    DATA_SET_FAMILIES,
    {
        Family.PEOPLE: data_set_figures,
        Family.HOUSEHOLDS: data_set_figures,
        Family.SIZES: sizes_figures,
    },
)


def any_figures(public: PublicLog, name: str, period: str | None) -> DataSetFigures:
    """The figures of a data set. Raises UserError where there is none."""
    declared = public.study.batch(name)
    if declared is None:
        raise UserError(f"release '{name}': nothing is published of it yet")
    return FIGURES[declared.family](public, name, period)
