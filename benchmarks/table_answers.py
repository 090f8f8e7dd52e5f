"""Answers about tables of people: by default, unbiased, and counted in the synthetic records.

Three simulated tables are published: of a chain, of hidden classes with few people in most of their
cells, and of columns with many rare values. The queries are single values,
pairs and triples of values of drawn columns, and at least a value of one or of two columns. By rho
and class, over the tables, the results have the root mean square errors of the unbiased answers,
of the records' numbers and of the default answers, in people, the largest error of the default
answers of one table over its unbiased answers, the root mean square of the stated errors, and the
coverage of the default answers' intervals. Only queries with an unbiased answer are recorded, in
classes of at least `FEW`; the others are printed.

    RECORD=1 python benchmarks/table_answers.py
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
import pyarrow as pa
from result_file import record

import stream_dp
from stream_dp.client import PublicLog
from stream_dp.study import Study

PEOPLE, COLUMNS, QUERIES = 6_000, 12, 150
RHOS = {"1/600": 0.3, "1/60": 1.0, "1/8": 3.0}  # and about which eps at delta 1e-6
SKEWED = (2, 3, 20, 5, 40, 2, 4, 12, 3, 6, 30, 2)  # values of columns
FEW = 10  # queries: with fewer neither a class nor the largest error of a table is recorded
Found = dict[tuple[str, str], dict[str, list[list[float]]]]  # by run, class and table
Terms = list[tuple[int, tuple[int, ...]]]  # columns with the values that a query counts


def chain(rng: np.random.Generator) -> np.ndarray:
    """Every column depends on the one before it."""
    codes = np.zeros((PEOPLE, COLUMNS), np.int64)
    for c in range(COLUMNS):
        values = 2 + c % 6
        chances = rng.dirichlet(np.full(values, 0.5), size=7)[codes[:, c - 1] if c else codes[:, 0]]
        codes[:, c] = (chances.cumsum(axis=1) < rng.random((PEOPLE, 1))).sum(axis=1)
    return np.minimum(codes, 1 + np.arange(COLUMNS) % 6)


def classes(rng: np.random.Generator) -> np.ndarray:
    """Columns are independent within eight hidden classes, of which one has half of the people."""
    hidden = rng.integers(0, 8, PEOPLE)
    hidden, columns = np.where(rng.random(PEOPLE) < 0.5, 0, hidden), []
    for c in range(COLUMNS):
        values = 2 + c % 6
        chances = rng.dirichlet(np.full(values, 0.4), size=8)[hidden]
        drawn = (chances.cumsum(axis=1) < rng.random((PEOPLE, 1))).sum(axis=1)
        columns.append(drawn.clip(0, values - 1))
    return np.stack(columns, axis=1)


def skewed(rng: np.random.Generator) -> np.ndarray:
    """Up to 40 values with rare ones; four of ten people follow one column before."""
    columns: list[np.ndarray] = []
    for c, values in enumerate(SKEWED):
        chances = 1 / np.arange(1, values + 1) ** 1.3
        codes = rng.choice(values, PEOPLE, p=chances / chances.sum())
        if c > 1:
            parent = columns[int(rng.integers(0, c))]
            codes = np.where(rng.random(PEOPLE) < 0.4, (parent * 7 + c) % values, codes)
        columns.append(codes)
    return np.stack(columns, axis=1)


TABLES = {"a chain": chain, "classes": classes, "skewed": skewed}
RUNS = [(rho, "table", table) for rho in RHOS for table in TABLES]
RUNS += [("1/60", "mixture", table) for table in TABLES]


def published(codes: np.ndarray, kind: str, rho: str, seed: int) -> PublicLog:
    """A table of people and its release."""
    names = [f"c{c}" for c in range(codes.shape[1])]
    largest = codes.max(axis=0)
    study = stream_dp.parse_study(
        {
            "study": {
                **{"name": "t", "unit": "person", "neighbours": "replace_one", "rho": rho},
                **{"delta": "1/1000000", "population": {"size": len(codes)}},
                "periods": {"first": "2021-01", "every": "month", "count": 1},
            },
            "attributes": {
                name: {"values": [f"v{v}" for v in range(most + 1)], "missing": "v0"}
                for name, most in zip(names, largest.tolist(), strict=True)
            },
            "releases": [
                {"name": "people", "kind": kind, "attributes": names, "every": 1, "rho": rho}
            ],
        }
    )
    assert isinstance(study, Study)
    columns = {name: [f"v{v}" for v in codes[:, c]] for c, name in enumerate(names)}
    ids = {"person": [str(i) for i in range(len(codes))], "period": ["2021-01"] * len(codes)}
    return stream_dp.run_study(study, pa.table(ids | columns), simulation_seed=seed)


def cells(codes: np.ndarray, columns: int) -> list[tuple[tuple[int, int], ...]]:
    """Cells of all sets of so many columns, at most `QUERIES` of them, drawn."""
    sizes = codes.max(axis=0) + 1
    found = [
        tuple(zip(chosen, values, strict=True))
        for chosen in combinations(range(codes.shape[1]), columns)
        for values in product(*(range(sizes[c]) for c in chosen))
    ]
    order = np.random.default_rng(columns).permutation(len(found))[:QUERIES]
    return [found[i] for i in order]


def queries(codes: np.ndarray) -> Iterator[tuple[str, Terms]]:
    """The class and the terms of every query."""
    for columns, label in ((1, "singles"), (2, "pairs"), (3, "triples")):
        for cell in cells(codes, columns):
            yield label, [(c, (v,)) for c, v in cell]
    sizes, rng = codes.max(axis=0) + 1, np.random.default_rng(9)
    longer = [c for c in range(codes.shape[1]) if sizes[c] > 2]
    for i in range(QUERIES):
        chosen = sorted(rng.choice(longer, 1 + i % 2, replace=False).tolist())
        terms = [(c, tuple(range(int(rng.integers(1, sizes[c])), sizes[c]))) for c in chosen]
        yield ("at least, of one column", "at least, of two columns")[i % 2], terms


def answers(codes: np.ndarray, kind: str, rho: str) -> Iterator[tuple[str, list[float]]]:
    """The class of every query, and the numbers of its answers: `rows` names them."""
    public = published(codes, kind, rho, 1)
    for label, terms in queries(codes):
        text = " & ".join(f"c{c}={'|'.join(f'v{v}' for v in values)}" for c, values in terms)
        default = public.answer("people", text, count=True)
        truth = float(np.all([np.isin(codes[:, c], values) for c, values in terms], axis=0).sum())
        low, high = default.interval or (-np.inf, np.inf)
        assert default.synthetic is not None
        stated = np.nan if default.standard_error is None else default.standard_error
        errors = [a - truth for a in (default.alone().value, default.synthetic, default.value)]
        measured = default.standard_error is not None
        name = f"{label}{'' if measured else ', not measured'}"
        yield name, [*errors, stated, float(low <= truth <= high)]


def rms(numbers: np.ndarray) -> float:
    return float(np.sqrt(np.square(numbers).mean()))


def summaries(found: Found) -> Iterator[tuple[str, list[float]]]:
    """The row of every run and class. found: the numbers of the queries, by table."""
    for (run, label), tables in found.items():
        queried = np.array([numbers for rows in tables.values() for numbers in rows])
        unbiased, records, default, stated, covered = queried.T
        ratios = [
            rms(np.array(rows)[:, 2]) / rms(np.array(rows)[:, 0])
            for rows in tables.values()
            if len(rows) >= FEW
        ]
        row = [float(unbiased.size), rms(unbiased), rms(records), rms(default)]
        yield (
            f"{run}: {label}",
            [*row, max(ratios, default=1.0), rms(stated), float(covered.mean())],
        )


def main() -> None:
    found: Found = defaultdict(dict)
    for rho, kind, table in RUNS:
        codes = TABLES[table](np.random.default_rng([5, *table.encode()]))
        for label, numbers in answers(codes, kind, rho):
            group = found[f"{kind}, eps {RHOS[rho]:g}", label]
            group.setdefault(table, []).append(numbers)
        print(kind, rho, table, flush=True)
    for name, row in summaries(found):
        print(name, *row, flush=True)
        if "not measured" not in name and row[0] >= FEW:
            record("table-answers", name, *row[:5], row[6])


if __name__ == "__main__":
    main()
