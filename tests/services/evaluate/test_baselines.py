"""The baselines beside a release of groups: their costs, and that only noise shapes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from kit.people_costs import spent
from kit.small_groups import DOMAIN, Never, Silent
from kit.small_groups import hierarchy as small
from numpy.typing import NDArray

from stream_dp.batch.data.domain import Column, Domain, Hierarchy, Roles
from stream_dp.batch.groups.hpd import hpd_synthesizer
from stream_dp.batch.groups.hpd.adam import AdamSettings
from stream_dp.batch.groups.workload.candidates import default_marginals
from stream_dp.batch.groups.workload.exact_counts import exact_answers
from stream_dp.batch.groups.workload.groups_plan import AdaptivePlan
from stream_dp.batch.groups.workload.queries import PERSON, Queries, all_marginals
from stream_dp.batch.groups.workload.sensitivity import squared_sensitivity
from stream_dp.batch.rounds.phases import SELECTION
from stream_dp.batch.synthesizer import MemoryTranscript
from stream_dp.privacy.noise import Draw, SeededNoise
from stream_dp.services.evaluate import groups_trials as trials
from stream_dp.services.evaluate.table_report import averaged
from stream_dp.study.group_releases import BatchRelease


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hpd_synthesizer, "UPDATES", AdamSettings(2, 0.1))


def ignored(*arguments: Any) -> None:
    pass


@dataclass(frozen=True)
class Drawn:
    """Stands for a fitted flat table with these rows."""

    rows: NDArray[np.int64]

    def sample(self, seed: int) -> Any:
        return self

    @property
    def people(self) -> NDArray[np.int64]:
        return self.rows


def test_rows_are_put_into_groups_of_their_own_kind() -> None:
    """Seven rows of the south, in pairs: three groups; two loners of the north: two."""
    rows = [[1, 1, i % 3, i % 2] for i in range(7)] + [[0, 0, 2, 1], [0, 0, 0, 0]]
    synthetic = trials.Flat(DOMAIN, Drawn(np.array(rows))).sample(3)  # type: ignore[arg-type]
    assert synthetic.groups.tolist() == [[0, 0]] * 2 + [[1, 1]] * 3
    assert synthetic.group_of.tolist() == [0, 1, 2, 2, 3, 3, 4, 4]
    south = sorted(synthetic.people[2:].tolist())
    southerners = sorted(row[2:] for row in rows[:7])
    assert sum(row in southerners for row in south) == 6
    assert sorted(synthetic.people[:2].tolist()) == [[0, 0], [2, 1]]
    again = trials.Flat(DOMAIN, Drawn(np.array(rows))).sample(3)  # type: ignore[arg-type]
    assert (again.people == synthetic.people).all()


def test_a_kind_that_fills_no_group_is_left_out() -> None:
    synthetic = trials.Flat(DOMAIN, Drawn(np.array([[0, 1, 0, 0]]))).sample(0)  # type: ignore[arg-type]
    assert (synthetic.G, synthetic.N) == (0, 0)


def test_one_person_changes_a_marginal_of_the_flat_table_by_two_at_most() -> None:
    """Every person of a small table, replaced by everything that a person can be."""
    truth = small(groups=3)
    marginals = all_marginals(trials.flattened(truth).domain, 2, [PERSON])
    queries = Queries.joined(m.queries() for m in marginals)
    ends = np.cumsum([m.size for m in marginals])[:-1]
    before = exact_answers(trials.flattened(truth), queries)
    most = 0
    for person in range(truth.N):
        for other in np.ndindex(*DOMAIN.person_values):
            people = truth.people.copy()
            people[person] = other
            changed = trials.flattened(Hierarchy(DOMAIN, truth.groups, people, truth.group_of))
            moved = exact_answers(changed, queries) - before
            most = max(most, *((part**2).sum() for part in np.split(moved, ends)))
    assert most == 2 == max(squared_sensitivity(m) for m in marginals)


class RecordedNoise:
    """Seeded noise that keeps a list of what is demanded."""

    simulated = True

    def __init__(self) -> None:
        self.source, self.demands, self.picks = SeededNoise(0), list[Any](), list[Any]()

    def draw(self, demand: Sequence[tuple[Fraction, int]]) -> Draw:
        self.demands += demand
        return self.source.draw(demand)

    def top(self, scores: NDArray[np.int64], picks: int, variance: Fraction) -> NDArray[np.int64]:
        self.picks.append((picks, variance))
        return self.source.top(scores, picks, variance)


def test_people_without_households_cost_rho_exactly() -> None:
    """From what was drawn: 2 / (2 variance) a marginal; 2^2 / (2 squared scale) a pick."""
    source, rho = RecordedNoise(), Fraction(1, 7)
    synthetic = trials.without_households(
        small(), 2, AdaptivePlan(rho, 3), source=source, progress=ignored
    )
    measured = sum(Fraction(2) / (2 * variance) for variance, _ in source.demands)
    picked = sum(Fraction(4 * picks) / (2 * squared) for picks, squared in source.picks)
    assert measured + picked == rho
    assert len(source.picks) == 3
    assert len(source.demands) == 4 + 3
    assert picked == SELECTION * Fraction(4, 5) * rho
    workload = synthetic.fitted.workload
    assert spent(AdaptivePlan(rho, 3).phases(workload), workload, synthetic.fitted.picked) == rho


def test_nothing_but_what_was_drawn_shapes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another table of as many people makes the same data set from the same rounds."""
    transcript = MemoryTranscript()
    monkeypatch.setattr(trials, "MemoryTranscript", lambda: transcript)
    truth = small()
    shape = AdaptivePlan(Fraction(1), 2)
    synthetic = trials.without_households(
        truth, 2, shape, source=SeededNoise(0), progress=ignored
    ).sample(5)
    # Everybody is somebody else, and every group elsewhere.
    people = (np.roll(truth.people, 1, axis=0) + 1) % np.array(DOMAIN.person_values)
    groups = np.stack([1 - truth.groups[:, 0], truth.groups[:, 1]], axis=1)
    other = Hierarchy(DOMAIN, groups, people, truth.group_of)
    again = trials.without_households(other, 2, shape, source=Never(), progress=ignored).sample(5)
    assert (again.people == synthetic.people).all()
    assert (again.groups == synthetic.groups).all()


def test_people_without_households_are_in_no_relation() -> None:
    roles = Roles(column="role", head=0, spouse=1, child=2, children=1)
    domain = Domain((), (Column("role", (0, 1, 2)),), 3, roles)
    alone = Hierarchy(domain, np.array([[0]]), np.array([[0]]), np.zeros(1, int))
    with pytest.raises(ValueError, match="no relation"):
        trials.without_households(
            alone, 1, AdaptivePlan(Fraction(1), 1), source=Never(), progress=ignored
        )


def test_relatives_keep_their_places_and_nothing_else() -> None:
    roles = Roles(column="role", head=0, spouse=1, child=2, children=1)
    domain = Domain(
        (Column("g", (0, 1)),), (Column("a", (0, 1)), Column("role", (0, 1, 2))), 2, roles
    )
    homes = 300
    group_of, role = np.repeat(np.arange(homes), 2), np.tile([0, 1], homes)
    a = np.repeat(np.arange(homes) % 2, 2)  # alike in every home
    groups = np.stack([np.arange(homes) % 3 == 0, np.ones(homes)], axis=1).astype(int)
    truth = Hierarchy(domain, groups, np.stack([a, role], axis=1), group_of)
    source, rho = RecordedNoise(), Fraction(1, 7)
    synthetic = trials.independent_attributes(truth, rho, source, 1)
    assert (synthetic.people[:, 1] == role).all()
    assert [n for _, n in source.demands] == [2, 2]
    assert sum(Fraction(2) / (2 * variance) for variance, _ in source.demands) == rho
    synthetic = trials.independent_attributes(truth, rho, Silent(), 1)
    assert abs(int(synthetic.groups[:, 0].sum()) - 100) <= 1
    assert abs(int(synthetic.people[:, 0].sum()) - homes) <= 1
    pairs = synthetic.people[:, 0].reshape(-1, 2)
    assert 100 < (pairs[:, 0] == pairs[:, 1]).sum() < 200  # 300 in truth


def test_every_query_costs_rho_exactly() -> None:
    truth, source, rho = small(), RecordedNoise(), Fraction(1, 3)
    marginals = default_marginals(DOMAIN, 2)
    noisy = trials.measure_every_query(truth, marginals, rho, source)
    ((variance, size),) = source.demands
    assert sum(Fraction(squared_sensitivity(m)) / (2 * variance) for m in marginals) == rho
    assert size == len(noisy) == sum(m.size for m in marginals)
    silent = trials.measure_every_query(truth, marginals, rho, Silent())
    queries = Queries.joined(m.queries() for m in marginals)
    assert (silent == exact_answers(truth, queries)).all()


def test_a_release_beside_its_baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "find_spec", lambda name: None)
    release = BatchRelease(
        name="x", kind="mwem", attributes=("a", "b"), rho=Fraction(1), every=1, ways=2, rounds=3
    )
    budgets = [("rho 1", release), ("rho 9", release.model_copy(update={"rho": Fraction(9)}))]
    rounds: list[Any] = []
    qualities = trials.evaluate_data_sets(
        small(), budgets, 2, progress=lambda *arguments: rounds.append(arguments)
    )
    assert rounds
    lines = {(q.method, q.answer) for q in qualities}
    assert {("mwem", a) for a in ("data set", "model", "measurements")} <= lines
    assert any(method == "independent" for method, _ in lines)
    assert {q.budget for q in qualities} == {"rho 1", "rho 9"}
    joined = averaged(qualities)
    assert len(qualities) == 2 * len(joined)
