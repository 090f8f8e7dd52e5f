"""People and their events as groups and members, from the answers in every slot."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stream_dp.study import Attribute, EventsRelease

from .data.domain import Hierarchy
from .synthesizer import events_domain


def with_events(
    attributes: Mapping[str, Attribute], release: EventsRelease, answers: NDArray[np.integer]
) -> Hierarchy:
    """People with their events; one row changes one person.

    answers: codes (people, attributes), in the order of `release.names`. An event whose first
        column is 'absent' does not count.

    Raises ValueError for codes outside the attributes.
    """
    domain = events_domain(attributes, release)
    most, columns = domain.most, len(domain.person)
    people = answers[:, : len(domain.group)]
    slots = answers[:, len(domain.group) :].reshape(len(answers), columns, most)
    present = slots[:, 0] < len(domain.person[0].values)  # 'absent' is the last code
    sizes = present.sum(axis=1)
    events = slots.transpose(0, 2, 1)[present]
    return Hierarchy(
        domain, np.column_stack([people, sizes]), events, np.repeat(np.arange(len(answers)), sizes)
    )
