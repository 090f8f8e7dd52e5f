"""Nothing is lost, whatever arrives: received = accepted + superseded + rejected + pending."""

import csv
import io
import json
import threading
import uuid
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stream_dp.client import PublicLog
from stream_dp.log.base import Record, Stored
from stream_dp.log.sqlite import SqliteLog
from stream_dp.plan import plan_study
from stream_dp.population import Population
from stream_dp.population import cells as cells_module
from stream_dp.population.cells import CLEARED, Cells
from stream_dp.population.reports import REASONS, Decoder
from stream_dp.privacy.noise import SeededNoise
from stream_dp.services import cli
from stream_dp.services.dead_letters import reasons_of
from stream_dp.services.journal import read as read_journal
from stream_dp.services.markers import close_marker
from stream_dp.services.releaser.releaser import Releaser
from stream_dp.services.snapshots import Snapshots
from stream_dp.services.topics import DEAD_LETTERS, REPORTS
from stream_dp.studyfile import load_study, parse_study

KEY = bytes(range(32))
PERIODS = ("2001", "2002", "2003", "2004")


def make_study(size=None):
    """Three attributes with the three missing rules; a window and a total of each."""
    share = {} if size else {"size_share": "1/10"}
    return parse_study(
        {
            "study": {
                "name": "fuzz",
                "unit": "person",
                "neighbours": "replace_one" if size else "add_remove",
                "rho": 6,
                "delta": "1/1000000",
                "periods": {"first": "2001", "every": "year", "count": len(PERIODS)},
                "population": {"size": size} if size else {},
            },
            "attributes": {
                "a": {"values": [0, 1, 2], "missing": 0},
                "b": {"values": ["x", "y"], "missing": "absent"},
                "c": {"values": [0, 1], "missing": {"carry": True, "first": 1}},
            },
            "releases": [
                {"name": "wa", "kind": "window", "attribute": "a", "width": 2, "rho": 1},
                {"name": "wb", "kind": "window", "attribute": "b", "width": 3, "rho": 1},
                {"name": "wc", "kind": "window", "attribute": "c", "width": 1, "rho": 1},
                {"name": "tb", "kind": "cumulative", "attribute": "b", "event": ["y"], "rho": 1}
                | share,
                {"name": "tc", "kind": "cumulative", "attribute": "c", "event": [0], "rho": 1}
                | share,
            ],
        }
    )


OPEN, BOUNDED = make_study(), make_study(4)


def stored(value, offset=0, partition=0):
    return Stored(partition, offset, 0, None, value, ())


def rows(cells):
    """Cells as tuples in a fixed order, to compare."""
    return sorted(zip(*(column.tolist() for column in cells.columns()), strict=True))


# What may arrive.

plain_values = st.sampled_from([0, 1, 2, "0", "1", "2", "x", "y", "absent", None])
wild = st.one_of(
    st.integers(),
    st.sampled_from([2**63 - 1, 2**63, 2**64, -(2**63), 10**40, True, False, 0.0, 1.0, 1.5, 1e300]),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)
any_value = plain_values | wild
people = st.sampled_from(["p1", "p2", "p3", "p4", "p5", "p6", 7, "7"])
periods = st.sampled_from([*PERIODS, 2001, 2002, "2000", "2005", 2005, "", "2001 ", None, 2001.0])
names = st.sampled_from(["a", "b", "c"])
reports = st.fixed_dictionaries(
    {
        "person": people | wild | st.just("") | st.just("n" * 257),
        "period": st.sampled_from(PERIODS) | periods | wild,
        "values": st.dictionaries(
            names | st.sampled_from(["d", "", "A"]), plain_values | any_value, max_size=4
        ),
    }
)
broken = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"",
            b"null",
            b"[]",
            b"{}",
            b"1",
            b'"x"',
            b"NaN",
            b'{"person": "p1", "period": "2001", "values": {"a": NaN}}',
            b'{"person": "p1", "period": "2001", "values": {"a": 1}',
            b'{"person": "p1", "period": "2001", "values": {"a": 1}} x',
            b'{"person": "p1", "period": "2001", "values": []}',
            b'{"person": "p1", "period": "2001", "values": {}}',
            b'{"person": "p1", "period": "2001", "values": null}',
            b'{"person": "p1", "period": "2001"}',
            b'{"period": "2001", "values": {"a": 1}}',
            b'{"person": {}, "period": [], "values": {"a": 1}}',
            b'{"person": "\\ud800", "period": "2001", "values": {"a": 1}}',
            b'{"person": "\xed\xa0\x80", "period": "2001", "values": {"a": 1}}',
            b'{"person": "p1", "period": "2001", "values": {"\\udc00": 1}}',
            b"\xef\xbb\xbf{}",
            b"[" * 100_000,
            b'{"person": "p1", "period": "2001", "values": {"a": ' + b"[" * 50_000,
            b'{"person":' * 20_000,
        ]
    ),
)
json_bytes = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=True) | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["person", "period", "values", "a"]), inner)
    ),
    max_leaves=6,
).map(lambda value: json.dumps(value).encode())
raw = st.one_of(broken, json_bytes, reports.map(lambda r: json.dumps(r).encode()))


# The decoder.


@settings(max_examples=300)
@given(st.lists(raw, max_size=12), st.integers(0, 3))
def test_every_record_gives_cells_or_a_reason(batch, closed):
    records = [stored(value, i) for i, value in enumerate(batch)]
    cells, rejected = Decoder(OPEN, KEY).decode(records, closed)
    for one in rejected:
        assert set(one.cells) <= set(REASONS)
        assert all(count > 0 for count in one.cells.values())
    assert len({one.place for one in rejected}) == len(rejected)
    assert set(cells.offset.tolist()) | {one.place for one in rejected} == set(range(len(batch)))
    assert (cells.period > closed).all()
    assert (cells.code[cells.attribute == 0] != 3).all()
    assert set(cells.code.tolist()) <= {0, 1, 2, CLEARED}


@settings(max_examples=200)
@given(st.lists(raw, min_size=1, max_size=8), st.integers(0, 3))
def test_a_record_does_not_change_what_its_neighbours_give(batch, closed):
    decoder = Decoder(OPEN, KEY)
    records = [stored(value, i) for i, value in enumerate(batch)]
    cells, rejected = decoder.decode(records, closed)
    alone = [decoder.decode([record], closed) for record in records]
    assert rows(cells) == sorted(row for one, _ in alone for row in rows(one))
    reasons = {one.place: one.cells for one in rejected}
    assert reasons == {i: told[0].cells for i, (_, told) in enumerate(alone) if told}


@settings(max_examples=400)
@given(reports.filter(lambda r: r["values"]), st.integers(0, 3))
def test_both_paths_of_the_decoder_agree(report, closed):
    # An attribute that is not declared sends a report the long way; it fails like the report
    # does as a whole, or else by itself.
    decoder = Decoder(OPEN, KEY)
    longer = {**report, "values": {**report["values"], "undeclared": 1}}
    plain, why = decoder.decode([stored(json.dumps(report).encode())], closed)
    odd, why_odd = decoder.decode([stored(json.dumps(longer).encode())], closed)
    assert rows(plain) == rows(odd)
    reasons = Counter(why[0].cells if why else {})
    whole = next((r for r in reasons if r in {"person", "period", "late"}), "attribute")
    assert reasons + Counter({whole: 1}) == Counter(why_odd[0].cells)


def test_the_same_number_of_a_year_is_the_same_period_on_both_paths():
    early = {
        "study": {
            "name": "early",
            "unit": "person",
            "neighbours": "replace_one",
            "rho": 1,
            "delta": "1/10",
            "periods": {"first": "0999", "every": "year", "count": 2},
            "population": {"size": 1},
        },
        "attributes": {"a": {"values": [0, 1], "missing": 0}},
        "releases": [{"name": "w", "kind": "window", "attribute": "a", "width": 1, "rho": 1}],
    }
    decoder = Decoder(parse_study(early), KEY)
    for period in (999, "0999", 1000, "1000", "999"):
        plain = {"person": "p", "period": period, "values": {"a": 1}}
        odd = {"person": "p", "period": period, "values": {"a": 1, "z": 1}}
        found = [len(decoder.decode([stored(json.dumps(x).encode())], 0)[0]) for x in (plain, odd)]
        assert found[0] == found[1], period


def test_of_an_attribute_that_is_there_twice_the_last_value_counts():
    decoder = Decoder(OPEN, KEY)
    for extra in (b"", b', "z": 1'):
        text = b'{"person": "p", "period": "2001", "values": {"a": 1, "a": 2%s}}' % extra
        cells, _ = decoder.decode([stored(text)], 0)
        assert cells.code.tolist() == [2]


def test_ids_are_text_and_hashed_with_the_key():
    def hashes(person, key=KEY):
        text = json.dumps({"person": person, "period": "2001", "values": {"a": 1}})
        cells, _ = Decoder(OPEN, key).decode([stored(text.encode())], 0)
        return cells.hi.tolist(), cells.lo.tolist()

    assert hashes(7) == hashes("7")
    assert hashes("7") != hashes("07")
    assert hashes("p") != hashes("p ")
    assert hashes("p") != hashes("p", bytes(32))
    assert hashes("\u00e9") != hashes("e\u0301")
    assert len(hashes("n" * 256)[0]) == 1
    assert len(hashes("n" * 257)[0]) == 0


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

    def close(self):
        """Symbols by attribute, a code for every slot; counts by release."""
        self.period += 1
        final = {}
        for cell in [cell for cell in self.waiting if cell[1] == self.period]:
            found = self.waiting.pop(cell)
            self.accounting["superseded"] += len(found) - 1
            final[cell] = max(found, key=lambda x: x[0])[1]
        known = {person for (person, _, _), value in final.items() if value is not None}
        new = sorted(known - set(self.slots), key=self.order)
        room = None if self.study.size is None else self.study.size - len(self.slots)
        self.slots += new[:room]
        refused = [
            c for c, value in final.items() if value is not None and c[0] not in set(self.slots)
        ]
        if refused:
            self.rejected["full"] += len(refused)
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


def check_balance(accounting):
    assert accounting.received == (
        accounting.accepted
        + accounting.superseded
        + sum(accounting.rejected.values())
        + accounting.pending
    )
    assert min(accounting.accepted, accounting.superseded, accounting.pending) >= 0


def check_against_model(study, decoder, stream, data, *, saving=True, merging=False):
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
            population = Population.load(study, file.getvalue())
        symbols, counts = model.close()
        closed = population.close()
        assert {k: v.tolist() for k, v in closed.symbols.items()} == symbols
        assert {k: v.tolist() for k, v in closed.counts.items()} == counts
        found = population.accounting
        check_balance(found)
        assert found.received == model.accounting["received"]
        assert found.accepted == model.accounting["accepted"]
        assert +found.rejected == +model.rejected
        if not merging:
            assert found.superseded == model.accounting["superseded"]
            assert found.pending == model.pending
        assert population.size == (study.size or len(model.slots))
    assert population.accounting.pending == 0
    assert population.accounting.superseded == model.accounting["superseded"]
    return population


@pytest.mark.parametrize("study", [OPEN, BOUNDED], ids=["open", "bounded"])
@settings(max_examples=120)
@given(stream=streams, data=st.data())
def test_the_population_is_what_a_dictionary_would_be(study, stream, data):
    check_against_model(study, Decoder(study, KEY), stream, data)


@pytest.mark.parametrize("study", [OPEN, BOUNDED], ids=["open", "bounded"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stream=streams, data=st.data(), size=st.integers(1, 6))
def test_merging_what_waits_changes_nothing(monkeypatch, study, stream, data, size):
    monkeypatch.setattr(cells_module, "_COMPACT", size)
    check_against_model(study, Decoder(study, KEY), stream, data, merging=True)


class Colliding(Decoder):
    """Everybody's hash begins with the same 64 bits, or with one of two."""

    kinds = 1

    def hashes(self, persons):
        found = super().hashes(persons)
        found[:, 0] %= self.kinds
        return found


@pytest.mark.parametrize("study", [OPEN, BOUNDED], ids=["open", "bounded"])
@pytest.mark.parametrize("kinds", [1, 2])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stream=streams, data=st.data(), size=st.sampled_from([3, 1 << 20]))
def test_half_a_hash_in_common_neither_merges_nor_loses(
    monkeypatch, study, kinds, stream, data, size
):
    monkeypatch.setattr(cells_module, "_COMPACT", size)
    decoder = Colliding(study, KEY)
    decoder.kinds = kinds
    check_against_model(study, decoder, stream, data, merging=True)


def test_half_a_hash_in_common_and_one_question_only():
    decoder, population = Colliding(OPEN, KEY), Population(OPEN)
    told = [("p1", 1), ("p2", 2), ("p1", 0), ("p2", 1), ("p3", 2)]
    batch = [stored(report(person, a=value), i) for i, (person, value) in enumerate(told)]
    population.fold(*decoder.decode(batch, 0))
    assert sorted(population.close().symbols["a"].tolist()) == [0, 1, 2]
    assert population.accounting.superseded == 2
    assert population.accounting.accepted == 3


@settings(max_examples=80)
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
        held = [np.load(io.BytesIO(state)) for state in states]
        assert held[0].files == held[1].files
        for name in held[0].files:
            assert np.array_equal(held[0][name], held[1][name]), name


def report(person, period="2001", **values):
    return json.dumps({"person": person, "period": period, "values": values}).encode()


def test_who_is_refused_once_is_refused_for_good():
    decoder, population = Decoder(BOUNDED, KEY), Population(BOUNDED)
    everybody = [f"p{i}" for i in range(20)]
    inside = set(sorted(everybody, key=by_hash(decoder))[:4])
    for number, period in enumerate(PERIODS):
        batch = [stored(report(p, period, a=1), 20 * number + i) for i, p in enumerate(everybody)]
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
    batch = [stored(report(f"p{i}", a=None), i) for i in range(10)]
    batch += [stored(report(f"q{i}", a=1), 10 + i) for i in range(4)]
    population.fold(*decoder.decode(batch, 0))
    closed = population.close()
    assert closed.symbols["a"].tolist() == [1, 1, 1, 1]
    assert not any(map(len, closed.refused.values()))
    assert population.accounting.accepted == 14


def test_millions_of_repeats_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(cells_module, "_COMPACT", 1000)
    decoder, population = Decoder(OPEN, KEY), Population(OPEN)
    for start in range(0, 30_000, 500):
        batch = [stored(report(f"p{i % 10}", "2003", a=1), start + i) for i in range(500)]
        population.fold(*decoder.decode(batch, 0))
        assert len(population._waiting.all()) < 1600
    assert population.accounting.received == 30_000
    for _ in PERIODS:
        population.close()
    assert population.accounting.accepted == 10
    check_balance(population.accounting)


# The whole service.


class Service:
    """A releaser on two files, with simulated noise."""

    def __init__(self, folder, study, partitions=2):
        folder.mkdir()
        self.study, self.folder, self.partitions = study, folder, partitions
        self.log = SqliteLog(folder / "log.db", timed=(REPORTS,))
        self.public = SqliteLog(folder / "public.db", public=True)
        # Durability is not what is tested here.
        for log in (self.log, self.public):
            log._db.execute("PRAGMA synchronous = OFF")
        self.log.create({REPORTS: partitions})
        self.lines = []

    def close_logs(self):
        self.log.close()
        self.public.close()

    def mark(self, number):
        self.log.append(close_marker(number, p) for p in range(self.partitions))

    def run(self):
        return Releaser(
            plan_study(self.study),
            self.log,
            self.public,
            Snapshots("snapshots", self.folder),
            self.partitions,
            source=SeededNoise(1),
            tell=self.lines.append,
            stop=threading.Event(),
        ).run(until_idle=True)

    def letters(self):
        letters, batch = [], None
        while batch is None or not batch.at_end:
            start = {0: 0} if batch is None else batch.next
            batch = self.log.read(DEAD_LETTERS, start, 100_000, 0)
            letters += batch.records
        return letters

    def accounting(self):
        return read_journal(self.log)[-1].message.head["accounting"]


def balanced(accounting):
    return accounting["received"] == (
        accounting["accepted"]
        + accounting["superseded"]
        + sum(accounting["rejected"].values())
        + accounting["pending"]
    )


SECRET = "Zq7secret"
secret_reports = st.fixed_dictionaries(
    {
        "person": people | st.just(SECRET) | wild,
        "period": st.sampled_from([*PERIODS, SECRET, 2001]) | wild,
        "values": st.dictionaries(
            st.sampled_from(["a", "b", "c", SECRET]), any_value | st.just(SECRET), max_size=3
        ),
    }
).map(lambda r: json.dumps(r).encode())


@pytest.mark.parametrize("study", [OPEN, BOUNDED], ids=["open", "bounded"])
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    segments=st.lists(
        st.lists(st.tuples(st.integers(0, 1), secret_reports | raw), max_size=12),
        min_size=len(PERIODS),
        max_size=len(PERIODS),
    ),
    stop=st.booleans(),
)
def test_the_service_lives_and_accounts_for_everything(tmp_path, study, segments, stop):
    service = Service(tmp_path / uuid.uuid4().hex, study)
    for number, segment_ in enumerate(segments, 1):
        service.log.append(Record(REPORTS, v, b"k", (), p) for p, v in segment_)
        service.mark(number)
        if stop or number == len(segments):
            assert service.run() is (number == len(segments))
            accounting = service.accounting()
            assert balanced(accounting)
            assert reasons_of(service.letters()) == accounting["rejected"]
    assert accounting["pending"] == 0
    assert all(count >= 0 for count in accounting["rejected"].values())
    for line in service.lines:
        assert SECRET not in line
    for letter in service.letters():
        assert SECRET.encode() not in (letter.key or b"")
        assert all(SECRET.encode() not in value for _, value in letter.headers)
    periods = [r.certificate.period for r in PublicLog(service.public).of("wa")]
    assert periods == list(PERIODS[1:])
    service.close_logs()


def test_a_record_that_fails_twice_is_counted_twice(tmp_path):
    service = Service(tmp_path / "s", BOUNDED, partitions=1)
    # Everybody's a is unusable and b is good, but there is no place for two of them.
    service.log.append(Record(REPORTS, report(f"p{i}", a=99, b="x")) for i in range(6))
    service.mark(1)
    service.run()
    accounting = service.accounting()
    assert accounting["rejected"] == {"full": 2, "value": 6}
    assert reasons_of(service.letters()) == accounting["rejected"]
    assert balanced(accounting)
    service.close_logs()


@pytest.mark.parametrize("word", [b"", b"x", b"0", b"-1", b"1.5", b"100000", b"\xb2"])
def test_a_record_that_only_looks_like_a_marker_is_not_lost(tmp_path, word):
    service = Service(tmp_path / "s", OPEN)
    header = (("stream-dp-close", word),)
    service.log.append([Record(REPORTS, report("p", a=1), None, header, 0)])
    service.log.append([Record(REPORTS, None, None, header, 1)])
    assert service.run() is False
    service.mark(1)
    service.run()
    accounting = service.accounting()
    assert accounting["received"] == 2
    assert accounting["accepted"] == 1
    assert reasons_of(service.letters()) == accounting["rejected"] == {"unreadable": 1}
    service.close_logs()


def test_dead_letters_hold_the_record_and_say_where_it_was(tmp_path):
    service = Service(tmp_path / "s", OPEN)
    bad = report(SECRET, "1999", a=1, b="x")
    service.log.append([Record(REPORTS, report("p"), None, (), 1)])
    service.log.append([Record(REPORTS, bad, b"key", (("h", b"1"),), 1)])
    service.mark(1)
    service.run()
    first, second = service.letters()
    held = dict(second.headers)
    assert second.value == bad
    assert second.key == b"reports/1/1"
    assert held["__connect.errors.topic"] == b"reports"
    assert (held["__connect.errors.partition"], held["__connect.errors.offset"]) == (b"1", b"1")
    assert held["__connect.errors.exception.message"] == REASONS["period"].encode()
    assert held["stream-dp-cells"] == b"period=2"
    assert dict(first.headers)["stream-dp-cells"] == b"unreadable=1"
    service.close_logs()


def test_records_of_the_largest_size_that_fail_are_kept(tmp_path):
    service = Service(tmp_path / "s", OPEN)
    service.log.append([Record(REPORTS, b"x" * 1_000_000)])
    service.mark(1)
    service.run()
    (letter,) = service.letters()
    assert letter.value.startswith(b"x" * 900_000)
    assert service.accounting()["rejected"] == {"unreadable": 1}
    service.close_logs()


# Tables through the command.

STUDY_FILE = """
[study]
name = "fuzz"
unit = "person"
neighbours = "replace_one"
rho = 1
delta = 1e-6
[study.periods]
first = 2001
every = "year"
count = 2
[study.population]
size = 5
[attributes.a]
values = [0, 1]
missing = 0
[attributes.b]
values = ["x", "y"]
missing = "absent"
[[releases]]
name = "w"
kind = "window"
attribute = "a"
width = 1
rho = 1
"""
cell_text = st.sampled_from(["0", "1", "x", "y", "", "2001", "2002", "p1", "p2"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=5
)
headers = st.permutations(["person", "period", "a", "b", "c"]).map(lambda names: names[:5])


def as_csv(table):
    file = io.StringIO()
    csv.writer(file).writerows(table)
    return file.getvalue().encode()


tables = st.builds(
    lambda head, body: as_csv([head, *body]),
    headers,
    st.lists(st.lists(cell_text, min_size=5, max_size=5), max_size=6),
)
any_csv = st.one_of(
    tables,
    tables.flatmap(lambda t: st.integers(0, len(t)).map(lambda n: t[:n])),
    st.text(max_size=60).map(lambda s: s.encode("utf-8", "surrogatepass")),
    st.text("person,period\n\r\"',;01 ab", max_size=80).map(
        lambda s: b"person,period,a\n" + s.encode()
    ),
    st.binary(max_size=60),
    st.binary(max_size=60).map(lambda b: b"person,period,a,b\n" + b),
)


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(any_csv, st.booleans())
def test_any_table_is_sent_or_refused_in_words(tmp_path, capsys, content, wide):
    folder = tmp_path / uuid.uuid4().hex
    folder.mkdir()
    (folder / "study.toml").write_text(STUDY_FILE)
    (folder / "table.csv").write_bytes(content)
    layout = ["--attribute", "a", "--columns", "a=2001,b=2002"] if wide else []
    code = cli.main(["send", str(folder / "study.toml"), str(folder / "table.csv"), *layout])
    told = capsys.readouterr().err
    assert code in (0, 2)
    assert (code == 2) == told.startswith("stream-dp: ")
    assert "Traceback" not in told
    if not (folder / "fuzz.db").exists():
        return
    log = SqliteLog(folder / "fuzz.db", readonly=True)
    records = log.read(REPORTS, {0: 0}, 10_000, 0).records
    log.close()
    study, _ = load_study(folder / "study.toml")
    population = Population(study)
    cells, rejected = Decoder(study, KEY).decode(records, 0)
    assert isinstance(cells, Cells)
    population.fold(cells, rejected)
    population.close()
    population.close()
    check_balance(population.accounting)
    assert population.accounting.pending == 0
    assert population.accounting.received >= len(records)
