"""Files of a study with a witness restored, lost or exchanged: no noise is drawn again unasked.

All 1,024 states are a command: `python benchmarks/restored_states.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from kit.killed import in_memory
from kit.restored_states import FOREIGN, MISSING, NOW, OLD, STATES, RestoredStates, State, faults
from kit.signals import restored_handlers

# By the last start: what makes the releaser go on.
GOES_ON = {
    State(NOW, NOW, NOW, NOW, NOW): "run",
    State(NOW, NOW, NOW, OLD, MISSING): "run",
    State(NOW, MISSING, MISSING, NOW, MISSING): "--moved",
    State(NOW, NOW, NOW, MISSING, NOW): "--new-witness",
    State(OLD, OLD, OLD, OLD, OLD): "run",
    State(OLD, MISSING, MISSING, MISSING, OLD): "--new-witness",
    State(MISSING, MISSING, MISSING, MISSING, MISSING): "run",
    State(MISSING, MISSING, MISSING, MISSING, NOW): "--new-witness",
}
REFUSED = (
    State(OLD, OLD, OLD, OLD, NOW),
    State(OLD, MISSING, MISSING, NOW, OLD),
    State(OLD, MISSING, MISSING, FOREIGN, MISSING),
    State(FOREIGN, MISSING, MISSING, NOW, MISSING),
    State(MISSING, MISSING, MISSING, OLD, MISSING),
)
DRAWN = random.Random(1).sample(STATES, 27)


@pytest.fixture(scope="module")
def states() -> Iterator[RestoredStates]:
    with in_memory() as folder, restored_handlers():
        yield RestoredStates(folder)


@pytest.mark.parametrize(
    "state", dict.fromkeys([*GOES_ON, *REFUSED, *DRAWN]), ids=lambda state: state.words
)
def test_nothing_is_drawn_again_unless_an_operator_answers_for_it(
    states: RestoredStates, state: State
) -> None:
    starts = dict(states.starts(state))
    assert faults(state, starts) == []
    last = list(starts)[-1]
    if state in GOES_ON:
        assert (last, starts[last].code) == (GOES_ON[state], 0)
    if state in REFUSED:
        assert {started.code for started in starts.values()} == {4}


def test_a_second_draw_is_noticed(states: RestoredStates) -> None:
    """Otherwise the tests above could say nothing."""
    state = State(OLD, OLD, OLD, OLD, OLD)
    assert dict(states.starts(state))["run"].drawn_again
