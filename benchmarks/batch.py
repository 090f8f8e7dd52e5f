"""Time and memory of hierarchical product distributions, by candidate queries and mixture rows.

    python benchmarks/batch.py

Candidates are cells of 2-, 3- and 4-way marginals at all levels. A round answers every one of
them, and fits 50 steps to 128 measured ones. The baseline is the same
formula in plain NumPy, in the same run (members alike only). Each cell runs in a process of its
own, whose peak memory is shown; a part that would take more than a minute is left out (-). Times
are without compilation, which is shown by itself and happens once for each shape.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from result_file import record

MOST, MEASURED, STEPS, LIMIT = 6, 128, 50, 60.0
GUESS = {"answers": 5e-9, "numpy": 3e-8, "gradient": 2e-8}  # seconds a query, row and slot


def domain(form: str) -> Any:
    from stream_dp.batch.data.domain import Column, Domain, Roles

    def columns(prefix: str, *sizes: int) -> tuple[Column, ...]:
        return tuple(Column(f"{prefix}{i}", tuple(range(n))) for i, n in enumerate(sizes))

    group, person = columns("g", 5, 5, 3, 2), columns("p", 3, 2, 9, 5, 6, 4, 8, 2)
    roles = (
        Roles(column="p0", head=0, spouse=1, child=2, children=MOST - 2)
        if form == "households"
        else None
    )
    return Domain(group, person, MOST, roles)


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def plain(model: Any, params: Any, encoded: Any) -> Any:
    """Answers of members alike, as the paper writes them, 64 queries at a time."""
    layout, logits = model.layout, params
    rows = model.rows

    def table(logits: Any, values: tuple[int, ...]) -> Any:
        parts = np.split(logits, np.cumsum(values)[:-1], axis=-2)
        weights = [np.exp(p - p.max(axis=-2, keepdims=True)) for p in parts]
        weights = [w / w.sum(axis=-2, keepdims=True) for w in weights]
        return np.concatenate([*weights, np.ones_like(weights[0][..., :1, :])], axis=-2)

    group = table(np.asarray(logits["group"]), layout.group_values)
    person = table(np.asarray(logits["person"]).reshape(MOST, -1, rows), layout.person_values)
    size = table(np.asarray(logits["size"]), (MOST,))[:MOST]
    people = (size * np.arange(1, MOST + 1)[:, None]).sum()
    out = np.empty(len(encoded.level))
    for a in range(0, len(out), 64):
        q = encoded.take(slice(a, a + 64))
        wanted = (q.size[:, None] == MOST) | (q.size[:, None] == np.arange(MOST))
        weight = wanted[:, :, None] * size  # (queries, sizes, K)
        s = person[:, q.person].prod(axis=2).swapaxes(0, 1)  # (queries, slots, K)
        some, all_of = 1 - np.cumprod(1 - s, axis=1), np.cumsum(s, axis=1)
        inner = (weight * np.where((q.level == 0)[:, None, None], some, all_of)).sum(axis=1)
        sums = (group[q.group].prod(axis=1) * inner).sum(axis=1)
        out[a : a + 64] = sums / np.where(q.level == 0, rows, people)
    return out


def sampled_queries(marginals: Any, n: int, rng: np.random.Generator) -> Any:
    """n different cells of the marginals, a uniformly random set."""
    from stream_dp.batch.groups.workload.queries import Queries

    ends = np.cumsum([m.size for m in marginals], dtype=np.int64)
    cells = np.sort(rng.choice(ends[-1], n, replace=False))
    which = np.searchsorted(ends, cells, side="right")
    return Queries.joined(
        marginals[i].queries(cells[which == i] - (ends[i] - marginals[i].size))
        for i in np.unique(which)
    )


def cell(form: str, queries: int, rows: int) -> dict[str, float | None]:
    from stream_dp.batch.groups.hpd.adam import AdamSettings
    from stream_dp.batch.groups.hpd.product_mixture import HPD, MeasuredQueries
    from stream_dp.batch.groups.workload.queries import all_marginals

    base, model = peak(), HPD(domain(form), 10**5, 25 * 10**4, rows)
    levels = range(5) if form == "households" else range(2)
    pool = [m for k in (2, 3, 4) for m in all_marginals(model.domain, k, levels)]
    workload = sampled_queries(pool, queries, np.random.default_rng(1))
    encoded, params = model.encode(workload), model.init(2)
    values, ones = model.answers(model.init(3), encoded.take(slice(0, MEASURED))), np.ones(queries)
    size, figures = queries * rows * model.layout.slots, dict[str, float | None](base=base)

    def fit(n: int, steps: int) -> None:
        value = np.resize(values, n)
        model.fit(
            params,
            MeasuredQueries(encoded.take(slice(0, n)), value, ones[:n]),
            AdamSettings(steps, 0.05),
        )

    def answers() -> None:
        model.answers(params, encoded)

    figures["compile"] = timed(lambda: fit(MEASURED, 1))
    figures["round"] = timed(lambda: fit(MEASURED, STEPS))
    figures["answers"] = figures["all"] = figures["numpy"] = None
    if size * GUESS["answers"] < LIMIT:
        figures["compile"] += timed(lambda: model.answers(params, encoded.take(slice(0, 1))))
        answers()
        figures["answers"] = timed(answers)
    if 2 * size * GUESS["gradient"] < LIMIT:
        fit(queries, 1)
        figures["all"] = timed(lambda: fit(queries, 1)) / 2  # a step, and a look at where it led
    figures["peak"] = peak()
    if form != "households" and size * GUESS["numpy"] < LIMIT:
        figures["numpy"] = timed(lambda: plain(model, params, encoded))
        shares = model.answers(params, encoded) / np.where(encoded.level == 0, 10**5, 25 * 10**4)
        np.testing.assert_allclose(shares, plain(model, params, encoded), rtol=1e-3, atol=1e-6)
    return figures


def shown(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def main() -> None:
    heads = ("members", "queries", "rows", "answers, s", "numpy, s", "ratio", "50 steps, s")
    heads += ("step on all, s", "compile, s", "peak MB", "of it JAX")
    widths = (12, 9, 7, 12, 10, 7, 13, 16, 12, 9, 11)
    print("".join(f"{h:>{w}}" for h, w in zip(heads, widths, strict=True)))
    for form in ("alike", "households"):
        for queries in (10**3, 10**4, 10**5):
            for rows in (10**2, 10**3, 10**4):
                command = [sys.executable, __file__, form, str(queries), str(rows)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                f = json.loads(done.stdout)
                ratio = f["numpy"] / f["answers"] if f["numpy"] and f["answers"] else None
                if form == "alike":
                    size = f"{queries:,} queries, {rows:,} rows"
                    cells = (f["answers"], f["numpy"], ratio, f["round"], f["compile"], f["peak"])
                    record("batch", size, *cells)
                line = (form, str(queries), str(rows), shown(f["answers"], 3))
                line += (shown(f["numpy"], 3), shown(ratio, 1), shown(f["round"]))
                line += (shown(f["all"]), shown(f["compile"], 1))
                line += (shown(f["peak"], 0), shown(f["base"], 0))
                print("".join(f"{x:>{w}}" for x, w in zip(line, widths, strict=True)), flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(json.dumps(cell(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
    else:
        main()
