"""Answers of hierarchical product distributions: against all households, and their own samples."""

import types
from functools import cache

import jax
import numpy as np
import pytest
from households import (
    LAYOUTS,
    counted,
    expected,
    levels,
    random_logits,
    random_queries,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_dp.batch.groups.hpd import product_answers as formulas
from stream_dp.batch.groups.hpd.household_draw import draw_households
from stream_dp.batch.groups.hpd.model_arrays import (
    MemberTargets,
    ModelLayout,
    RoleSlots,
    encode_queries,
    pack_queries,
)
from stream_dp.batch.groups.workload.queries import GROUP, Queries

OTHERS = LAYOUTS["others"]
# The layout `typed` is `others` without others, of which there is a smallest one, too.
CLASSES = [
    pytest.param(name, level, marks=[pytest.mark.slow] * (name == "typed"))
    for name in LAYOUTS
    for level in levels(LAYOUTS[name])
]

ROWS, MOST_QUERIES = 2, 50  # one program answers every class of a layout
all_shares = jax.jit(formulas.all_shares, static_argnums=0)


def encoded_alike(layout, queries):
    """Encodes queries as wide as one about every column: all levels share a program."""
    level = np.array([levels(layout)[-1]], np.int8)
    every = [np.zeros((1, a.shape[1]), np.int16) for a in (queries.group, queries.person)]
    relative = every[1] if layout.types else every[1] - 1
    everything = Queries(level, *every, relative)
    return encode_queries(layout, Queries.joined([queries, everything])).take(slice(0, -1))


def shares(layout, logits, queries, length=64):
    encoded = encoded_alike(layout, queries)
    chunks, position = pack_queries(layout, encoded, length, room=MOST_QUERIES)
    return np.asarray(all_shares(layout, logits, chunks)).reshape(-1)[position]


def agrees(actual, true):
    return np.allclose(actual, true, rtol=2e-5, atol=1e-12)


@pytest.mark.parametrize(("name", "level"), CLASSES)
@settings(max_examples=3)
@given(seed=st.integers(0, 2**32 - 1), spread=st.sampled_from([0.1, 1.5, 8.0]))
def test_an_answer_is_the_sum_over_all_households(name, level, seed, spread):
    rng, layout = np.random.default_rng(seed), LAYOUTS[name]
    logits = random_logits(rng, layout, ROWS, spread)
    queries = random_queries(rng, layout, 24, level)
    assert agrees(shares(layout, logits, queries), expected(layout, logits, queries))


@pytest.mark.parametrize(
    "layout", [ModelLayout((), (2,), 1), ModelLayout((), (3,), 2, RoleSlots(0, (0, 1, 2), 1))]
)
def test_the_smallest_layouts(layout):
    rng = np.random.default_rng(1)
    logits, queries = random_logits(rng, layout, 2), random_queries(rng, layout, 40)
    assert agrees(shares(layout, logits, queries), expected(layout, logits, queries))


# What a slip would look like, and which level shows it.
SLIPS = [
    ("alike", 0, "nobody = nobody * (1 - s)", ""),
    ("alike", 0, "layout.filled.sum(axis=1)", "layout.filled.sum(axis=1) - 1"),
    ("alike", 1, "t.group.shape[1] if per_group else t.people", "t.group.shape[1]"),
    ("alike", 1, "total + w * s\n", "total + s\n"),
    ("others", 0, "nobody.append(nobody[-1] * (1 - s))", "nobody.append(nobody[-1])"),
    ("others", 0, "(1 - spouse) * among[1]", "among[1]"),
    ("others", 0, "t.composition[e] * fits[:, e, None]", "t.composition[e]"),
    ("others", 0, "(1 - head) * (among[0]", "(among[0]"),
    ("others", 4, "== 1)\n    return paired", ">= 0)\n    return paired"),
    (
        "others",
        2,
        "(head * relative_spouse + spouse * relative_head)",
        "(2 * head * relative_spouse)",
    ),
    ("others", 2, "relative_head, relative_spouse =", "relative_spouse, relative_head ="),
    ("others", 3, "nobody = nobody * (1 - first)", ""),
    ("others", 3, "spouse * paired", "spouse * anyone"),
    ("others", 4, "spouse * (1 - head)\n", "spouse\n"),  # a sum for the union
    ("others", 4, "v * only_spouse", "w * only_spouse"),
    ("others", 0, "no_child[c] * some_other[o]", "2 * no_child[c] * some_other[o]"),
    ("others", 0, "some_other[o])", "some_other[0])"),
    ("others", 0, "* (among[0] + with_spouse)", "* with_spouse"),
    ("others", 1, "at[np.array(types.other_codes)]", "at[np.array(types.other_codes[::-1])]"),
]


def slipped(name, level, old="", new=""):
    """The answers of a class by its formula with one text replaced, in a module that nobody
    imports.

    Every operation runs by itself, because a formula that is used once is not worth compiling.
    """
    layout, (logits, _) = LAYOUTS[name], model_and_samples(name)
    queries = encoded_alike(layout, queries_and_counts(name, level)[0])
    source = formulas.__loader__.get_source(formulas.__name__)
    assert old in source
    module = types.ModuleType("changed_formulas")
    module.__package__ = formulas.__package__
    exec(source.replace(old, new) if old else source, module.__dict__)  # noqa: S102
    with jax.disable_jit():
        kind = 1 + level  # the first is of groups and nobody in them
        tables = module.probability_tables(layout, logits)
        members = MemberTargets(queries.size, queries.person, queries.relative)
        shares = module.chunk_shares(layout, kind, tables, members, queries.group)
        return np.diagonal(shares)  # each query with its own group


@cache
def unchanged(name, level):
    return agrees(slipped(name, level), expected_answers(name, level))


@cache
def model_and_samples(name):
    layout, rng = LAYOUTS[name], np.random.default_rng(3)
    logits = random_logits(rng, layout, ROWS)
    return logits, draw_households(layout, logits, 20_000, 4)


@cache
def queries_and_counts(name, level):
    """Queries of a class, what every household of the samples adds to them, and its members."""
    layout, (_, drawn) = LAYOUTS[name], model_and_samples(name)
    queries = random_queries(np.random.default_rng(5), layout, MOST_QUERIES, level)
    members = np.bincount(drawn[2], minlength=len(drawn[0]))
    return queries, counted(layout, *drawn, queries), members


@cache
def expected_answers(name, level):
    logits, _ = model_and_samples(name)
    return expected(LAYOUTS[name], logits, queries_and_counts(name, level)[0])


def supported(name, level, answers, z=6):
    """Do samples of the model bear these answers out, within z standard errors?"""
    queries, added, members = queries_and_counts(name, level)
    # A share of people is a ratio: a group adds its members with the targets, less their share.
    excess = added - answers * np.where(queries.level == GROUP, 1.0, members[:, None])
    error = excess.std(axis=0) / len(members) ** 0.5
    return bool((np.abs(excess.mean(axis=0)) <= z * error + 1e-6).all())


@pytest.mark.parametrize(("name", "level"), CLASSES)
def test_an_answer_is_that_of_the_samples(name, level):
    logits, _ = model_and_samples(name)
    queries = queries_and_counts(name, level)[0]
    assert supported(name, level, shares(LAYOUTS[name], logits, queries))


@pytest.mark.parametrize(("name", "level", "old", "new"), SLIPS)
def test_every_slip_in_a_formula_is_seen(name, level, old, new):
    assert unchanged(name, level)
    wrong = slipped(name, level, old, new)
    assert not agrees(wrong, expected_answers(name, level))
    assert not supported(name, level, wrong)


def test_thousands_of_rows_add_up_in_single_precision():
    rng = np.random.default_rng(6)
    layout = LAYOUTS["alike"]
    few, queries = random_logits(rng, layout, ROWS), random_queries(rng, layout, 30)
    many = {k: np.tile(v, 8192) for k, v in few.items()}
    assert agrees(shares(layout, many, queries), expected(layout, few, queries))


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 70), length=st.sampled_from([1, 4, 64]))
@settings(max_examples=20)
def test_chunks_hold_every_query_once(seed, n, length):
    rng = np.random.default_rng(seed)
    encoded = encode_queries(OTHERS, random_queries(rng, OTHERS, n))
    value = rng.permutation(n).astype(float)
    room = n + int(rng.integers(100))
    chunks, place = pack_queries(OTHERS, encoded, length, value, weight=value + 1, room=room)
    chunk, row, column = np.unravel_index(place, chunks.target.shape)
    for name in ("size", "person", "relative"):
        assert (getattr(chunks.members, name)[chunk, column] == getattr(encoded, name)).all()
    assert (chunks.group[chunk, row] == encoded.group).all()
    kind = np.searchsorted(chunks.ends, chunk, side="right")
    free = (encoded.person == OTHERS.person_rows).all(axis=1)
    assert (kind == np.where((encoded.level == GROUP) & free, 0, encoded.level + 1)).all()
    assert (chunks.target.reshape(-1)[place] == value).all()
    weight = chunks.weight.reshape(-1)
    assert sorted(weight[weight > 0]) == list(range(1, n + 1))
    assert len(chunks.weight).bit_count() == 1
    assert not (chunks.weight[chunks.ends[-1] :] > 0).any()
    fewer = encode_queries(OTHERS, random_queries(rng, OTHERS, int(rng.integers(1, room + 1))))
    shape = pack_queries(OTHERS, fewer.take(slice(None)), length, room=room)[0].target.shape
    assert shape == pack_queries(OTHERS, encoded, length, room=room)[0].target.shape


def test_an_answer_does_not_depend_on_the_others():
    rng = np.random.default_rng(7)
    logits, queries = (
        random_logits(rng, OTHERS, ROWS),
        random_queries(rng, OTHERS, 40),
    )
    together = shares(OTHERS, logits, queries)
    alone = shares(OTHERS, logits, queries, length=1)
    np.testing.assert_allclose(alone, together, rtol=1e-5)
    assert shares(OTHERS, logits, random_queries(rng, OTHERS, 0)).shape == (0,)
