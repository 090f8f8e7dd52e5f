"""The answers of a hierarchical product distribution, as differentiable sums of products.

Source: Liu and Wu 2022, "Private synthetic data with hierarchical structure" (arXiv 2206.05942),
the query classes and appendix A.3. The mixture row k of a household is uniform among K rows. Given
k, the household's attributes, its composition and all attributes of its members are independent.

Notation, all given k: A is the product of the query's group probabilities; s_j and t_j are the
products of its person and relative probabilities for the member in slot j; w_j is the
probability that slot j is filled and the group has the size that the query asks for, if any.

At least one member. 1 - prod_j (1 - s_j) is the probability that at least one of several members
has the targets. The events "j is the first member that has them" are disjoint, so this equals
sum_j s_j prod_{i<j} (1 - s_i). All terms are positive: unlike in 1 minus a product near 1, nothing
cancels in float32 if s is tiny; unlike with logarithms, there is no pole at s = 1. If slots fill
in order, P(j is filled and the first) = w_j s_j prod_{i<j} (1 - s_i), which gives
sum_m p(m) [1 - prod_{j<=m} (1 - s_j)] with w_j = sum_{m>=j} p(m).

Members without roles (slots 1..M, size vector p):
- share of groups: (1/K) sum_k A sum_j w_j s_j prod_{i<j} (1 - s_i);
- share of people: sum_k A sum_j w_j s_j / E, the same without the product. E = sum_k sum_m m p_k(m)
  is the expected number of people in K groups.

People and their events (sizes 0..M) have the same formulas, but that nobody has to fill the first
slot: the share of people without targets of events is A P(size). Answers about events are numbers
of events a person, without E, because the number of all events is nobody's to know.

Members with roles (one head, n = 0 or 1 spouses, c = 0..C children, o = 0..O others): n, c and o
are independent given k, except that the group's size 1 + n + c + o is bounded. The sums below are
over those (n, c, o) that have the size asked for; P is their probability. w_head = sum P; w_spouse:
those with n = 1; w_child j: with c >= j; w_other i: with o >= i; v_j: with n = 1 and c >= j.
- share of groups, in the order head, spouse, children, others. Let f_c be the probability that at
  least one of c children has the targets, and g_o of o others, both as above: w_head s_H
  + (1 - s_H) sum P [n s_S + (1 - n s_S) (f_c + (1 - f_c) g_o)]. Times A, mean over k. Without
  targets of people it is w_head A.
- share of people: sum_j w_j s_j.
- with a spouse (head and spouse are each other's): w_spouse (s_H t_S + s_S t_H).
- with a child (for head and spouse): f = sum_j w_j t_j prod_{i<j} (1 - t_i) is the
  probability that at least one child has the relative's targets, g the same with v_j for w_j, that
  is, together with a spouse: s_H f + s_S g.
- with a parent (for child j): the head has the targets, or the head does not and there is a spouse
  who does: sum_j s_j [w_j t_H + v_j t_S (1 - t_H)]. Without the factor (1 - t_H) a child would
  count twice if both parents have the targets.
- heads with a spouse: w_spouse s_H t_S;
- heads by their lead: see below.
The last six are multiplied by A, summed over k and divided by E.

Leads, of one column of n numbers: h(a) is the probability that the head has the number at position
a, and t_j(u) the one that child j has a number at position u or above. The highest number of the
children is at u or above with probability
    f(u) = sum_j w_j t_j(u) prod_{i<j} (1 - t_i(u)),  f(n) = 0.
The head's lead is less than d with probability F(d) = sum_a h(a) f(a - d + 1). The band of leads
from d to e - 1 has probability F(e) - F(d), and the first band, of children above the head, F(0).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...jax_extra import jax, jnp
from ..workload.head_leads import band_starts
from ..workload.queries import GROUP
from .model_arrays import Array, EncodedQueries, ModelLayout, QueryChunks
from .row_supports import RowSupports


def lead_table(layout: ModelLayout, person: jax.Array, filled: jax.Array) -> jax.Array:
    """(values, K) the probabilities of all bands of leads, by column of persons.

    The bands of a column stand in the first rows of its values; all other rows are 0. Without
    leads the table is empty.

    person: (slots, values + 1, K), the table of persons.
    filled: (slots, K), w for any size.
    """
    table = jnp.zeros((layout.person_rows if layout.leads else 0, person.shape[-1]), person.dtype)
    starts = np.cumsum([0, *layout.person_values])
    for column, codes in layout.leads:
        start = int(starts[column])
        bands = _bands(layout, person[:, start + np.array(codes)], filled)
        table = table.at[start : start + len(bands)].set(bands)
    return table


def _bands(layout: ModelLayout, numbers: jax.Array, filled: jax.Array) -> jax.Array:
    """(bands, K) F(e) - F(d) of every band of leads in one column.

    numbers: (slots, n, K), the probability of each number, in increasing order of the numbers.
    filled: (slots, K), w for any size.
    """
    assert layout.types is not None
    h, n = numbers[0], numbers.shape[1]
    f, no_child_yet = jnp.zeros(numbers.shape[1:], numbers.dtype), jnp.ones((), numbers.dtype)
    for j in range(2, 2 + layout.types.children):
        t_j = jnp.cumsum(numbers[j, ::-1], axis=0)[::-1]  # (n, K), by u
        f = f + filled[j] * t_j * no_child_yet
        no_child_yet = no_child_yet * (1 - t_j)
    f = jnp.concatenate([f, jnp.zeros_like(f[:1])])  # (n + 1, K): f(n) = 0
    ends = np.array([*band_starts(n), n])[:, None]  # d, (bands, 1)
    u = np.arange(n) + 1 - ends  # a - d + 1, (bands, n); below 0: any number is at u or above
    less = (h * f[np.clip(u, 0, n)]).sum(axis=1)  # F(d), (bands, K)
    return jnp.concatenate([less[:1], jnp.diff(less, axis=0)])


Logits = dict[str, jax.Array]
Form = Callable[["ProbabilityTables", EncodedQueries], jax.Array]


class ProbabilityTables(NamedTuple):
    """Probabilities given k, in the notation above; the last axis is k.

    group: (values + 1, K), a row for each value and a last row of ones.
    person: (slots, values + 1, K), likewise.
    filled: (slots, sizes + 1, K), w by the size asked for; index `sizes` is any size.
    sized: (sizes + 1, K), the probability of the size asked for.
    paired: (children, sizes + 1, K), v.
    composition: (compositions, K), P. With weighted rows P, w and v are times K and the row's
        weight, so that a mean over rows is a weighted one.
    people: (), E.
    lead: (values, K), the probability of each band of leads; see `lead_table`.
    """

    group: jax.Array
    person: jax.Array
    filled: jax.Array
    sized: jax.Array
    paired: jax.Array
    composition: jax.Array
    people: jax.Array
    lead: jax.Array


def probability_tables(
    layout: ModelLayout, logits: Logits, supports: RowSupports | None = None
) -> ProbabilityTables:
    """The tables of a model, by a softmax over the values of every column that a row may hold.

    logits: float32 (length, K) for each of `layout.heads`.
    supports: of the rows; None: a row may hold everything.
    """
    rows = logits["group"].shape[1]
    group = _with_ones(_softmaxes(logits["group"], layout.group_values), (rows,))
    person = _person(layout, logits, supports)
    sums: Any = sum(logits[name][index] for name, index in layout.counts.items())
    if supports is not None:
        sums = jnp.where(supports.composition, sums, -jnp.inf)
    composition = jax.nn.softmax(sums, axis=0)
    if layout.weighted:
        composition = composition * (rows * jax.nn.softmax(logits["row"][0]))
    size = layout.filled.sum(axis=1) - layout.least
    sized = np.stack([*(size == t for t in range(layout.sizes)), size >= 0])

    def summed(which: NDArray[np.bool_]) -> jax.Array:
        """(..., sizes + 1, K) sums over the compositions with true `which`.

        which: (..., compositions).
        """
        mask = jnp.asarray(which[..., None, :] & sized, composition.dtype)
        return jnp.matmul(mask, composition, precision="highest")

    filled = summed(layout.filled.T)
    return ProbabilityTables(
        group=group,
        person=person,
        filled=filled,
        sized=filled[0] if layout.least else summed(np.ones(len(layout.filled), np.bool_)),
        paired=summed(_paired(layout)),
        composition=composition,
        people=filled[:, -1].sum(),
        lead=lead_table(layout, person, filled[:, -1]),
    )


def _paired(layout: ModelLayout) -> NDArray[np.bool_]:
    """(children, compositions) the compositions in the sum v; empty without roles."""
    if layout.types is None:
        return np.zeros((0, len(layout.filled)), bool)
    children = layout.filled.T[2 : 2 + layout.types.children]
    paired: NDArray[np.bool_] = children & (layout.counts["spouse"] == 1)
    return paired


def _softmaxes(logits: jax.Array, values: tuple[int, ...]) -> list[jax.Array]:
    """A softmax per column, over the second-to-last axis."""
    softmaxes, start = [], 0
    for size in values:
        softmaxes.append(jax.nn.softmax(logits[..., start : start + size, :], axis=-2))
        start += size
    return softmaxes


def _with_ones(blocks: list[jax.Array], shape: tuple[int, ...]) -> jax.Array:
    """Stacks the blocks and a last row of ones; shape: apart from the number of rows."""
    return jnp.concatenate([*blocks, jnp.ones((*shape[:-1], 1, shape[-1]))], axis=-2)


def _person(layout: ModelLayout, logits: Logits, supports: RowSupports | None) -> jax.Array:
    """(slots, values + 1, K). The column that states the role has the role of the slot."""
    slots, rows = layout.slots, logits["person"].shape[1]
    values = tuple(layout.person_values[c] for c in layout.free_columns)
    of_slot = logits["person"].reshape(slots, sum(values), rows)
    if supports is not None:
        of_slot = jnp.where(supports.person, of_slot, -jnp.inf)
    blocks = _softmaxes(of_slot, values)
    types = layout.types
    if types is not None:
        fixed = jnp.asarray(layout.role_table())[:, :, None]
        role = jnp.broadcast_to(fixed, (*fixed.shape[:2], rows))
        if types.other_slots:
            shape = types.other_slots, len(types.other_codes), rows
            chosen = jax.nn.softmax(logits["role"].reshape(shape), axis=1)
            other_roles = jnp.zeros((shape[0], role.shape[1], rows), chosen.dtype)
            other_roles = other_roles.at[:, np.array(types.other_codes)].set(chosen)
            role = jnp.concatenate([role, other_roles])
        blocks.insert(types.column, role)
    return _with_ones(blocks, (slots, rows))


def _product(table: jax.Array, rows: Array) -> jax.Array:
    """(n, K) products of rows of a table.

    table: (values + 1, K).
    rows: int32 (n, width), the rows that are multiplied.
    """
    product: jax.Array = table[rows[:, 0]]
    for i in range(1, rows.shape[1]):
        product = product * table[rows[:, i]]
    return product


def _groups(t: ProbabilityTables, q: EncodedQueries) -> jax.Array:
    """(n, K) answers given k of queries about groups and nobody in them."""
    return t.sized[q.size]


def _people(t: ProbabilityTables, q: EncodedQueries) -> jax.Array:
    """(n, K) answers given k of queries about people."""
    total = jnp.zeros((), t.group.dtype)
    for table, filled in zip(t.person, t.filled, strict=True):
        total = total + filled[q.size] * _product(table, q.person)
    return total


def _someone_alike(t: ProbabilityTables, q: EncodedQueries) -> jax.Array:
    """(n, K) answers given k of queries about groups with a member, without roles."""
    total = jnp.zeros((), t.group.dtype)
    nobody = jnp.ones((), t.group.dtype)
    for table, filled in zip(t.person, t.filled, strict=True):
        s = _product(table, q.person)
        total = total + filled[q.size] * s * nobody
        nobody = nobody * (1 - s)
    return total


def _someone(layout: ModelLayout, t: ProbabilityTables, q: EncodedQueries) -> jax.Array:
    """(n, K) answers given k of queries about groups with a member, with roles."""
    assert layout.types is not None
    first = 2 + layout.types.children
    head, spouse = (_product(t.person[j], q.person) for j in (0, 1))
    some_child, no_child = _someone_among(t.person[2:first], q)
    some_other, _ = _someone_among(t.person[first:], q)
    counts, zeros = layout.counts, np.zeros(len(layout.filled), np.int64)
    size = layout.filled.sum(axis=1) - 1
    fits = (q.size[:, None] == layout.max_size) | (q.size[:, None] == size)
    among = [jnp.zeros((), t.group.dtype)] * 2  # children and others, by the number of spouses
    for e, (n, c, o) in enumerate(
        zip(counts["spouse"], counts["child"], counts.get("other", zeros), strict=True)
    ):
        chance = t.composition[e] * fits[:, e, None]
        among[n] = among[n] + chance * (some_child[c] + no_child[c] * some_other[o])
    with_spouse = spouse * t.filled[1][q.size] + (1 - spouse) * among[1]
    answers: jax.Array = t.filled[0][q.size] * head + (1 - head) * (among[0] + with_spouse)
    return answers


def _someone_among(tables: jax.Array, q: EncodedQueries) -> tuple[list[jax.Array], list[jax.Array]]:
    """The probabilities of any and of no match among the first 0, 1, ... members.

    tables: (slots, values + 1, K), of these members. Each entry is (n, K) or ().
    """
    anyone, nobody = [jnp.zeros((), tables.dtype)], [jnp.ones((), tables.dtype)]
    for table in tables:
        s = _product(table, q.person)
        anyone.append(anyone[-1] + s * nobody[-1])
        nobody.append(nobody[-1] * (1 - s))
    return anyone, nobody


def _with_spouse(t: ProbabilityTables, q: EncodedQueries) -> jax.Array:
    """(n, K) answers given k of queries about people with a spouse."""
    persons = [_product(t.person[j], q.person) for j in (0, 1)]
    spouses = [_product(t.person[j], q.relative) for j in (1, 0)]
    total: jax.Array = t.filled[1][q.size] * (persons[0] * spouses[0] + persons[1] * spouses[1])
    return total


def _with_child(t: ProbabilityTables, q: EncodedQueries) -> jax.Array:
    """(n, K) answers given k of queries about people with a child."""
    anyone = paired = jnp.zeros((), t.group.dtype)
    nobody = jnp.ones((), t.group.dtype)
    for j in range(t.paired.shape[0]):
        first = _product(t.person[j + 2], q.relative)
        anyone = anyone + t.filled[j + 2][q.size] * first * nobody
        paired = paired + t.paired[j][q.size] * first * nobody
        nobody = nobody * (1 - first)
    return _product(t.person[0], q.person) * anyone + _product(t.person[1], q.person) * paired


def _with_parent(t: ProbabilityTables, q: EncodedQueries) -> jax.Array:
    """(n, K) answers given k of queries about people with a parent."""
    head = _product(t.person[0], q.relative)
    only_spouse = _product(t.person[1], q.relative) * (1 - head)
    total = jnp.zeros_like(head)
    for j in range(t.paired.shape[0]):
        s = _product(t.person[j + 2], q.person)
        total = total + s * (t.filled[j + 2][q.size] * head + t.paired[j][q.size] * only_spouse)
    return total


def _couples(t: ProbabilityTables, q: EncodedQueries) -> jax.Array:
    """(n, K) answers given k of queries about heads with a spouse."""
    pair = _product(t.person[0], q.person) * _product(t.person[1], q.relative)
    answers: jax.Array = t.filled[1][q.size] * pair
    return answers


def _leads(t: ProbabilityTables, q: EncodedQueries) -> jax.Array:
    """(n, K) answers given k of queries about heads by their lead."""
    return t.lead[q.person[:, 0]]


def chunk_forms(layout: ModelLayout) -> tuple[Form, ...]:
    """The formula of every kind of chunk but NOTHING, in the order of their numbers."""
    if layout.types is None:
        return (_groups, _someone_alike, _people)
    someone = partial(_someone, layout)
    of_leads = (_leads,) if layout.leads else ()
    relations = _with_spouse, _with_child, _with_parent, _couples
    return (_groups, someone, _people, *relations, *of_leads)


def chunk_shares(
    form: Form, t: ProbabilityTables, q: EncodedQueries, *, per_group: bool = False
) -> jax.Array:
    """(n,) answers of a chunk: shares of groups at level GROUP, else of people.

    per_group: all answers are numbers per group.
    """
    rows = t.group.shape[1]
    sums = jnp.einsum("qk,qk->q", _product(t.group, q.group), form(t, q), precision="highest")
    return sums / (rows if per_group else jnp.where(q.level == GROUP, float(rows), t.people))


def all_shares(
    layout: ModelLayout, logits: Logits, chunks: QueryChunks, supports: RowSupports | None = None
) -> jax.Array:
    """(chunks, length) answers, computed chunk by chunk; 0 in chunks of padding."""
    t = probability_tables(layout, logits, supports)

    def nothing(q: EncodedQueries) -> jax.Array:
        return jnp.zeros(q.level.shape, t.group.dtype)

    share = partial(chunk_shares, per_group=not layout.least)
    forms = [partial(share, form, t) for form in chunk_forms(layout)]

    def answer_chunk(chunk: QueryChunks) -> jax.Array:
        answer: jax.Array = jax.lax.switch(chunk.kind, [nothing, *forms], chunk.queries)
        return answer

    answers: jax.Array = jax.lax.map(answer_chunk, chunks)
    return answers


def loss_and_gradient(
    layout: ModelLayout, logits: Logits, chunks: QueryChunks, supports: RowSupports | None = None
) -> tuple[jax.Array, Logits]:
    """Weighted squared error over all chunks, and its gradient with respect to the logits.

    Gradients with respect to the tables are summed chunk by chunk, and then propagated through the
    softmaxes once. So memory is the memory of a chunk and of two tables, for any number of queries.
    """
    t, back = jax.vjp(lambda p: probability_tables(layout, p, supports), logits)
    share = partial(chunk_shares, per_group=not layout.least)
    Carry = tuple[jax.Array, ProbabilityTables]

    def add(form: Form, carry: Carry, chunk: QueryChunks) -> Carry:
        def loss(t: ProbabilityTables) -> jax.Array:
            errors = share(form, t, chunk.queries) - chunk.target
            squares: jax.Array = chunk.weight * errors**2
            return squares.sum()

        value, gradient = jax.value_and_grad(loss)(t)
        return carry[0] + value, jax.tree.map(jnp.add, carry[1], gradient)

    def nothing(carry: Carry, chunk: QueryChunks) -> Carry:
        return carry

    forms = [partial(add, form) for form in chunk_forms(layout)]

    def add_chunk(carry: Carry, chunk: QueryChunks) -> tuple[Carry, None]:
        return jax.lax.switch(chunk.kind, [nothing, *forms], carry, chunk), None

    start = jnp.zeros((), t.group.dtype), jax.tree.map(jnp.zeros_like, t)
    (value, gradient), _ = jax.lax.scan(add_chunk, start, chunks)
    return value, back(gradient)[0]
