"""The rejected cells of dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stream_dp.log.log import Stored
from stream_dp.population.cells import REASONS, Reason
from stream_dp.services.intake.dead_letters import cells_of


def reasons_of(letters: Sequence[Stored]) -> dict[Reason, int]:
    """Rejected cells by reason.

    A letter that was written again after a crash counts once. A record may have two letters, for
    the cells that were unusable when it was read and for those that a close could not use.
    """
    total: Counter[Reason] = Counter()
    for letter in {
        (letter.key, letter.header("stream-dp-cells")): letter for letter in letters
    }.values():
        total += Counter(cells_of(letter))
    return {reason: total[reason] for reason in REASONS if total[reason]}
