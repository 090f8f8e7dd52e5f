"""A population in parts counts, books and refuses what the population of everybody does."""

import io
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import arrivals, strata
from kit.studies import attribute, cumulative, small_study, window

from stream_dp.errors import Inconsistent
from stream_dp.log.log import Stored
from stream_dp.population.cells import (
    REASONS,
    CellCounts,
    Part,
    ordered,
    packed,
    part_of,
    split,
    unpacked,
)
from stream_dp.population.population import Population
from stream_dp.population.population_parts import (
    allot,
    close_part,
    join_populations,
    returning,
    returning_part,
    split_population,
    total,
)
from stream_dp.population.report_decoding import Decoder


def stored(value, place):
    partition, offset = place
    return Stored(partition=partition, offset=offset, time=0, key=None, value=value, headers=())


def saved(population):
    file = io.BytesIO()
    population.save(file)
    return file.getvalue()


class InParts:
    """A population in files, which a batch closes: tasks decode, parts close, the rest adds up."""

    def __init__(self, study, decoder, count):
        self.study, self.decoder, self.count = study, decoder, count
        self.files = [saved(Population(study, Part(i, count))) for i in range(count)]
        self.people, self.period = 0, 0
        self.accounting = CellCounts(rejected={})

    def load(self):
        return [
            Population.load(self.study, io.BytesIO(file), Part(i, self.count))
            for i, file in enumerate(self.files)
        ]

    def close(self, tasks):
        """Close a period. tasks: lists of records, in any order."""
        blobs, rejected = [[] for _ in range(self.count)], Counter()
        for records in tasks:
            cells, refused = self.decoder.decode(records, self.period)
            for blob, part in zip(blobs, split(cells, self.count), strict=True):
                blob.append(packed(part))
            for record in refused:
                rejected.update(record.cells)
        gated = [
            returning_part(population, unpacked(blob))
            for population, blob in zip(self.load(), blobs, strict=True)
        ]
        self.returning = returning(self.study, gated, self.period + 1)
        room = None if self.study.size is None else self.study.size - self.people
        closed = self.closed(blobs, [0 if room == 0 else None] * self.count)
        newcomers = [part.newcomers for part in closed]
        if room is not None and sum(newcomers) > room:
            rooms = allot(newcomers, room)
            again = self.closed(blobs, rooms)
            for i, limit in enumerate(rooms):
                if limit == newcomers[i]:  # only these need to be closed again
                    assert self.both[0][i] == self.both[1][i]
            closed = again
        self.files = self.both[-1]
        counts, accounting, self.answering = total(self.study, closed)
        unreadable = CellCounts(received=rejected.total(), rejected=rejected)
        self.accounting = self.accounting.plus(accounting).plus(unreadable)
        self.people, self.period = sum(part.people for part in closed), self.period + 1
        refused = Counter()
        for part in closed:
            for reason, cells in part.refused.items():
                places = zip(cells.partition.tolist(), cells.offset.tolist(), strict=True)
                refused.update((reason, *place) for place in places)
        return counts, refused

    def closed(self, blobs, rooms):
        populations = self.load()
        closed = [
            close_part(population, unpacked(blob), room)
            for population, blob, room in zip(populations, blobs, rooms, strict=True)
        ]
        before = getattr(self, "both", [])[-1:] if None not in rooms else []
        self.both = [*before, [saved(population) for population in populations]]
        return closed


def places_of(closed):
    counted = Counter()
    for reason, cells in closed.refused.items():
        places = zip(cells.partition.tolist(), cells.offset.tolist(), strict=True)
        counted.update((reason, *place) for place in places)
    return counted


def check(study, decoder, stream, count, shuffled):
    """By period, lists of records; `shuffled` deals them to tasks."""
    everybody, parts = Population(study), InParts(study, decoder, count)
    for records in stream:
        everybody.fold(*decoder.decode(records, everybody.period))
        for_gate = everybody.returning()
        closed = everybody.close()
        counts, refused = parts.close(shuffled(records))
        assert parts.returning == for_gate
        assert {k: v.tolist() for k, v in counts.items()} == {
            k: v.tolist() for k, v in closed.counts.items()
        }
        assert refused == places_of(closed)
        assert parts.accounting == everybody.accounting
        assert parts.answering == closed.answering
        assert set(parts.accounting.rejected) <= set(REASONS)
        assert parts.people == everybody.people
    return everybody, parts


def records_of(segments, encode):
    """Lists of records with their places, period by period, by partition and offset."""
    offsets, stream = Counter(), []
    for segment in segments:
        records = []
        for partition, report in segment:
            records.append(stored(encode(report), (partition, offsets[partition])))
            offsets[partition] += 1
        stream.append(sorted(records, key=lambda record: record[:2]))
    return stream


def dealt(data):
    """Records in several tasks, in any order."""

    def deal(records):
        tasks = [[] for _ in range(data.draw(st.integers(1, 4)))]
        for record in records:
            tasks[data.draw(st.integers(0, len(tasks) - 1))].append(record)
        return data.draw(st.permutations(tasks))

    return deal


def encoded(report):
    return b"?" if report is None else arrivals.json.dumps(report).encode()


report = st.fixed_dictionaries(
    {
        "person": st.sampled_from([f"p{i}" for i in range(9)]),
        "period": st.sampled_from([*arrivals.PERIODS, *arrivals.PERIODS, "2009"]),
        "values": st.dictionaries(
            st.sampled_from(["a", "b", "c", "d"]),
            st.sampled_from([0, 1, "x", "y", "absent", None, 2, "z"]),
            max_size=3,
        ),
    }
)
segments = st.lists(
    st.lists(st.tuples(st.integers(0, 2), report | st.none()), max_size=14),
    min_size=4,
    max_size=4,
)


@pytest.mark.parametrize(
    "study", [arrivals.OPEN, arrivals.BOUNDED, arrivals.CLOSED], ids=["open", "bounded", "closed"]
)
@settings(max_examples=5)
@given(count=st.sampled_from([1, 2, 8]), stream=segments, data=st.data())
def test_parts_count_what_everybody_counts(study, stream, data, count):
    decoder = Decoder(study, arrivals.KEY)
    check(study, decoder, records_of(stream, encoded), count, dealt(data))


@pytest.mark.parametrize("study", strata.STUDIES.values(), ids=strata.STUDIES)
@settings(max_examples=3)
@given(count=st.sampled_from([1, 4]), stream=strata.streams, data=st.data())
def test_fixed_values_strata_and_joint_releases(study, stream, data, count):
    decoder = Decoder(study, strata.KEY)
    check(study, decoder, records_of(stream, encoded), count, dealt(data))


@settings(max_examples=5)
@given(counts=st.permutations([1, 2, 8]), stream=segments, data=st.data())
@pytest.mark.parametrize("study", [arrivals.OPEN, arrivals.BOUNDED], ids=["open", "bounded"])
def test_a_population_goes_from_one_into_parts_and_back(study, stream, data, counts):
    decoder = Decoder(study, arrivals.KEY)
    records = records_of(stream, encoded)
    everybody, parts = check(study, decoder, records[:2], counts[0], dealt(data))
    again = join_populations(study, parts.load(), parts.accounting)
    others = InParts(study, decoder, counts[1])
    others.files = [saved(part) for part in split_population(again, counts[1])]
    others.people, others.period, others.accounting = again.people, 2, again.accounting
    assert again.people == everybody.people
    for batch in records[2:]:
        counted = []
        for population in (everybody, again):
            population.fold(*decoder.decode(batch, population.period))
            closed = population.close()
            counted.append({k: v.tolist() for k, v in closed.counts.items()})
        counts_in_parts, _ = others.close(dealt(data)(batch))
        counted.append({k: v.tolist() for k, v in counts_in_parts.items()})
        assert counted[0] == counted[1] == counted[2]
        assert everybody.accounting == again.accounting == others.accounting


@pytest.mark.parametrize("one", [0, 5])
def test_one_persons_input_changes_the_file_of_one_part_or_of_one_swap(one):
    """A bounded study that overflows: at most one other person comes in or is turned away."""
    study, decoder = arrivals.BOUNDED, Decoder(arrivals.BOUNDED, arrivals.KEY)
    files, turned = [], []
    for left_out in (None, one):
        parts, refused = InParts(study, decoder, 16), set()
        for number, period in enumerate(arrivals.PERIODS):
            records = [
                stored(
                    arrivals.report_bytes(f"p{i}", period, a=(i + number) % 3), (0, 9 * number + i)
                )
                for i in range(6)
                if i != left_out
            ]
            refused |= {place % 9 for _, _, place in parts.close([records])[1]}
        files.append(parts.files)
        turned.append(refused - {one})
    moved = [f"p{i}" for i in {one} | (turned[0] ^ turned[1])]
    assert len(moved) <= 2
    changed = {i for i in range(16) if files[0][i] != files[1][i]}
    assert changed <= set(part_of(decoder.hashes(moved)[:, 0], 16).tolist())


def test_the_bytes_of_a_part_do_not_depend_on_tasks():
    study, decoder = arrivals.OPEN, Decoder(arrivals.OPEN, arrivals.KEY)
    records = [
        stored(arrivals.report_bytes(f"p{i % 50}", "2002", a=i % 3, b="xy"[i % 2]), (i % 3, i))
        for i in range(300)
    ]
    at_once, dealt_out = InParts(study, decoder, 4), InParts(study, decoder, 4)
    at_once.close([records])
    dealt_out.close([records[i::7] for i in (3, 1, 0, 6, 5, 4, 2)])
    assert at_once.files == dealt_out.files


def test_cells_survive_packing_and_are_split_by_their_top_bits():
    decoder = Decoder(arrivals.OPEN, arrivals.KEY)
    cells, _ = decoder.decode(
        [stored(arrivals.report_bytes(f"p{i}", a=1, b="x"), (i % 3, i)) for i in range(500)], 0
    )
    parts = split(cells, 16)
    for index, part in enumerate(parts):
        assert set((part.hi >> np.uint64(60)).tolist()) <= {index}
    again = unpacked([packed(part) for part in parts])
    assert arrivals.rows(again) == arrivals.rows(cells)
    columns = zip(ordered(again).columns(), ordered(cells).columns(), strict=True)
    assert all(np.array_equal(one, other) for one, other in columns)
    assert len(unpacked([])) == 0


def test_places_are_given_in_the_order_of_the_hashes():
    assert allot([3, 0, 4, 2], 5) == [3, 0, 2, 0]
    assert allot([3, 0, 4, 2], 9) == [3, 0, 4, 2]
    assert allot([1, 1], 0) == [0, 0]


def test_a_part_is_read_as_that_part_alone():
    part = Population(arrivals.OPEN, Part(3, 4))
    for other in (None, Part(2, 4), Part(3, 8)):
        with pytest.raises(Inconsistent, match="another part"):
            Population.load(arrivals.OPEN, io.BytesIO(saved(part)), other)


@pytest.mark.slow
@pytest.mark.parametrize("size", [None, 150_000])
@pytest.mark.parametrize("count", [1, 16, 64])
def test_three_hundred_thousand_reports(size, count):
    study = small_study(
        name="many",
        neighbours="replace_one" if size else "add_remove",
        rho=3,
        periods={"first": 1, "every": "step", "count": 3},
        size=size,
        attributes={"a": attribute([0, 1, 2], missing="absent")},
        releases=[
            window("w", "a", width=3, rho=1, **({} if size else {"rows": 1000})),
            cumulative("c", "a", event=[1, 2], rho=1, **({} if size else {"rows": 1000})),
        ],
    )
    rng, decoder, stream = np.random.default_rng(count), Decoder(study, arrivals.KEY), []
    for period in range(1, 4):
        people, codes = rng.integers(0, 90_000 * period, 100_000), rng.integers(0, 3, 100_000)
        stream.append(
            [
                stored(
                    b'{"person": "p%d", "period": %d, "values": {"a": %d}}' % (p, period, c),
                    (i % 4, i // 4 + 25_000 * (period - 1)),
                )
                for i, (p, c) in enumerate(zip(people.tolist(), codes.tolist(), strict=True))
            ]
        )
        stream[-1].sort(key=lambda record: record[:2])
    deal = [7, 2, 5, 0, 3, 1, 6, 4]
    check(study, decoder, stream, count, lambda records: [records[i::8] for i in deal])
