"""The population, against a dictionary: nothing is lost, whatever arrives."""

import io
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.arrivals import (
    BOUNDED,
    CLOSED,
    KEY,
    OPEN,
    PERIODS,
    check_balance,
    report_bytes,
    stored,
)
from kit.examples import SHARED

from stream_dp.population import cells as cells_module
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import Decoder

# The population, against a dictionary.


class Model:
    """The same, person by person and cell by cell."""

    def __init__(self, study, order):
        self.study, self.order = study, order
        self.period = 0
        self.accounting = Counter()
        self.rejected = Counter()
        self.waiting = {}
        self.slots, self.joined = [], {}
        self.history = {name: {} for name in study.attributes}
        self.entered = {release.name: set() for release in study.releases}

    def take(self, partition, offset, report):
        """One report as Python values; None stands for what cannot be read."""
        if report is None or not report["values"]:
            self.accounting["received"] += 1
            self.rejected["unreadable"] += 1
            return
        values = report["values"]
        self.accounting["received"] += len(values)
        number = PERIODS.index(report["period"]) + 1 if report["period"] in PERIODS else 0
        if number <= self.period:
            self.rejected["late" if number else "period"] += len(values)
            return
        for name, value in values.items():
            if name not in self.study.attributes:
                self.rejected["attribute"] += 1
            elif value is not None and value not in self.study.attributes[name].codes:
                self.rejected["value"] += 1
            else:
                cell = (str(report["person"]), number, name)
                self.waiting.setdefault(cell, []).append(((partition, offset), value))

    @property
    def pending(self):
        return sum(map(len, self.waiting.values()))

    def waiting_for(self, number):
        return sum(len(cells) for cell, cells in self.waiting.items() if cell[1] == number)

    def close(self):
        """Symbols by attribute, a code for every slot; counts by release."""
        self.period += 1
        final = {}
        for cell in [cell for cell in self.waiting if cell[1] == self.period]:
            waiting = self.waiting.pop(cell)
            self.accounting["superseded"] += len(waiting) - 1
            final[cell] = max(waiting, key=lambda x: x[0])[1]
        known = {person for (person, _, _), value in final.items() if value is not None}
        new = sorted(known - set(self.slots), key=self.order)
        room = None if self.study.size is None else self.study.size - len(self.slots)
        if self.study.last_entry is not None and self.period > self.study.last_entry:
            room = 0
        self.slots += new[:room]
        refused = [
            c for c, value in final.items() if value is not None and c[0] not in set(self.slots)
        ]
        if refused:
            self.rejected["full" if self.study.size else "closed"] += len(refused)
        self.accounting["accepted"] += len(final) - len(refused)
        places = self.slots + [None] * ((self.study.size or 0) - len(self.slots))
        symbols = {}
        for name, attribute in self.study.attributes.items():
            codes = []
            for slot, person in enumerate(places):
                past = self.history[name].setdefault(slot, [])
                # A newcomer's past is that of a person of whom nothing is known.
                past += [attribute.first_code] * (self.period - 1 - len(past))
                value = final.get((person, self.period, name))
                if value is not None:
                    code = attribute.codes[value]
                elif attribute.carries and past:
                    code = past[-1]
                else:
                    code = attribute.first_code
                past.append(code)
                codes.append(code)
            symbols[name] = codes
        return symbols, {r.name: self.count(r, len(places)) for r in self.study.releases}

    def count(self, release, people):
        attribute = self.study.attributes[release.attribute]
        past = self.history[release.attribute]
        if release.kind == "window":
            q = len(attribute.symbols)
            counts = [0] * q**release.width
            for slot in range(people):
                code = 0
                for i in range(self.period - release.width, self.period):
                    code = code * q + (past[slot][i] if i >= 0 else attribute.first_code)
                counts[code] += 1
            absent = self.study.presence(release)
            if absent is not None:
                kinds = [0] * 2 ** (2 * release.width - 1)
                for slot in range(people):
                    here = [code != absent for code in past[slot][::-1][: 2 * release.width - 1]]
                    kinds[sum(bit << g for g, bit in enumerate(here))] += 1
                counts += kinds
            return counts
        event = set(self.study.event_codes(release))
        gone = attribute.symbols.index("absent") if "absent" in attribute.symbols else None
        here = {slot for slot in range(people) if past[slot][-1] != gone}
        counts = [0] * len(PERIODS) + [len(here - self.entered[release.name])]
        self.entered[release.name] |= here
        for slot in range(people):
            joined = self.since(slot)
            hits = [i for i in range(joined, self.period) if past[slot][i] in event]
            if past[slot][-1] in event:
                counts[len(hits) - 1] += 1
        return counts

    def since(self, slot):
        """Totals begin where a person gets a place; declared places are there from the start."""
        if self.study.size is not None:
            return 0
        return self.joined.setdefault(slot, self.period - 1)


good = st.fixed_dictionaries(
    {
        "person": st.sampled_from(["p1", "p2", "p3", "p4", "p5", "p6", "7", 7]),
        "period": st.sampled_from([*PERIODS, *PERIODS, *PERIODS, "2009"]),
        "values": st.dictionaries(
            st.sampled_from(["a", "b", "c", "a", "b", "c", "d"]),
            st.sampled_from([0, 1, "1", "x", "y", "absent", None, 2, "z"]),
            max_size=3,
        ),
    }
)
segment = st.lists(st.tuples(st.integers(0, 2), good | st.none()), max_size=14)
streams = st.lists(segment, min_size=len(PERIODS), max_size=len(PERIODS))


def cut_up(data, segment_, offsets):
    """A segment as records by partition, and these in batches of any interleaving."""
    lanes = {p: [] for p in range(3)}
    for partition, report in segment_:
        value = b"?" if report is None else json.dumps(report).encode()
        lanes[partition].append((stored(value, offsets[partition], partition), report))
        offsets[partition] += 1
    ordered, batches = [x for lane in lanes.values() for x in lane], []
    while any(lanes.values()):
        batch = []
        for partition in data.draw(st.permutations(range(3))):
            count = data.draw(st.integers(0, len(lanes[partition])))
            batch += lanes[partition][:count]
            del lanes[partition][:count]
        if batch:
            batches.append([record for record, _ in batch])
    return ordered, batches


def by_hash(decoder):
    return lambda person: tuple(decoder.hashes([person])[0].tolist())


def check_against_model(study, decoder, stream, data, *, saving=True):
    """Run a stream through the decoder and the population and through the model."""
    population, model = Population(study), Model(study, by_hash(decoder))
    offsets = Counter()
    for segment_ in stream:
        ordered, batches = cut_up(data, segment_, offsets)
        for record, report in ordered:
            model.take(record.partition, record.offset, report)
        for batch in batches:
            population.fold(*decoder.decode(batch, population.period))
            check_balance(population.accounting)
        if saving and data.draw(st.booleans()):
            file = io.BytesIO()
            population.save(file)
            population = Population.load(study, io.BytesIO(file.getvalue()))
        symbols, counts = model.close()
        closed = population.close()
        assert {k: v.tolist() for k, v in closed.symbols.items()} == symbols
        assert {k: v.tolist() for k, v in closed.counts.items()} == counts
        accounting = population.accounting
        check_balance(accounting)
        assert accounting.received == model.accounting["received"]
        assert accounting.accepted == model.accounting["accepted"]
        assert accounting.rejected == +model.rejected
        assert accounting.superseded == model.accounting["superseded"]
        assert accounting.pending == model.pending
        assert population.size == (study.size or len(model.slots))
        assert population.open_cells == model.waiting_for(model.period + 1)
    assert population.accounting.pending == 0
    return population


class Colliding(Decoder):
    """Everybody's hash begins with the same 64 bits, or with one of a few."""

    kinds = 1

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._compiled = None  # which has hashes of its own

    def hashes(self, persons):
        hashed = super().hashes(persons)
        hashed[:, 0] %= self.kinds
        return hashed


STUDIES = {"open": OPEN, "bounded": BOUNDED, "closed": CLOSED}
HASHES = {"hashes": None, "half in common": 1, "two halves": 2}


@pytest.mark.parametrize("kinds", HASHES.values(), ids=HASHES)
@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
@settings(max_examples=12, suppress_health_check=SHARED)
@given(size=st.sampled_from([*range(1, 7), 1 << 20]), stream=streams, data=st.data())
def test_the_population_is_what_a_dictionary_would_be(
    monkeypatch, study, kinds, stream, data, size
):
    """Whenever what waits is merged, and whatever hashes have in common."""
    monkeypatch.setattr(cells_module, "_COMPACT", size)
    decoder = (Decoder if kinds is None else Colliding)(study, KEY)
    decoder.kinds = kinds
    check_against_model(study, decoder, stream, data)


def test_half_a_hash_in_common_and_one_question_only():
    decoder, population = Colliding(OPEN, KEY), Population(OPEN)
    answers = [("p1", 1), ("p2", 2), ("p1", 0), ("p2", 1), ("p3", 2)]
    batch = [stored(report_bytes(person, a=value), i) for i, (person, value) in enumerate(answers)]
    population.fold(*decoder.decode(batch, 0))
    assert sorted(population.close().symbols["a"].tolist()) == [0, 1, 2]
    assert population.accounting.superseded == 2
    assert population.accounting.accepted == 3


@settings(max_examples=6)
@given(stream=streams, data=st.data())
def test_interleaving_and_batches_change_nothing(stream, data):
    decoder, states = Decoder(OPEN, KEY), []
    populations = [Population(OPEN), Population(OPEN)]
    offsets = [Counter(), Counter()]
    for segment_ in stream:
        for population, places in zip(populations, offsets, strict=True):
            _, batches = cut_up(data, segment_, places)
            for batch in batches:
                population.fold(*decoder.decode(batch, population.period))
            population.close()
        states = []
        for population in populations:
            file = io.BytesIO()
            population.save(file)
            states.append(file.getvalue())
        arrays = [np.load(io.BytesIO(state)) for state in states]
        assert arrays[0].files == arrays[1].files
        for name in arrays[0].files:
            assert np.array_equal(arrays[0][name], arrays[1][name]), name


@settings(max_examples=12, suppress_health_check=SHARED)
@given(
    compact=st.sampled_from([7, 1 << 20]),
    lanes=st.lists(st.integers(0, 2), min_size=1, max_size=40),
    data=st.data(),
)
def test_the_accounting_is_the_same_however_the_input_lies(monkeypatch, compact, lanes, data):
    """The same reports in one partition and one batch, and spread over several of both."""
    monkeypatch.setattr(cells_module, "_COMPACT", compact)
    decoder, populations = Decoder(OPEN, KEY), [Population(OPEN), Population(OPEN)]
    period = st.sampled_from(PERIODS[:2])
    values = [report_bytes(f"p{i % 4}", data.draw(period), a=i % 3) for i in range(len(lanes))]
    records = [stored(value, i) for i, value in enumerate(values)]
    spread = [record._replace(partition=p) for record, p in zip(records, lanes, strict=True)]
    populations[0].fold(*decoder.decode(records, 0))
    for record in spread:
        populations[1].fold(*decoder.decode([record], 0))
    for number in range(3):
        accounts = [population.accounting.as_dict() for population in populations]
        assert accounts[0] == accounts[1]
        if number < 2:
            for population in populations:
                population.close()
    assert accounts[0]["superseded"] == len(values) - len(
        {(i % 4, json.loads(v)["period"]) for i, v in enumerate(values)}
    )


def test_who_is_refused_once_is_refused_for_good():
    decoder, population = Decoder(BOUNDED, KEY), Population(BOUNDED)
    everybody = [f"p{i}" for i in range(20)]
    inside = set(sorted(everybody, key=by_hash(decoder))[:4])
    for number, period in enumerate(PERIODS):
        batch = [
            stored(report_bytes(p, period, a=1), 20 * number + i) for i, p in enumerate(everybody)
        ]
        population.fold(*decoder.decode(batch, number))
        closed = population.close()
        assert closed.symbols["a"].tolist() == [1] * 4
        full = closed.refused["full"]
        assert len(full) == 16
        refused = {everybody[o - 20 * number] for o in full.offset.tolist()}
        assert refused == set(everybody) - inside
    assert population.accounting.rejected == {"full": 64}
    assert population.accounting.accepted == 16
    check_balance(population.accounting)


def test_who_only_clears_takes_no_place():
    decoder, population = Decoder(BOUNDED, KEY), Population(BOUNDED)
    batch = [stored(report_bytes(f"p{i}", a=None), i) for i in range(10)]
    batch += [stored(report_bytes(f"q{i}", a=1), 10 + i) for i in range(4)]
    population.fold(*decoder.decode(batch, 0))
    closed = population.close()
    assert closed.symbols["a"].tolist() == [1, 1, 1, 1]
    assert not any(map(len, closed.refused.values()))
    assert population.accounting.accepted == 14


def test_millions_of_repeats_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(cells_module, "_COMPACT", 1000)
    decoder, population = Decoder(OPEN, KEY), Population(OPEN)
    for start in range(0, 30_000, 500):
        batch = [stored(report_bytes(f"p{i % 10}", "2003", a=1), start + i) for i in range(500)]
        population.fold(*decoder.decode(batch, 0))
        assert len(population.waiting.all()) < 1600
    assert population.accounting.received == 30_000
    for _ in PERIODS:
        population.close()
    assert population.accounting.accepted == 10
    check_balance(population.accounting)
