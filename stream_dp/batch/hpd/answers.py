"""What a hierarchical product distribution answers, as differentiable sums of products.

Source: Liu, Wu, Private synthetic data with hierarchical structure (arXiv 2206.05942), the
query classes and appendix A.3. A household comes from a mixture row k, drawn uniformly among K;
given k its attributes, its composition and all attributes of all its members are independent.

Notation, all given k: A is the product of the query's group probabilities; s_j and t_j are the
products of its person and relative probabilities for the member in slot j; w_j is the
probability that slot j is filled and the group has the wanted size (any, if free).

Someone. 1 - prod_j (1 - s_j) is the probability that at least one of some members has the
targets. With members in an order, the events "j is the first that has them" are disjoint, so it
is sum_j s_j prod_{i<j} (1 - s_i). All terms are positive: nothing cancels in float32 where s is
tiny, as 1 minus a product near 1 would, and no logarithm has a pole where s is 1. If slots fill
in order, P(j is filled and the first) = w_j s_j prod_{i<j} (1 - s_i), which gives
sum_m p(m) [1 - prod_{j<=m} (1 - s_j)] with w_j = sum_{m>=j} p(m).

Members alike (slots 1..M, size vector p):
- share of groups: (1/K) sum_k A sum_j w_j s_j prod_{i<j} (1 - s_i);
- share of people: sum_k A sum_j w_j s_j / E, E = sum_k sum_m m p_k(m): people per K groups. The
  same without the product.

Head, spouse, children, others (a head always, n of 0 or 1 spouse, c of 0..C children, o of 0..O
others): independent given k, but for a bound on the group's size 1 + n + c + o. The sums below are
over such (n, c, o) that have the wanted size; P is their probability. w_head = sum P; w_spouse:
those with n = 1; w_child j: with c >= j; w_other i: with o >= i; v_j: with n = 1 and c >= j; b_c:
with n = 1 and c children; u_nci: with n, c, and o >= i.
- share of groups, in the order head, children, spouse, others. Let R_c = (1 - s_H)
  prod_{i<=c} (1 - s_i), nobody among the head and c children: w_head s_H + sum_j w_j s_j R_{j-1}
  + s_S sum_c b_c R_c + sum_i s_i prod_{h<i} (1 - s_h) sum_c R_c [u_0ci + (1 - s_S) u_1ci], the
  last sum over slots i of others. Times A, mean over k.
- share of people: the same with all products of (1 - s) replaced by 1, which is sum_j w_j s_j.
- with a spouse: head and spouse are each other's: w_spouse (s_H t_S + s_S t_H).
- with a child (for head and spouse): f = sum_j w_j t_j prod_{i<j} (1 - t_i) is P(some child has
  the relative's targets), g the same with v_j for w_j (and there is a spouse): s_H f + s_S g.
- with a parent (for child j): the head has the targets, or there is a spouse who has them and
  the head does not: sum_j s_j [w_j t_H + v_j t_S (1 - t_H)]. A sum of both parents without
  (1 - t_H) would count a child twice whose parents both have them.
The last four are multiplied by A, summed over k and divided by E.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..extra import jax, jnp
from ..workload.queries import GROUP
from .layout import Array, EncodedQueries, ModelLayout, QueryChunks

Logits = dict[str, jax.Array]
Form = Callable[["ProbabilityTables", EncodedQueries], jax.Array]


class ProbabilityTables(NamedTuple):
    """Probabilities given k, tables with a row for each value and a row of ones, K columns.

    group (values + 1, K); person (slots, values + 1, K). By wanted size, `most` for any: filled
    (slots, most + 1, K): w; paired (children, most + 1, K): v; both (children + 1, most + 1, K):
    b; beside (2, children + 1, others, most + 1, K): u. people (): E.
    """

    group: jax.Array
    person: jax.Array
    filled: jax.Array
    paired: jax.Array
    both: jax.Array
    beside: jax.Array
    people: jax.Array


def probability_tables(layout: ModelLayout, logits: Logits) -> ProbabilityTables:
    """Softmax of every column. logits: for each of `layout.heads`, float32 (length, K)."""
    rows = logits["group"].shape[1]
    group = _with_ones(_softmaxes(logits["group"], layout.group_values), (rows,))
    person = _person(layout, logits)
    composition = jax.nn.softmax(
        sum(logits[name][index] for name, index in layout.counts.items()), axis=0
    )
    size = layout.filled.sum(axis=1)
    wanted = np.stack([*(size == t + 1 for t in range(layout.most)), size > 0])

    def summed(which: NDArray[np.bool_]) -> jax.Array:
        """(..., most + 1, K): over the compositions in which (..., compositions) is true."""
        mask = jnp.asarray(which[..., None, :] & wanted, composition.dtype)
        return jnp.matmul(mask, composition, precision="highest")

    filled = summed(layout.filled.T)
    paired, both, beside = (summed(which) for which in _relatives(layout))
    return ProbabilityTables(group, person, filled, paired, both, beside, filled[:, -1].sum())


def _relatives(layout: ModelLayout) -> tuple[NDArray[np.bool_], ...]:
    """The compositions that v, b and u sum over, (..., compositions); empty for members alike."""
    if layout.types is None:
        none = np.zeros((0, len(layout.filled)), bool)
        return none, none, none[None, None]
    spouse, child = layout.counts["spouse"], layout.counts["child"]
    own = 2 + layout.types.children
    has = layout.filled.T
    exactly = child == np.arange(layout.types.children + 1)[:, None]
    married = spouse == np.arange(2)[:, None]
    beside = married[:, None, None] & exactly[:, None] & has[own:]
    return has[2:own] & married[1], exactly & married[1], beside


def _softmaxes(logits: jax.Array, values: tuple[int, ...]) -> list[jax.Array]:
    """One softmax per column over the last axis but one."""
    parts, start = [], 0
    for size in values:
        parts.append(jax.nn.softmax(logits[..., start : start + size, :], axis=-2))
        start += size
    return parts


def _with_ones(parts: list[jax.Array], shape: tuple[int, ...]) -> jax.Array:
    return jnp.concatenate([*parts, jnp.ones((*shape[:-1], 1, shape[-1]))], axis=-2)


def _person(layout: ModelLayout, logits: Logits) -> jax.Array:
    """(slots, values + 1, K); the column that states the role is what the slot is."""
    slots, rows = layout.slots, logits["person"].shape[1]
    values = tuple(layout.person_values[c] for c in layout.free_columns)
    parts = _softmaxes(logits["person"].reshape(slots, sum(values), rows), values)
    types = layout.types
    if types is not None:
        fixed = jnp.asarray(layout.role_table())[:, :, None]
        role = jnp.broadcast_to(fixed, (*fixed.shape[:2], rows))
        if types.others:
            shape = types.others, len(types.other_codes), rows
            chosen = jax.nn.softmax(logits["role"].reshape(shape), axis=1)
            other = jnp.zeros((shape[0], role.shape[1], rows), chosen.dtype)
            other = other.at[:, np.array(types.other_codes)].set(chosen)
            role = jnp.concatenate([role, other])
        parts.insert(types.column, role)
    return _with_ones(parts, (slots, rows))


def _product(table: jax.Array, rows: Array) -> jax.Array:
    """(n, K): product of the named rows of (values + 1, K); rows int32 (n, width)."""
    out: jax.Array = table[rows[:, 0]]
    for i in range(1, rows.shape[1]):
        out = out * table[rows[:, i]]
    return out


def _alike(t: ProbabilityTables, q: EncodedQueries) -> jax.Array:
    someone = (q.level == GROUP).astype(t.group.dtype)[:, None]
    total = jnp.zeros((), t.group.dtype)
    nobody = jnp.ones((), t.group.dtype)
    for table, filled in zip(t.person, t.filled, strict=True):
        s = _product(table, q.person)
        total = total + filled[q.size] * s * nobody
        nobody = nobody * (1 - someone * s)
    return total


def _own(t: ProbabilityTables, q: EncodedQueries) -> jax.Array:
    someone = (q.level == GROUP).astype(t.group.dtype)[:, None]
    children = t.paired.shape[0]
    s = _product(t.person[0], q.person)
    total: jax.Array = t.filled[0][q.size] * s
    nobody: list[jax.Array] = [1 - someone * s]  # among the head and the first c children
    for j in range(2, children + 2):
        s = _product(t.person[j], q.person)
        total = total + t.filled[j][q.size] * s * nobody[-1]
        nobody.append(nobody[-1] * (1 - someone * s))
    s = _product(t.person[1], q.person)
    total = total + s * sum(b[q.size] * n for b, n in zip(t.both, nobody, strict=True))
    not_spouse = 1 - someone * s
    no_other = jnp.ones((), t.group.dtype)
    for i in range(t.beside.shape[2]):
        s = _product(t.person[children + 2 + i], q.person)
        single, married = (
            sum(u[i][q.size] * n for u, n in zip(side, nobody, strict=True)) for side in t.beside
        )
        total = total + s * no_other * (single + not_spouse * married)
        no_other = no_other * (1 - someone * s)
    return total


def _with_spouse(t: ProbabilityTables, q: EncodedQueries) -> jax.Array:
    own = [_product(t.person[j], q.person) for j in (0, 1)]
    other = [_product(t.person[j], q.relative) for j in (1, 0)]
    total: jax.Array = t.filled[1][q.size] * (own[0] * other[0] + own[1] * other[1])
    return total


def _with_child(t: ProbabilityTables, q: EncodedQueries) -> jax.Array:
    some = paired = jnp.zeros((), t.group.dtype)
    nobody = jnp.ones((), t.group.dtype)
    for j in range(t.paired.shape[0]):
        first = _product(t.person[j + 2], q.relative)
        some = some + t.filled[j + 2][q.size] * first * nobody
        paired = paired + t.paired[j][q.size] * first * nobody
        nobody = nobody * (1 - first)
    return _product(t.person[0], q.person) * some + _product(t.person[1], q.person) * paired


def _with_parent(t: ProbabilityTables, q: EncodedQueries) -> jax.Array:
    head = _product(t.person[0], q.relative)
    only_spouse = _product(t.person[1], q.relative) * (1 - head)
    total = jnp.zeros_like(head)
    for j in range(t.paired.shape[0]):
        s = _product(t.person[j + 2], q.person)
        total = total + s * (t.filled[j + 2][q.size] * head + t.paired[j][q.size] * only_spouse)
    return total


def chunk_forms(layout: ModelLayout) -> tuple[Form, ...]:
    """The formula of each kind of chunk but NOTHING, in the order of their numbers."""
    if layout.types is None:
        return (_alike,)
    return (_own, _with_spouse, _with_child, _with_parent)


def chunk_shares(form: Form, t: ProbabilityTables, q: EncodedQueries) -> jax.Array:
    """(n,) answers of one chunk: of groups at GROUP level, of people at the others."""
    rows = t.group.shape[1]
    sums = jnp.einsum("qk,qk->q", _product(t.group, q.group), form(t, q), precision="highest")
    return sums / jnp.where(q.level == GROUP, float(rows), t.people)


def all_shares(layout: ModelLayout, logits: Logits, chunks: QueryChunks) -> jax.Array:
    """(chunks, length) answers, one chunk at a time; 0 in chunks of padding."""
    t = probability_tables(layout, logits)

    def nothing(q: EncodedQueries) -> jax.Array:
        return jnp.zeros(q.level.shape, t.group.dtype)

    forms = [partial(chunk_shares, form, t) for form in chunk_forms(layout)]

    def one(chunk: QueryChunks) -> jax.Array:
        answer: jax.Array = jax.lax.switch(chunk.kind, [nothing, *forms], chunk.queries)
        return answer

    answers: jax.Array = jax.lax.map(one, chunks)
    return answers


def chunk_loss(
    form: Form, t: ProbabilityTables, q: EncodedQueries, target: Array, weight: Array
) -> jax.Array:
    """Weighted squared error of one chunk."""
    squares: jax.Array = weight * (chunk_shares(form, t, q) - target) ** 2
    return squares.sum()


def loss_and_gradient(
    layout: ModelLayout, logits: Logits, chunks: QueryChunks
) -> tuple[jax.Array, Logits]:
    """Weighted squared error over all chunks, and its gradient by the logits.

    Gradients by the tables are summed chunk by chunk, and go back through the softmaxes once:
    the memory is that of one chunk and of two tables, however many queries there are.
    """
    t, back = jax.vjp(partial(probability_tables, layout), logits)
    Carry = tuple[jax.Array, ProbabilityTables]

    def add(form: Form, carry: Carry, chunk: QueryChunks) -> Carry:
        value, gradient = jax.value_and_grad(
            lambda t: chunk_loss(form, t, chunk.queries, chunk.target, chunk.weight)
        )(t)
        return carry[0] + value, jax.tree.map(jnp.add, carry[1], gradient)

    def nothing(carry: Carry, chunk: QueryChunks) -> Carry:
        return carry

    forms = [partial(add, form) for form in chunk_forms(layout)]

    def one(carry: Carry, chunk: QueryChunks) -> tuple[Carry, None]:
        return jax.lax.switch(chunk.kind, [nothing, *forms], carry, chunk), None

    start = jnp.zeros((), t.group.dtype), jax.tree.map(jnp.zeros_like, t)
    (value, gradient), _ = jax.lax.scan(one, start, chunks)
    return value, back(gradient)[0]
