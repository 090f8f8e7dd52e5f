"""Structural rules of tables of people: no synthetic row breaks one, and nothing else changes."""

from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.studies import attribute, small_study
from people_tables import domain

from stream_dp.batch.kinds import load_synthesizer
from stream_dp.batch.people.compression import Compression, Encoding, MergedColumn, NoisyColumn
from stream_dp.batch.people.junction_tree import JunctionTree
from stream_dp.batch.people.people_draw import draw_clique
from stream_dp.batch.people.people_table import People, study_people
from stream_dp.batch.people.structural_zeros import StructuralZeros
from stream_dp.batch.people.target_shares import Interaction
from stream_dp.batch.people.tree_model import TreeDual, draw_tree
from stream_dp.batch.synthesizer import FitContext, MemoryTranscript
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise
from stream_dp.release.published_tables import coded_people, column_values
from stream_dp.release.row_rules import rows_keep_rules

SIZES = (4, 3, 3, 2)
PAIRS = ((0, 1), (1, 2), (0, 2))


def drawn_zeros(seed, share=0.6):
    rng = np.random.default_rng(seed)
    return StructuralZeros({a: rng.random([SIZES[c] for c in a]) < share for a in PAIRS})


def rows_of(zeros):
    """All rows that keep the rules, by brute force."""
    rows = product(*map(range, SIZES))
    return [
        row for row in rows if all(t[tuple(row[c] for c in a)] for a, t in zeros.possible.items())
    ]


@given(st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_marginals_are_those_of_the_possible_rows(seed):
    """By brute force: p in proportion to exp(sum t) over possible rows, 0 elsewhere."""
    zeros = drawn_zeros(seed)
    rows = rows_of(zeros)
    if not rows:
        return
    tree = JunctionTree.of(SIZES, (*zeros.sets, (2, 3)))
    rng = np.random.default_rng(seed)
    tilts = {a: rng.normal(0, 1, [SIZES[c] for c in a]) for a in ((0, 1), (2, 3))}
    potentials = zeros.potentials(tree)
    for a, tilt in tilts.items():
        potentials[tree.holder(a)] += tree.spread(tilt, a, tree.holder(a))
    marginals, log_z = tree.marginals(potentials)
    weights = np.exp([sum(t[tuple(r[c] for c in a)] for a, t in tilts.items()) for r in rows])
    assert log_z == pytest.approx(np.log(weights.sum()))
    for clique, table, support in zip(tree.cliques, marginals, zeros.support(tree), strict=True):
        expected = np.zeros_like(table)
        for row, weight in zip(rows, weights / weights.sum(), strict=True):
            expected[tuple(row[c] for c in clique)] += weight
        assert table == pytest.approx(expected, abs=1e-12)
        assert ((expected > 0) == support).all()


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_no_row_that_is_drawn_breaks_a_rule(seed):
    """Also where the model's probabilities underflow to 0."""
    zeros = drawn_zeros(seed)
    rows = {*rows_of(zeros)}
    if not rows:
        return
    tree = JunctionTree.of(SIZES, zeros.sets)
    rng = np.random.default_rng(seed)
    steep = [np.exp(-np.abs(rng.normal(0, 400, shape))) for shape in tree.shapes]
    drawn = draw_tree(rng, tree, steep, 300, zeros)
    assert {tuple(row) for row in drawn.tolist()} <= rows


def test_where_all_is_possible_draws_are_as_without_rules():
    table, drawn = np.random.default_rng(2).random((4, 3)), []
    for possible in (None, np.ones((4, 3), np.bool_)):
        drawn.append(np.zeros((200, 2), np.int64))
        draw_clique(np.random.default_rng(1), (0, 1), (), table, drawn[-1], possible)
    assert (drawn[0] == drawn[1]).all()


def test_the_dual_gives_impossible_cells_nothing():
    zeros = StructuralZeros({(0, 1): np.array([[True, False], [True, True]])})
    tree = JunctionTree.of((2, 2), zeros.sets)
    # Noisy answers put half of all people into the impossible cell.
    noisy = {(0, 1): Interaction(np.array([[-0.25, 0.25], [0.25, -0.25]]), 1e-6)}
    dual = TreeDual.of(tree, noisy, 10.0, zeros)
    solution = dual.solved(np.zeros(4))
    (table,), _ = dual.marginals(solution.vector)
    assert table[0, 1] == 0
    assert table.sum() == pytest.approx(1)
    assert solution.gap < 1e-3


@given(st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_values_of_a_class_alone_are_merged_and_every_draw_is_possible(seed):
    rng = np.random.default_rng(seed)
    possible = rng.random((3, 8))[:, rng.integers(0, 8, 8)] < 0.7  # columns repeat: classes
    zeros = StructuralZeros({(0, 1): possible})
    classes = zeros.classes(1, 8)
    for a, b in product(range(8), repeat=2):
        assert (classes[a] == classes[b]) == (possible[:, a] == possible[:, b]).all()
    noisy = NoisyColumn(rng.integers(-50, 50, 8), Fraction(400), 100, Fraction(0))
    merged = MergedColumn.of(noisy, np.arange(8), Fraction(3), False, classes)
    assert sorted(v for group in merged.groups for v in group) == list(range(8))
    assert all(len({classes[v] for v in group}) == 1 for group in merged.groups)
    alone = NoisyColumn(np.zeros(3, np.int64), Fraction(1), 100, Fraction(0))
    source = domain(3, 8)
    whole = MergedColumn.of(alone, np.arange(3), Fraction(0), True)
    columns = (whole, merged)
    names = merged.column(source.columns[1]).values
    assert len({*names}) == len(names)
    groups = zeros.merged([column.group_of for column in columns]).possible[0, 1]
    cells = np.argwhere(groups)
    back = Compression(source, columns).undone(np.repeat(cells, 20, axis=0), rng)
    assert possible[back[:, 0], back[:, 1]].all()


def test_rules_of_columns_are_rules_of_their_composites():
    zeros = StructuralZeros({(0, 2): np.array([[True, False, True], [False, True, True]])})
    composed = zeros.composed([(0, 1), (2,)], (2, 2, 3))
    assert composed.sets == ((0, 1),)
    for a, b, c in product(range(2), range(2), range(3)):
        assert composed.possible[0, 1][2 * a + b, c] == zeros.possible[0, 2][a, c]
    inside = zeros.composed([(0, 2), (1,)], (2, 2, 3))
    assert inside.possible[(0,)].tolist() == zeros.possible[0, 2].reshape(-1).tolist()


NUMBER = {"number": {"least": 0, "most": 59, "step": 1}, "missing": "absent"}
ATTRIBUTES = {
    "start": {**NUMBER, "bins": [20, 40]},
    "middle": {**NUMBER, "bins": [30]},
    "end": {**NUMBER, "bins": [10, 50]},
    "band": attribute([0, 20, 40], missing=0),
    "trade": attribute(["baker", "cook", "smith", "none"], missing="none"),
    "sector": attribute(["food", "metal", "nothing"], missing="nothing"),
}
RULES = ["start + 2 <= middle", "middle <= end", "band <= start", "end < 50 -> trade != none"]
SECTOR = {"baker": "food", "cook": "food", "smith": "metal", "none": "nothing"}


LISTED = {"derived": {"sector": {"of": "trade", "values": SECTOR}}}


def ruled_study(kind, rules=RULES, names=tuple(ATTRIBUTES), **more):
    release = {"name": "p", "kind": kind, "attributes": [*names], "rho": 1, "every": 1}
    return small_study(
        neighbours="add_remove",
        size=None,
        rho=9,
        attributes={name: ATTRIBUTES[name] for name in names},
        releases=[{**release, "rules": rules, **more}],
    )


def everybody(study, people=600):
    """People who keep no rule: every column by itself."""
    release, rng = study.batches[0], np.random.default_rng(5)
    sizes = [len(v) for v in column_values(study, release)["people"].values()]
    answers = np.stack([rng.integers(0, n, people) for n in sizes], axis=1)
    return People.of_answers(study_people(study, release), answers)


def kept(study, answers):
    """By row, whether it keeps every rule, as a reader checks it."""
    release = study.batches[0]
    symbols = column_values(study, release)["people"]
    return [
        rows_keep_rules(release.column_rules, symbols, coded_people(symbols, row[None, :]))
        for row in answers
    ]


KINDS = [
    ("table", "1/200", RULES, tuple(ATTRIBUTES)),
    ("table", 3, RULES, tuple(ATTRIBUTES)),
    ("match", 3, RULES[2:], tuple(ATTRIBUTES)),
    ("match", "1/200", RULES[2:], tuple(ATTRIBUTES)),
    ("rap", 3, RULES[2:], tuple(ATTRIBUTES)),
    ("mixture", 3, ["band = 20 -> trade = cook, smith"], ("band", "trade", "sector")),
]


@cache
def fitted(number, ruled=True):
    """A study of KINDS, its fit, and what that costs."""
    kind, rho, rules, names = KINDS[number]
    declared = ruled_study(kind, rules if ruled else [], names, rho=rho, **LISTED if ruled else {})
    release, context = declared.batches[0], FitContext(SeededNoise(1), MemoryTranscript())
    fit = load_synthesizer(release.kind)(everybody(declared), release, context)
    return declared, fit, (fit.notes["charge"], sum(release.costs(1)))


@pytest.mark.parametrize("number", range(len(KINDS)))
def test_every_kind_keeps_every_rule(number):
    """Nobody who breaks one is refused."""
    declared, released, _ = fitted(number)
    assert np.mean(kept(declared, everybody(declared).answers)) < 0.5
    for seed in range(2):
        answers = released.sample(seed).answers
        assert len(answers) > 300
        assert all(kept(declared, answers))


@pytest.mark.parametrize("number", [0, 3, 4, 5])
def test_rules_cost_nothing(number):
    """Of each kind."""
    assert fitted(number)[2] == fitted(number, ruled=False)[2]


def test_blocks_that_rules_make_too_large_are_refused():
    with pytest.raises(UserError, match="rules: orders go on through a number that may be missing"):
        study_people(study := ruled_study("rap"), study.batches[0])


def test_rules_that_leave_no_row_are_refused():
    declared = ruled_study("table", ["start >= 50", "end <= 40", "start <= end"])
    people = study_people(declared, declared.batches[0])
    # Somebody without a number keeps every order.
    assert people.zeros.possible
    texts = ["trade = none -> sector = food", "trade != none -> sector = food"]
    texts += ["sector = food -> band = 0", "band >= 0 -> trade = none", "trade = none -> band = 20"]
    declared = ruled_study("table", texts)
    with pytest.raises(UserError, match="rules: no row can keep 'trade = none -> sector = food'"):
        study_people(declared, declared.batches[0])


def test_columns_whose_rules_need_too_many_cells_are_refused():
    attributes = {f"c{i}": attribute(range(100), missing=0) for i in range(4)}
    rules = [f"c{i} <= c{j}" for i in range(4) for j in range(i)]
    declared = small_study(
        neighbours="add_remove",
        size=None,
        attributes=attributes,
        releases=[
            {
                **{"name": "p", "kind": "table", "attributes": [*attributes], "rho": "0.001"},
                **{"every": 1, "rules": rules},
            }
        ],
    )
    with pytest.raises(UserError, match="rules: tie c0, c1, c2, c3 together, whose 100,000,000"):
        study_people(declared, declared.batches[0])


def test_a_composite_of_ruled_columns_is_measured_and_kept():
    declared = ruled_study("table", RULES[3:], composites={"both": ["trade", "end"]})
    release = declared.batches[0]
    encoding = Encoding.of(study_people(declared, release), release)
    assert [*encoding.domain.zeros.possible] == [(encoding.names.index("both"),)]
    fit = load_synthesizer(release.kind)(everybody(declared), release, FitContext(SeededNoise(2)))
    answers = fit.sample(1).answers
    assert not ((answers[:, 2] < 50) & (answers[:, 4] == 3)).any()
