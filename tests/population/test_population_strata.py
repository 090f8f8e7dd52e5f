"""The population with fixed attributes, products, strata and periods of a release's own.

What it counts is compared with a plain model, person by person and release by release.
"""

import io
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.strata import KEY, STUDIES, Model, streams

from stream_dp.log.log import Stored
from stream_dp.population.population import Population
from stream_dp.population.report_decoding import Decoder
from stream_dp.studyfile import parse_study


def saved(population):
    file = io.BytesIO()
    population.save(file)
    return file.getvalue()


def stored(partition, offset, report):
    return Stored(
        partition=partition,
        offset=offset,
        time=0,
        key=None,
        value=json.dumps(report).encode(),
        headers=(),
    )


def lanes(segment, offsets):
    """Records by partition, in the order of their offsets."""
    by_partition = {0: [], 1: []}
    for partition, report in segment:
        by_partition[partition].append(stored(partition, offsets[partition], report))
        offsets[partition] += 1
    return by_partition


def balanced(accounting):
    rejected = sum(accounting.rejected.values())
    accounted = accounting.accepted + accounting.superseded + rejected + accounting.pending
    assert accounting.received == accounted


def order(decoder):
    return lambda person: tuple(decoder.hashes([person])[0].tolist())


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
@settings(max_examples=8)
@given(stream=streams)
def test_counts_are_those_of_a_dictionary(study, stream):
    decoder, population = Decoder(study, KEY), Population(study)
    model, offsets = Model(study, order(decoder)), Counter()
    for period, segment in enumerate(stream, 1):
        for partition, records in lanes(segment, offsets).items():
            population.fold(*decoder.decode(records, population.period))
            own = [report for p, report in segment if p == partition]
            for record, report in zip(records, own, strict=True):
                model.take(period, (partition, record.offset), report)
        closed, expected = population.close(), model.close(period)
        assert {k: v.tolist() for k, v in closed.counts.items()} == expected
        accounting = population.accounting
        balanced(accounting)
        assert accounting.rejected == +model.rejected
        assert (accounting.received, accounting.accepted, accounting.superseded) == tuple(
            model.tally[k] for k in ("received", "accepted", "superseded")
        )
        size = population.size
        for release in study.releases:
            if release.kind == "window":
                kinds = 1 + (study.presence(release) is not None)
                assert closed.counts[release.name].sum() == kinds * size
    assert population.accounting.pending == 0


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
@settings(max_examples=7)
@given(stream=streams, data=st.data())
def test_interleaving_batches_and_restarts_change_nothing(study, stream, data):
    decoder = Decoder(study, KEY)
    plain, mixed, offsets = Population(study), Population(study), Counter()
    for segment in stream:
        by_partition = lanes(segment, offsets)
        for records in by_partition.values():
            plain.fold(*decoder.decode(records, plain.period))
        left = {p: list(records) for p, records in by_partition.items()}
        while any(left.values()):
            chosen = data.draw(st.sampled_from([p for p in left if left[p]]))
            count = data.draw(st.integers(1, len(left[chosen])))
            mixed.fold(*decoder.decode(left[chosen][:count], mixed.period))
            del left[chosen][:count]
        if data.draw(st.booleans()):
            again = Population.load(study, io.BytesIO(saved(mixed)))
            assert saved(again) == saved(mixed)
            mixed = again
        one, other = plain.close(), mixed.close()
        assert all(np.array_equal(one.counts[k], other.counts[k]) for k in one.counts)
        assert [len(c) for c in one.refused.values()] == [len(c) for c in other.refused.values()]
        assert saved(plain) == saved(mixed)


def closed_periods(study, *periods):
    """Closed periods and the population after reports, a list of (person, values) for each."""
    decoder, population, offset = Decoder(study, KEY), Population(study), 0
    closed = []
    for number, segment in enumerate(periods, 1):
        for person, values in segment:
            report = {"person": person, "period": str(number), "values": values}
            population.fold(*decoder.decode([stored(0, offset, report)], population.period))
            offset += 1
        closed.append(population.close())
    return closed, population


def test_the_first_value_holds_and_another_is_a_dead_letter():
    closed, population = closed_periods(
        STUDIES["open"],
        [("a", {"region": "north", "wave": None}), ("b", {"poor": 1})],
        [("a", {"region": "south", "poor": 1}), ("b", {"region": "south"})],
        [("a", {"region": "north"}), ("b", {"region": None})],
        [("b", {"poor": 1}), ("a", {"poor": 0, "region": "south"})],
    )
    assert [len(c.refused["fixed"]) for c in closed] == [0, 1, 0, 1]
    assert population.accounting.rejected == {"fixed": 2}
    balanced(population.accounting)
    # In the order of the slots, whoever has which.
    regions = [sorted(c.symbols["region"].tolist()) for c in closed]
    assert regions == [[0, 2], [0, 1], [0, 1], [0, 1]]
    north, south = (sum(c.counts[f"r4-{x}"] for c in closed) for x in ("north", "south"))
    # Entering is to be present: a said what it is at 2; b was poor before it had a stratum.
    assert north.tolist() == [1, 0, 0, 0, 0, 1]
    assert south.tolist() == [1, 0, 0, 0, 0, 1]


def test_the_last_word_of_the_first_period_is_the_first_value():
    study = STUDIES["open"]
    say = [("a", {"region": "north"}), ("a", {"region": "south"}), ("a", {"region": "south"})]
    for segment, code in ((say, 1), ([*say, ("a", {"region": "north"})], 0)):
        closed, population = closed_periods(study, segment, [("a", {"region": "south"})])
        assert closed[1].symbols["region"].tolist() == [code]
        assert population.accounting.rejected.get("fixed", 0) == (code == 0)
        balanced(population.accounting)


def test_who_is_not_in_the_stratum_is_absent_from_it():
    say = [(p, {"poor": 1, "region": r}) for p, r in (("a", "north"), ("b", "south"), ("c", None))]
    closed, _ = closed_periods(STUDIES["open"], say, [(p, {"poor": 1}) for p in "abc"])
    for layer in ("r1-north", "r1-south"):
        counts, when = np.split(closed[1].counts[layer], [27])
        counts = counts.reshape(3, 3, 3)
        assert when.tolist() == [2, 0, 0, 1] + [0] * 28
        assert counts[2, 1, 1] == 1  # absent before the first period
        assert counts[2, 2, 2] == 2
        assert counts.sum() == 3


def test_totals_are_of_the_release_s_own_periods():
    """Waves of periods 1 to 3 and 2 to 4; a person of the second one is poor and idle in all."""
    say = {"poor": 1, "job": "no"}
    closed, _ = closed_periods(STUDIES["open"], [("a", {**say, "wave": 2})], *[[("a", say)]] * 4)
    counts = [c.counts["r5-2"].tolist() for c in closed]
    assert counts == [[0] * 4, [1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [0] * 4]
    assert all(c.counts["r5-1"].tolist() == [0] * 4 for c in closed)


def test_people_who_leave_and_come_again_enter_once():
    say = ("a", {"poor": 0, "region": "north"})
    closed, _ = closed_periods(STUDIES["open"], [], [say], [], [("a", {"poor": 1})], [])
    assert [int(c.counts["r4-north"][-1]) for c in closed] == [0, 1, 0, 0, 0]
    assert [int(c.counts["r4-north"][0]) for c in closed] == [0, 0, 0, 1, 0]


@pytest.mark.parametrize("strata", [2, 64])
def test_a_person_is_stored_once_whatever_the_number_of_strata(strata):
    layer = {"attribute": "poor", "strata": "region", "rows": 50, "rho": 1}
    study = parse_study(
        {
            "study": {
                "name": "layers",
                "unit": "person",
                "neighbours": "add_remove",
                "rho": 2,
                "delta": "1/1000",
                "periods": {"first": 1, "every": "step", "count": 5},
            },
            "attributes": {
                "poor": {"values": [0, 1], "missing": "absent"},
                "region": {"values": list(range(strata)), "missing": "absent", "fixed": True},
            },
            "releases": [
                {"name": "patterns", "kind": "window", "width": 3, **layer},
                {"name": "totals", "kind": "cumulative", "event": [1], **layer},
            ],
        }
    )
    population = Population(study)
    hashes = np.arange(100, dtype=np.uint64)
    population.enrol(hashes, hashes)
    arrays = [*population.columns.values(), *vars(population.index).values()]
    assert sum(array.nbytes for array in arrays) <= 40 * population.people
