"""Everybody's codes at the last close, from a population or a part: what data sets look at."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_dp.study.data_sets import PastAnswer

from .population import Population


def symbols_of(population: Population) -> dict[str, NDArray[np.unsignedinteger]]:
    """By attribute, and by column of a history, a code for every slot.

    As `ClosedPeriod.symbols`, of a population that was read from its snapshot, too.
    """
    study, columns = population.study, population.columns
    codes = {name: columns[f"last {name}"] for name in study.attributes}
    for name, longest in study.past.items():
        for ago in range(1, longest + 1):
            column = PastAnswer(name, ago).column
            codes[column] = columns[f"past {column}"]
    return codes


def slots_by_hash(population: Population) -> NDArray[np.int64]:
    """The slots of people in the order of the hashes of their ids, then those that nobody has.

    The parts of a population one after the other have the order of everybody: a part is a range of
    hashes. The slot that stands for nobody in a part is not among them.
    """
    slots = min((len(column) for column in population.columns.values()), default=0)
    unclaimed = np.arange(population.nobodies + len(population.index), slots)
    return np.concatenate([population.index.slot.astype(np.int64), unclaimed])
