"""The codes of all people at the last close, of a population or a part: the input of data sets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_dp.study.table_releases import PastAnswer

from .population import Population


def symbols_of(population: Population) -> dict[str, NDArray[np.unsignedinteger]]:
    """Returns, by attribute and by column of a history, a code for every slot.

    Like `ClosedPeriod.symbols`, but also for a population that was read from its snapshot.
    """
    study, columns = population.study, population.columns
    codes = {name: columns[f"last {name}"] for name in study.attributes}
    for name, longest in study.past.items():
        for ago in range(1, longest + 1):
            column = PastAnswer(name, ago).column
            codes[column] = columns[f"past {column}"]
    return codes


def slots_by_hash(population: Population) -> NDArray[np.int64]:
    """Returns the slots of people in the order of the hashes of their ids, then unclaimed slots.

    The parts of a population, concatenated, have the order of the whole population: a part is a
    range of hashes. The slot that stands for nobody in a part is left out.
    """
    slots = min((len(column) for column in population.columns.values()), default=0)
    unclaimed = np.arange(population.nobodies + len(population.index), slots)
    return np.concatenate([population.index.slot.astype(np.int64), unclaimed])
