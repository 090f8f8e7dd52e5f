"""What analysts see is a function of noisy values: where those coincide, every byte does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kit.killed import in_memory
from kit.panels import LABELS, PEOPLE, declaration, raw, report, script
from kit.studies import MARKER, SCHEDULE, toml_lines
from noninterference.coupled import Coupled, CoupledRun, Vector, coupled_run, of, public_side, run

from stream_dp.continual.cumulative.cumulative import Cumulative
from stream_dp.continual.mechanism_interface import Step
from stream_dp.continual.window.window import FixedWindow
from stream_dp.log.log import Record
from stream_dp.privacy.noise import Draw
from stream_dp.services.storage import journal

Batches = list[list[Record]]
PERIODS = 3
X = PEOPLE[3]
is_x = of(X)


def removed(batches: Batches) -> Batches:
    return [[r for r in batch if not is_x(r)] for batch in batches]


def each(change: Callable[[Record], list[Record]]) -> Callable[[Batches], Batches]:
    """Another record or several for each of the person's."""
    return lambda batches: [
        [new for r in batch for new in (change(r) if is_x(r) else [r])] for batch in batches
    ]


def with_values(record: Record, **values: Any) -> Record:
    report = json.loads(record.value or b"")
    return replace(record, value=json.dumps({**report, "values": values}).encode())


def moved(batches: Batches, *, late: bool) -> Batches:
    """The person's reports in reverse, last before the markers or after everything."""

    def order(batch: list[Record]) -> list[Record]:
        own, others = [r for r in batch if is_x(r)], [r for r in batch if not is_x(r)]
        first_marker = next(i for i, r in enumerate(others) if r.headers)
        place = len(others) if late else first_marker
        return [*others[:place], *own[::-1], *others[place:]]

    return [order(batch) for batch in batches]


def flood(record: Record) -> list[Record]:
    ahead = [report(n % 2, X, label, {"poverty": n % 2}) for n, label in enumerate(LABELS * 20)]
    return [record, *ahead, *(raw(n % 2, b"\xff") for n in range(50))]


CHANGES: dict[str, Callable[[Batches], Batches]] = {
    "removed": removed,
    "other values": each(lambda r: [with_values(r, poverty=1, work="yes")]),
    "cleared": each(lambda r: [with_values(r, poverty=None, work=None)]),
    "unknown values": each(lambda r: [with_values(r, poverty="poor", wealth=1)]),
    "malformed": each(lambda r: [replace(r, value=b"{")]),
    "empty": each(lambda r: [replace(r, value=None)]),
    "duplicated": each(lambda r: [r, r, r]),
    "in the other partition": each(lambda r: [replace(r, partition=1 - (r.partition or 0))]),
    "in another order": lambda batches: moved(batches, late=False),
    "late": lambda batches: moved(batches, late=True),
    "many messages": each(flood),
    "another person": each(
        lambda r: [replace(r, value=(r.value or b"").replace(X.encode(), b"somebody"))]
    ),
    "nobody at all": lambda batches: [[r for r in batch if r.headers] for batch in batches],
}

RELATIONS = {
    "replace_one": declaration(periods=PERIODS),
    "add_remove": declaration(neighbours="add_remove", size=None, periods=PERIODS),
}


Capture = pytest.CaptureFixture[str]
PublicSide = dict[str, bytes | str]
FirstRun = Callable[[str, Batches, Capture], tuple[CoupledRun, PublicSide]]


@pytest.fixture(scope="module")
def first_run() -> Iterator[FirstRun]:
    """The run on the unchanged input, which is made once for every study, and its public side."""
    seen: dict[str, tuple[CoupledRun, PublicSide]] = {}

    def run_of(text: str, batches: Batches, capsys: Capture) -> tuple[CoupledRun, PublicSide]:
        if text not in seen:
            first = coupled_run(folder / str(len(seen)), text, batches)
            seen[text] = first, public_side(first.place, capsys)
        return seen[text]

    with in_memory() as folder:
        yield run_of


# In the suite every change under one relation in turn, and those that move most under both.
BOTH = ("removed", "many messages", "nobody at all")
PAIRS = [
    pytest.param(
        relation,
        change,
        marks=[] if change in BOTH or i % 2 == j else pytest.mark.slow,
    )
    for i, change in enumerate(CHANGES)
    for j, relation in enumerate(RELATIONS)
]


@pytest.mark.parametrize(("relation", "change"), PAIRS)
def test_the_public_side_does_not_tell_inputs_apart(
    relation: str, change: str, first_run: FirstRun, folder: Path, capsys: Capture
) -> None:
    batches = script(PERIODS)
    other = CHANGES[change](script(PERIODS))
    assert other != batches
    first, seen = first_run(RELATIONS[relation], batches, capsys)
    place, _ = coupled_run(folder, RELATIONS[relation], other, first.answers)
    assert first.place.db.read_bytes() != place.db.read_bytes()
    if change in BOTH:
        assert seen == public_side(place, capsys)
    else:  # the file that every command reads, and one of the commands
        some = public_side(place, capsys, [["verify", "--json"]])
        assert {name: seen[name] for name in some} == some


@pytest.mark.parametrize("change", ["late", "nobody at all"])
def test_nor_where_the_calendar_closes(
    change: str, first_run: FirstRun, folder: Path, capsys: Capture
) -> None:
    def unmarked(batches: Sequence[Sequence[Record]]) -> Batches:
        return [[r for r in batch if not r.headers] for batch in batches]

    text = declaration(SCHEDULE, periods=PERIODS)
    assert toml_lines(MARKER) not in text
    first, seen = first_run(text, unmarked(script(PERIODS)), capsys)
    place, _ = coupled_run(folder, text, unmarked(CHANGES[change](script(PERIODS))), first.answers)
    assert seen == public_side(place, capsys)


def test_the_noise_is_what_couples_them(folder: Path, capsys: Capture) -> None:
    """Without the shift the same change is seen: the comparison can fail."""
    inputs = [script(PERIODS), removed(script(PERIODS))]
    a, b = (
        run(folder / str(i), declaration(periods=PERIODS), x, Coupled())
        for i, x in enumerate(inputs)
    )
    assert public_side(a, capsys, []) != public_side(b, capsys, [])


def leak_in_a_note(patch: pytest.MonkeyPatch) -> None:
    step = FixedWindow.step

    def leaking(self: FixedWindow, state: Any, counts: Vector, draw: Draw) -> tuple[Any, Any]:
        after, output = step(self, state, counts, draw)
        if output is not None:
            output = replace(output, notes={**output.notes, "seen": int(counts[-1])})
        return after, output

    patch.setattr(FixedWindow, "step", leaking)


def leak_in_the_coins(patch: pytest.MonkeyPatch) -> None:
    step = Cumulative.step

    def leaking(self: Cumulative, state: Any, counts: Vector, draw: Draw) -> tuple[Any, Step]:
        draw.coins.random(int(counts[0]))
        return step(self, state, counts, draw)

    patch.setattr(Cumulative, "step", leaking)


def leak_in_a_header(patch: pytest.MonkeyPatch) -> None:
    """The position of the cut, in a record's headers."""
    close = journal.close

    def leaking(before: Any, closed: Any, *, public: Any, **others: Any) -> Any:
        seen = ("seen", str(closed.input.cut[0]).encode())
        public = [replace(r, headers=(*r.headers, seen)) for r in public]
        return close(before, closed, public=public, **others)

    patch.setattr(journal, "close", leaking)


@pytest.mark.parametrize(
    ("leak", "change"),
    [
        (leak_in_a_note, "other values"),
        (leak_in_the_coins, "removed"),
        (leak_in_a_header, "duplicated"),
    ],
)
def test_a_planted_leak_is_noticed(
    leak: Callable[[pytest.MonkeyPatch], None],
    change: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    leak(monkeypatch)
    first = coupled_run(folder / "first", declaration(periods=PERIODS), script(PERIODS))
    other = CHANGES[change](script(PERIODS))
    place, _ = coupled_run(folder / "other", declaration(periods=PERIODS), other, first.answers)
    one, two = (public_side(each_place, capsys, []) for each_place in (first.place, place))
    assert one != two
