"""The lead of heads over their children, in columns of numbers.

The lead of a head in a column is the position of the head's number among the column's numbers, less
the position of the highest number of the head's children. Leads are counted in bands: below 0, 0,
1, 2 to 3, 4 to 7, and so on. A head has no lead if the head or all children have no number. The
columns and their bands follow from the declared values.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ...data.domain import Domain, Hierarchy, Int64Array, numbers_by_code

LEAST_NUMBERS = 4  # of a column with leads: two or three numbers are rather codes than amounts


def lead_columns(domain: Domain) -> dict[int, tuple[int, ...]]:
    """By person column with leads, the codes of its numbers in increasing order of the numbers.

    Empty without roles.
    """
    if domain.roles is None:
        return {}
    columns = {}
    for column in range(len(domain.person)):
        by_code = numbers_by_code(domain, column) or ()
        numbers = {n: code for code, n in enumerate(by_code) if n is not None}
        if column != domain.role_column and len(numbers) >= LEAST_NUMBERS:
            columns[column] = tuple(numbers[n] for n in sorted(numbers))
    return columns


def band_starts(numbers: int) -> tuple[int, ...]:
    """The least lead of every band but the first, in a column of so many numbers.

    >>> band_starts(9)
    (0, 1, 2, 4, 8)
    """
    return 0, *(1 << i for i in range((numbers - 1).bit_length()))


def band_texts(domain: Domain, column: int) -> tuple[str, ...]:
    """The bands of a column in words."""
    name, numbers = domain.person[column].name, len(lead_columns(domain)[column])
    texts = ["below", "equal to"]
    for first, end in pairwise((*band_starts(numbers)[1:], numbers)):
        texts.append(f"{first} to {end - 1} values above" if end - first > 1 else f"{first} above")
    return tuple(f"{name} {text} the children's highest" for text in texts)


def head_bands(hierarchy: Hierarchy, column: int) -> tuple[Int64Array, Int64Array]:
    """The rows of all heads with a lead in a column, and the numbers of their bands.

    Confidential, unless the groups are synthetic.
    """
    domain, group_of = hierarchy.domain, hierarchy.group_of
    codes = lead_columns(domain)[column]
    by_code = np.full(domain.person_values[column], -1)
    by_code[list(codes)] = np.arange(len(codes))
    position = by_code[hierarchy.people[:, column]]
    role = hierarchy.people[:, domain.role_column]
    head, _, children = (np.flatnonzero(role == code) for code in domain.role_codes)
    highest = np.full(hierarchy.G, -1)
    np.maximum.at(highest, group_of[children], position[children])
    leading = (position[head] >= 0) & (highest >= 0)
    leads = (position[head] - highest)[leading]
    bands = np.searchsorted(band_starts(len(codes)), leads, side="right")
    return head[leading], bands.astype(np.int64)
