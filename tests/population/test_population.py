"""The population at sizes and shapes that the dictionary of the fuzz tests does not reach."""

import io
import json

import numpy as np
import pytest
from kit.studies import attribute, cumulative, small_study, window

from stream_dp.errors import Inconsistent
from stream_dp.panel import window_codes
from stream_dp.population.cells import CLEARED, Cells, cell_type, code_type
from stream_dp.population.population import Population


def make(size=None, count=6, values=5, width=4, carry=False):
    rows = {"rows": 1000} if size is None else {}
    return small_study(
        name="many",
        neighbours="replace_one" if size else "add_remove",
        rho=3,
        periods={"first": 1, "every": "step", "count": count},
        size=size,
        attributes={
            "a": attribute(
                list(range(values)), missing={"carry": True, "first": 2} if carry else 0
            ),
            "unused": attribute(["x", "y"], missing="absent"),
        },
        releases=[
            window("w", "a", width=width, rho=1),
            window("narrow", "a", width=1, rho=1),
            cumulative("c", "a", event=[1, 2][: values - 1], rho=1, **rows),
        ],
    )


def cells(people, period, codes, start=0, attribute=0):
    """A cell for each person, with hashes made from their numbers."""
    n = len(people)
    hashes = people.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return Cells(
        hi=hashes,
        lo=people.astype(np.uint64),
        period=np.full(n, period, np.uint16),
        attribute=np.full(n, attribute, np.uint16),
        code=np.asarray(codes, np.int16),
        partition=np.zeros(n, np.uint16),
        offset=np.arange(start, start + n, dtype=np.int64),
    )


def by_person(population, symbols, people):
    """Symbols in the order of the people, not of their slots."""
    keys = cells(people, 1, np.zeros(len(people)))
    return symbols[population.slots(keys.hi, keys.lo)]


@pytest.mark.parametrize("size", [None, 20_000])
@pytest.mark.parametrize("carry", [False, True])
def test_twenty_thousand_people(size, carry):
    rng, study = np.random.default_rng(4), make(size, carry=carry)
    people, population = np.arange(20_000), Population(study)
    first = 2 if carry else 0
    truth = np.zeros((20_000, 0), np.uint8)
    for period in range(1, 7):
        before = truth[:, -1] if truth.shape[1] else np.full(20_000, first)
        answered = rng.random(20_000) < 0.7 if period > 1 else np.ones(20_000, bool)
        new = rng.integers(0, 5, 20_000)
        order = rng.permutation(np.flatnonzero(answered))
        for start in range(0, order.size, 3000):
            some = order[start : start + 3000]
            population.fold(cells(people[some], period, new[some], start), [])
        symbols = np.where(answered, new, before if carry else 0).astype(np.uint8)
        truth = np.column_stack([truth, symbols])
        closed = population.close()
        assert np.array_equal(by_person(population, closed.symbols["a"], people), symbols)
        padded = np.column_stack([np.full((20_000, 3), first, np.uint8), truth])
        expected = np.bincount(window_codes(padded[:, -4:], 5), minlength=625)
        assert np.array_equal(closed.counts["w"][:625], expected)
        assert np.array_equal(closed.counts["narrow"][:5], np.bincount(symbols, minlength=5))
        if size is None:
            there = np.column_stack([np.zeros((20_000, 6), bool), truth != first])[:, -7:]
            when = np.bincount(there @ (1 << np.arange(7)[::-1]), minlength=128)
            assert np.array_equal(closed.counts["w"][625:], when)
            now = symbols != first
            assert closed.counts["narrow"][5:].tolist() == [(~now).sum(), now.sum()]
        event = np.isin(truth, (1, 2))
        totals = event.sum(axis=1)[event[:, -1]]
        rises = np.append(np.bincount(totals, minlength=7)[1:], 20_000 if period == 1 else 0)
        assert np.array_equal(closed.counts["c"], rises)
        assert (closed.symbols["unused"] == 2).all()
    assert population.accounting.as_dict()["pending"] == 0


@pytest.mark.parametrize("size", [None, 5])
def test_nobody_ever_reports(size):
    population = Population(make(size))
    for period in range(1, 7):
        closed = population.close()
        assert closed.counts["w"][:625].tolist() == [size or 0] + [0] * 624
        assert closed.counts["c"].tolist() == [0] * 6 + [(size or 0) * (period == 1)]
    assert population.size == (size or 0)


def test_one_person_more_changes_nobody_elses_symbols():
    people = np.arange(50)
    codes = people % 5
    populations = []
    for left_out in (None, 17):
        some = people != left_out
        population = Population(make())
        population.fold(cells(people[some], 1, codes[some]), [])
        closed = population.close()
        populations.append((population, closed))
    others = people[people != 17]
    symbols = [by_person(p, c.symbols["a"], others).tolist() for p, c in populations]
    assert symbols[0] == symbols[1] == codes[others].tolist()
    with_, without = (c.counts["narrow"] for _, c in populations)
    assert (with_ - without).tolist() == [0, 0, 1, 0, 0, 0, 1]


def test_the_last_word_counts_and_null_takes_it_back():
    one, study = np.array([1]), make()
    for codes, expected in (
        ([3, 1], 1),
        ([3, CLEARED], 0),
        ([CLEARED, 4], 4),
        ([2, CLEARED, 2], 2),
    ):
        population = Population(study)
        population.fold(cells(np.array([9]), 1, [4], start=100), [])
        for offset, code in enumerate(codes):
            population.fold(cells(one, 1, [code], start=offset), [])
        symbols = population.close().symbols["a"]
        shown = population.slots(*(getattr(cells(one, 1, [0]), x) for x in ("hi", "lo")))
        assert (symbols[shown[0]] if shown[0] >= 0 else 0) == expected
        assert population.accounting.superseded == len(codes) - 1


def test_the_widest_window_and_the_largest_alphabet():
    study = make(values=250, width=2)
    population = Population(study)
    people = np.arange(250)
    for period, codes in ((1, people), (2, people[::-1])):
        population.fold(cells(people, period, codes), [])
        closed = population.close()
    window = closed.counts["w"][: 250**2].reshape(250, 250)
    assert window.sum() == 250
    assert (window[people, people[::-1]] == 1).all()
    study = make(values=2, width=20, count=25)
    population = Population(study)
    for period in range(1, 26):
        population.fold(cells(np.array([1]), period, [period % 2]), [])
        closed = population.close()
    code = int("".join(str(p % 2) for p in range(6, 26)), 2)
    assert np.flatnonzero(closed.counts["w"]).tolist() == [code]


def saved(population):
    file = io.BytesIO()
    population.save(file)
    return file.getvalue()


def test_a_snapshot_holds_everything():
    study = make()
    population = Population(study)
    population.fold(cells(np.arange(30), 1, np.arange(30) % 5), [])
    population.close()
    population.fold(cells(np.arange(10, 40), 3, np.arange(30) % 5, start=30), [])
    again = Population.load(study, io.BytesIO(saved(population)))
    assert saved(again) == saved(population)
    assert again.accounting.as_dict() == population.accounting.as_dict()
    for _ in range(5):
        one, other = population.close(), again.close()
        assert all(np.array_equal(one.counts[k], other.counts[k]) for k in one.counts)
        assert all(np.array_equal(one.symbols[k], other.symbols[k]) for k in one.symbols)
    assert population.accounting == again.accounting


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "zeros"])
def test_damaged_snapshots_are_refused(damage):
    study = make()
    data = saved(Population(study))
    broken = {
        "empty": b"",
        "text": b"not a snapshot",
        "cut": data[: len(data) // 2],
        "zeros": bytes(len(data)),
    }[damage]
    with pytest.raises(Inconsistent, match=r"snapshot: .*replay"):
        Population.load(study, io.BytesIO(broken))


def test_snapshots_of_another_study_or_version_are_refused():
    study, population = make(), Population(make())
    with pytest.raises(Inconsistent, match="of another version or study"):
        Population.load(make(count=7), io.BytesIO(saved(population)))
    arrays = dict(np.load(io.BytesIO(saved(population))))
    head = json.loads(arrays["head"].tobytes())
    head["version"] += 1
    arrays["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
    file = io.BytesIO()
    np.savez(file, **arrays)
    with pytest.raises(Inconsistent, match="of another version or study"):
        Population.load(study, io.BytesIO(file.getvalue()))


def test_the_types_of_codes_are_wide_enough_for_the_symbols():
    for symbols in (2, 256, 257, 1 << 15, (1 << 15) + 1, 1 << 16, (1 << 16) + 1, 1 << 24):
        of_people, of_cells = np.iinfo(code_type(symbols)), np.iinfo(cell_type(symbols))
        assert of_people.max >= symbols - 1
        assert of_cells.max >= symbols - 1
        assert of_cells.min <= CLEARED
    assert (code_type(256), code_type(257), code_type((1 << 16) + 1)) == (
        np.uint8,
        np.uint16,
        np.uint32,
    )
