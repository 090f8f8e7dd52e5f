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

Products of probabilities are exp(M @ logarithms), where M has a 1 for each target of a query. So
all queries of a kind and all slots take one product of matrices, and their gradient another one:
a table has all slots of a value side by side.
Neither gathers rows nor adds to them in an order that a GPU would choose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...jax_extra import jax, jnp
from ..workload.head_leads import band_starts
from .model_arrays import PEOPLE, Array, MemberTargets, ModelLayout, QueryChunks
from .row_supports import RowSupports


def lead_table(layout: ModelLayout, person: jax.Array, filled: jax.Array) -> jax.Array:
    """(values, K) the probabilities of all bands of leads, by column of persons.

    The bands of a column stand in the first rows of its values; all other rows are 0. Without
    leads the table is empty.

    person: (values, slots, K), logarithms.
    filled: (slots, K), w for any size.
    """
    rows = person.shape[-1]
    table = jnp.zeros((layout.person_rows if layout.leads else 0, rows), person.dtype)
    if not layout.leads:
        return table
    assert layout.types is not None
    starts, end = np.cumsum([0, *layout.person_values]), 0
    values = np.concatenate([starts[column] + np.array(codes) for column, codes in layout.leads])
    column_of = np.repeat(np.arange(len(layout.leads)), [len(codes) for _, codes in layout.leads])
    is_value = np.eye(layout.person_rows, dtype=np.float32)[values]
    # By number u of a column, its numbers at u or above.
    above = np.triu(column_of[:, None] == column_of).astype(np.float32) @ is_value
    heads = jnp.matmul(is_value, jnp.exp(person[:, 0]), precision="highest")
    children = jnp.exp(person[:, 2 : 2 + layout.types.children]).reshape(len(person), -1)
    tails = jnp.matmul(above, children, precision="highest").reshape(len(values), -1, rows)
    f, no_child_yet = jnp.zeros_like(heads), jnp.ones((), person.dtype)
    for j, t_j in enumerate(_by_slot(tails), 2):
        f = f + filled[j] * t_j * no_child_yet
        no_child_yet = no_child_yet * (1 - t_j)
    for column, codes in layout.leads:
        first, end = end, end + len(codes)
        bands, start = _bands(heads[first:end], f[first:end]), int(starts[column])
        table = table.at[start : start + len(bands)].set(bands)
    return table


def _bands(h: jax.Array, f: jax.Array) -> jax.Array:
    """(bands, K) F(e) - F(d) of every band of leads in one column.

    h, f: (n, K), by number, in increasing order.
    """
    n = len(h)
    f = jnp.concatenate([f, jnp.zeros_like(f[:1])])  # (n + 1, K): f(n) = 0
    ends = np.array([*band_starts(n), n])[:, None]  # d, (bands, 1)
    u = np.arange(n) + 1 - ends  # a - d + 1, (bands, n); below 0: any number is at u or above
    less = (h * f[np.clip(u, 0, n)]).sum(axis=1)  # F(d), (bands, K)
    return jnp.concatenate([less[:1], jnp.diff(less, axis=0)])


Logits = dict[str, jax.Array]
_Carry = TypeVar("_Carry")
_SUMMED = 1024  # products in a row of a matrix product
Form = Callable[["ProbabilityTables", MemberTargets], jax.Array]
_IMPOSSIBLE = -1e4  # in place of the logarithm of 0: 0 times it is 0, and exp of it is 0


class ProbabilityTables(NamedTuple):
    """Probabilities given k, in the notation above; the last axis is k.

    group: (values, K), logarithms.
    person: (values, slots, K), logarithms.
    filled: (sizes + 1, slots, K), w by the size asked for; row `sizes` is any size.
    sized: (sizes + 1, K), the probability of the size asked for.
    paired: (sizes + 1, children, K), v.
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
    person = _person(layout, logits, supports)
    counted = [np.eye(layout.heads[name])[index] for name, index in layout.counts.items()]
    of_composition = np.concatenate(counted, axis=1).astype(np.float32)
    counts = jnp.concatenate([logits[name] for name in layout.counts])
    sums = jnp.matmul(of_composition, counts, precision="highest")
    if supports is not None:
        sums = jnp.where(supports.composition, sums, -jnp.inf)
    composition = jax.nn.softmax(sums, axis=0)
    if layout.weighted:
        composition = composition * (rows * jax.nn.softmax(logits["row"][0]))
    size = layout.filled.sum(axis=1) - layout.least
    sized = np.stack([*(size == t for t in range(layout.sizes)), size >= 0])

    def summed(which: NDArray[np.bool_]) -> jax.Array:
        """(sizes + 1, ..., K) sums over the compositions with true `which`.

        which: (..., compositions).
        """
        mask = (which & np.expand_dims(sized, tuple(range(1, which.ndim)))).astype(np.float32)
        sums = jnp.matmul(mask.reshape(-1, mask.shape[-1]), composition, precision="highest")
        return sums.reshape(*mask.shape[:-1], rows)

    filled = summed(layout.filled.T)
    any_size = filled[layout.any_size]
    return ProbabilityTables(
        group=_log_softmaxes(logits["group"], layout.group_values),
        person=person,
        filled=filled,
        sized=filled[:, 0] if layout.least else summed(np.ones(len(layout.filled), np.bool_)),
        paired=summed(_paired(layout)),
        composition=composition,
        people=any_size.sum(),
        lead=lead_table(layout, person, any_size),
    )


def _paired(layout: ModelLayout) -> NDArray[np.bool_]:
    """(children, compositions) the compositions in the sum v; empty without roles."""
    if layout.types is None:
        return np.zeros((0, len(layout.filled)), bool)
    children = layout.filled.T[2 : 2 + layout.types.children]
    paired: NDArray[np.bool_] = children & (layout.counts["spouse"] == 1)
    return paired


def _log_softmaxes(logits: jax.Array, values: tuple[int, ...]) -> jax.Array:
    """(values, ..., K) the logarithm of a softmax per column, over the first axis; finite.

    Maxima and sums of all columns are computed together, with the column of each value as a matrix
    of 0 and 1: a GPU would wait for the operations of each column.
    """
    if not values:
        return logits
    flat = logits.reshape(len(logits), -1)
    of_column = np.repeat(np.eye(len(values), dtype=np.float32), values, axis=0)
    in_column = jnp.where(of_column.T[:, :, None] > 0, flat, -jnp.inf)
    highest = jax.lax.stop_gradient(in_column.max(axis=1))
    shifted = flat - jnp.matmul(of_column, highest, precision="highest")
    sums = jnp.matmul(of_column.T, jnp.exp(shifted), precision="highest")
    softmaxes = shifted - jnp.matmul(of_column, jnp.log(sums), precision="highest")
    return jnp.maximum(softmaxes, _IMPOSSIBLE).reshape(logits.shape)


def _person(layout: ModelLayout, logits: Logits, supports: RowSupports | None) -> jax.Array:
    """(values, slots, K) logarithms. The column of the role has the role of the slot."""
    slots, rows = layout.slots, logits["person"].shape[1]
    values = tuple(layout.person_values[c] for c in layout.free_columns)
    of_slot = logits["person"].reshape(slots, sum(values), rows)
    if supports is not None:
        of_slot = jnp.where(supports.person, of_slot, -jnp.inf)
    free, types = _log_softmaxes(jnp.swapaxes(of_slot, 0, 1), values), layout.types
    if types is None:
        return free
    fixed = np.where(layout.role_table().T > 0, np.float32(0), np.float32(_IMPOSSIBLE))
    role = jnp.broadcast_to(fixed[:, :, None], (*fixed.shape, rows))
    if types.other_slots:
        shape = types.other_slots, len(types.other_codes), rows
        chosen = jax.nn.log_softmax(logits["role"].reshape(shape), axis=1)
        other_roles = jnp.full((len(fixed), shape[0], rows), _IMPOSSIBLE, chosen.dtype)
        other_roles = other_roles.at[np.array(types.other_codes)].set(jnp.swapaxes(chosen, 0, 1))
        role = jnp.concatenate([role, other_roles], axis=1)
    before = sum(layout.person_values[: types.column])
    return jnp.concatenate([free[:before], role, free[before:]])


def _marks(rows: Array, table: jax.Array) -> jax.Array:
    """(n, values) the matrix M: 1 for every row of a table that a query names.

    rows: int32 (n, width), padded with the number of the table's rows.
    """
    numbers = np.arange(len(table), dtype=np.int32)
    ones: jax.Array = (rows[:, :, None] == numbers).sum(axis=1, dtype=table.dtype)
    return ones


def _selected(table: jax.Array, rows: Array) -> jax.Array:
    """(n, ..., K) sums of the rows of a table. table: (values, ..., K)."""
    flat = table.reshape(len(table), math.prod(table.shape[1:]))
    sums = jnp.matmul(_marks(rows, flat), flat, precision="highest")
    return sums.reshape(len(rows), *table.shape[1:])


def _product(logarithms: jax.Array, rows: Array) -> jax.Array:
    """(n, K) products of the rows of a table. logarithms: (values, K)."""
    return jnp.exp(_selected(logarithms, rows))


def _products(logarithms: jax.Array, rows: Array) -> list[jax.Array]:
    """By slot, (n, K) products of the rows of a table. logarithms: (values, slots, K)."""
    return _by_slot(jnp.exp(_selected(logarithms, rows)))


def _of_size(table: jax.Array, q: MemberTargets) -> jax.Array:
    """(n, K) a table's rows for the sizes asked for. table: (sizes + 1, K)."""
    return _selected(table, q.size[:, None])


def _of_sizes(table: jax.Array, q: MemberTargets) -> list[jax.Array]:
    """By slot, (n, K) a table's rows for the sizes asked for. table: (sizes + 1, slots, K)."""
    return _by_slot(_selected(table, q.size[:, None]))


def _by_slot(array: jax.Array) -> list[jax.Array]:
    """The arrays (n, K) of (n, slots, K)."""
    slots = array.shape[1]
    return [jnp.squeeze(of_slot, 1) for of_slot in jnp.split(array, slots, axis=1)] if slots else []


def _groups(t: ProbabilityTables, q: MemberTargets) -> jax.Array:
    """(n, K) answers given k of queries about groups and nobody in them."""
    return _of_size(t.sized, q)


def _people(t: ProbabilityTables, q: MemberTargets) -> jax.Array:
    """(n, K) answers given k of queries about people."""
    total = jnp.zeros((), t.group.dtype)
    for s, w in zip(_products(t.person, q.person), _of_sizes(t.filled, q), strict=True):
        total = total + w * s
    return total


def _someone_without_roles(t: ProbabilityTables, q: MemberTargets) -> jax.Array:
    """(n, K) answers given k of queries about groups with a member, without roles.

    The sum of w_j s_j prod_{i<j} (1 - s_i) over slots j, the module's share of groups before the
    factor A. `t.filled` has the weights w_j: the probabilities that slot j is filled and the group
    has the size that the query asks for.
    """
    total = jnp.zeros((), t.group.dtype)
    nobody = jnp.ones((), t.group.dtype)
    for s, w in zip(_products(t.person, q.person), _of_sizes(t.filled, q), strict=True):
        total = total + w * s * nobody
        nobody = nobody * (1 - s)
    return total


def _someone_with_roles(layout: ModelLayout, t: ProbabilityTables, q: MemberTargets) -> jax.Array:
    """(n, K) answers given k of queries about groups with a member, with roles."""
    assert layout.types is not None
    first = 2 + layout.types.children
    head, spouse, *others = _products(t.person, q.person)
    some_child, no_child = _someone_among(others[: first - 2])
    some_other, _ = _someone_among(others[first - 2 :])
    counts, zeros = layout.counts, np.zeros(len(layout.filled), np.int64)
    size = layout.filled.sum(axis=1) - 1
    fits = (q.size[:, None] == layout.max_size) | (q.size[:, None] == size)
    among = [jnp.zeros((), t.group.dtype)] * 2  # children and others, by the number of spouses
    for e, (n, c, o) in enumerate(
        zip(counts["spouse"], counts["child"], counts.get("other", zeros), strict=True)
    ):
        chance = t.composition[e] * fits[:, e, None]
        among[n] = among[n] + chance * (some_child[c] + no_child[c] * some_other[o])
    of_head, of_spouse = _of_sizes(t.filled[:, :2], q)
    with_spouse = spouse * of_spouse + (1 - spouse) * among[1]
    answers: jax.Array = of_head * head + (1 - head) * (among[0] + with_spouse)
    return answers


def _someone_among(matches: Sequence[jax.Array]) -> tuple[list[jax.Array], list[jax.Array]]:
    """The probabilities of any and of no match among the first 0, 1, ... members.

    matches: by member, (n, K) the probability of a match. Each entry is (n, K) or ().
    """
    anyone, nobody = [jnp.zeros((), jnp.float32)], [jnp.ones((), jnp.float32)]
    for s in matches:
        anyone.append(anyone[-1] + s * nobody[-1])
        nobody.append(nobody[-1] * (1 - s))
    return anyone, nobody


def _with_spouse(t: ProbabilityTables, q: MemberTargets) -> jax.Array:
    """(n, K) answers given k of queries about people with a spouse."""
    head, spouse = _products(t.person[:, :2], q.person)
    relative_head, relative_spouse = _products(t.person[:, :2], q.relative)
    return _of_size(t.filled[:, 1], q) * (head * relative_spouse + spouse * relative_head)


def _with_child(t: ProbabilityTables, q: MemberTargets) -> jax.Array:
    """(n, K) answers given k of queries about people with a child."""
    anyone = paired = jnp.zeros((), t.group.dtype)
    nobody = jnp.ones((), t.group.dtype)
    children = slice(2, 2 + t.paired.shape[1])
    for first, w, v in zip(
        _products(t.person[:, children], q.relative),
        _of_sizes(t.filled[:, children], q),
        _of_sizes(t.paired, q),
        strict=True,
    ):
        anyone = anyone + w * first * nobody
        paired = paired + v * first * nobody
        nobody = nobody * (1 - first)
    head, spouse = _products(t.person[:, :2], q.person)
    return head * anyone + spouse * paired


def _with_parent(t: ProbabilityTables, q: MemberTargets) -> jax.Array:
    """(n, K) answers given k of queries about people with a parent."""
    head, spouse = _products(t.person[:, :2], q.relative)
    only_spouse = spouse * (1 - head)
    total = jnp.zeros_like(head)
    children = slice(2, 2 + t.paired.shape[1])
    for s, w, v in zip(
        _products(t.person[:, children], q.person),
        _of_sizes(t.filled[:, children], q),
        _of_sizes(t.paired, q),
        strict=True,
    ):
        total = total + s * (w * head + v * only_spouse)
    return total


def _couples(t: ProbabilityTables, q: MemberTargets) -> jax.Array:
    """(n, K) answers given k of queries about heads with a spouse."""
    pair = _product(t.person[:, 0], q.person) * _product(t.person[:, 1], q.relative)
    return _of_size(t.filled[:, 1], q) * pair


def _leads(t: ProbabilityTables, q: MemberTargets) -> jax.Array:
    """(n, K) answers given k of queries about heads by their lead."""
    return _selected(t.lead, q.person)


def chunk_forms(layout: ModelLayout) -> tuple[Form, ...]:
    """The formula of every kind of chunk, in the order of their numbers."""
    if layout.types is None:
        return (_groups, _someone_without_roles, _people)
    someone = partial(_someone_with_roles, layout)
    of_leads = (_leads,) if layout.leads else ()
    relations = _with_spouse, _with_child, _with_parent, _couples
    return (_groups, someone, _people, *relations, *of_leads)


def chunk_shares(
    layout: ModelLayout, kind: int, t: ProbabilityTables, q: MemberTargets, group: Array
) -> jax.Array:
    """(rows, columns) answers of a chunk: shares of groups or of people, by its kind.

    Answers about people and their events are numbers per group.
    """
    members = chunk_forms(layout)[kind](t, q)
    sums = _sums_over_rows(_product(t.group, group), members)
    per_group = kind < PEOPLE or not layout.least
    return sums / (t.group.shape[1] if per_group else t.people)


def _sums_over_rows(a: jax.Array, b: jax.Array) -> jax.Array:
    """(m, n) sums over k of a (m, K) times b (n, K).

    Sums of blocks are added, so that rounding errors do not grow with K.
    """
    blocks = max(1, a.shape[1] // _SUMMED)
    padding = (0, 0), (0, -a.shape[1] % blocks)
    a, b = (jnp.pad(x, padding).reshape(len(x), blocks, -1) for x in (a, b))
    return jnp.einsum("mbk,nbk->bmn", a, b, precision="highest").sum(axis=0)


def all_shares(
    layout: ModelLayout, logits: Logits, chunks: QueryChunks, supports: RowSupports | None = None
) -> jax.Array:
    """(chunks, rows, columns) answers, computed chunk by chunk; 0 in chunks of padding."""
    t = probability_tables(layout, logits, supports)

    def add(kind: int, answers: jax.Array, i: jax.Array) -> jax.Array:
        members, group = jax.tree.map(lambda a: a[i], (chunks.members, chunks.group))
        return answers.at[i].set(chunk_shares(layout, kind, t, members, group))

    return _over_chunks(layout, chunks, add, jnp.zeros(chunks.target.shape, t.group.dtype))


def loss_and_gradient(
    layout: ModelLayout, logits: Logits, chunks: QueryChunks, supports: RowSupports | None = None
) -> tuple[jax.Array, Logits]:
    """Weighted squared error over all chunks, and its gradient with respect to the logits.

    Gradients with respect to the tables are summed chunk by chunk, and then propagated through the
    softmaxes once. So memory is the memory of a chunk and of two tables, for any number of queries.
    """
    t, back = jax.vjp(lambda p: probability_tables(layout, p, supports), logits)
    Carry = tuple[jax.Array, ProbabilityTables]

    def add(kind: int, carry: Carry, i: jax.Array) -> Carry:
        chunk = jax.tree.map(lambda a: a[i], chunks._replace(ends=()))

        def loss(t: ProbabilityTables) -> jax.Array:
            shares = chunk_shares(layout, kind, t, chunk.members, chunk.group)
            squares: jax.Array = chunk.weight * (shares - chunk.target) ** 2
            return squares.sum()

        value, gradient = jax.value_and_grad(loss)(t)
        return carry[0] + value, jax.tree.map(jnp.add, carry[1], gradient)

    start = jnp.zeros((), t.group.dtype), jax.tree.map(jnp.zeros_like, t)
    value, gradient = _over_chunks(layout, chunks, add, start)
    return value, back(gradient)[0]


def _over_chunks(
    layout: ModelLayout,
    chunks: QueryChunks,
    add: Callable[[int, _Carry, jax.Array], _Carry],
    start: _Carry,
) -> _Carry:
    """What `add` makes of `start`, kind by kind and chunk by chunk. add: kind, carry, chunk."""
    carry, first = start, jnp.int32(0)
    for kind in range(len(chunk_forms(layout))):
        last = jnp.asarray(chunks.ends)[kind]
        with jax.named_scope(f"kind{kind}"):
            carry = jax.lax.fori_loop(first, last, lambda i, c, k=kind: add(k, c, i), carry)
        first = last
    return carry
