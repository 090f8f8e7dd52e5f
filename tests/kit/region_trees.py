"""Trees of regions with groups, drawn at random or from census blocks."""

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from stream_dp.batch.sizes.histogram import Regions, Sizes

BLOCKS = Path(__file__).parents[3] / "shared/data/blocks/hawaii_2010_blocks.csv"


def tree(groups):
    """The regions of groups by path, and the sizes of the smallest ones."""
    columns = [f"level{i}" for i in range(len(next(iter(groups))))]
    regions = Regions.of(columns, {path: len(sizes) for path, sizes in groups.items()})
    return regions, [Sizes.of(np.array(groups[leaf], np.int64)) for leaf in regions.leaves]


@st.composite
def trees(draw, largest=12):
    """Trees of two or three levels: regions without groups and groups of nobody included."""
    depth = draw(st.integers(1, 2))
    paths = st.tuples(*[st.sampled_from("abc")] * depth)
    sizes = st.lists(st.integers(0, largest), max_size=6)
    return tree(draw(st.dictionaries(paths, sizes, min_size=1, max_size=6)))


def hawaii(column, path=BLOCKS):
    """Census blocks as groups, by county and tract. column: who counts as a member."""
    groups = defaultdict(list)
    with path.open() as file:
        for row in csv.DictReader(file):
            groups[row["county"], row["block"][:11]].append(int(row[column]))
    return tree(groups)
