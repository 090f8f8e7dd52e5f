"""Answers about tables of people: from the measurements, and from the synthetic records.

Two simulated tables, of hidden factors and of a chain, are published as `match` and as `mixture`.
The queries are single values, pairs of values and triples of values of drawn columns. Of every
class the table has the root mean square error of the default answers and of the synthetic records'
numbers, in people, and the share of intervals that contain the truth. A default answer is from the
measurements where they determine it, and else the records' number.

    RECORD=1 python benchmarks/table_answers.py [SEEDS]
"""

from __future__ import annotations

import sys
from collections import defaultdict
from itertools import combinations, product

import numpy as np
import pyarrow as pa
from result_file import record

import stream_dp
from stream_dp.client import PublicLog
from stream_dp.study import Study

PEOPLE, COLUMNS, QUERIES = 6_000, 12, 150
KINDS = ("match", "mixture")


def factors(rng: np.random.Generator) -> np.ndarray:
    """Every column is a cut of a noisy sum of two hidden factors: all columns depend."""
    hidden, columns = rng.normal(size=(PEOPLE, 2)), []
    for c in range(COLUMNS):
        amount = hidden @ rng.normal(size=2) + rng.normal(0, 0.7, PEOPLE)
        ends = np.quantile(amount, np.sort(rng.uniform(0.05, 0.95, 1 + c % 6)))
        columns.append(np.searchsorted(ends, amount))
    return np.stack(columns, axis=1)


def chain(rng: np.random.Generator) -> np.ndarray:
    """Every column depends on the one before it."""
    codes = np.zeros((PEOPLE, COLUMNS), np.int64)
    for c in range(COLUMNS):
        values = 2 + c % 6
        chances = rng.dirichlet(np.full(values, 0.5), size=7)[codes[:, c - 1] if c else codes[:, 0]]
        codes[:, c] = (chances.cumsum(axis=1) < rng.random((PEOPLE, 1))).sum(axis=1)
    return np.minimum(codes, 1 + np.arange(COLUMNS) % 6)


TABLES = {"hidden factors": factors, "a chain": chain}


def published(codes: np.ndarray, kind: str, seed: int) -> PublicLog:
    """A table of people and its release."""
    names = [f"c{c}" for c in range(codes.shape[1])]
    largest = codes.max(axis=0)
    study = stream_dp.parse_study(
        {
            "study": {
                **{"name": "t", "unit": "person", "neighbours": "replace_one", "rho": "1/10"},
                **{"delta": "1/1000000", "population": {"size": len(codes)}},
                "periods": {"first": "2021-01", "every": "month", "count": 1},
            },
            "attributes": {
                name: {"values": [f"v{v}" for v in range(most + 1)], "missing": "v0"}
                for name, most in zip(names, largest.tolist(), strict=True)
            },
            "releases": [
                {"name": "people", "kind": kind, "attributes": names, "every": 1, "rho": "1/10"}
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


def main() -> None:
    seeds = int(sys.argv[1]) if sys.argv[1:] else 2
    for table, generator in TABLES.items():
        rng = np.random.default_rng([5, *table.encode()])
        codes = generator(rng)
        for kind in KINDS:
            rows: dict[str, list[tuple[float, ...]]] = defaultdict(list)
            for seed in range(1, seeds + 1):
                public = published(codes, kind, seed)
                for columns, label in ((1, "singles"), (2, "pairs"), (3, "triples")):
                    for cell in cells(codes, columns):
                        text = " & ".join(f"c{c}=v{v}" for c, v in cell)
                        answer = public.answer("people", text, count=True)
                        truth = float(np.all([codes[:, c] == v for c, v in cell], axis=0).sum())
                        measured = answer.standard_error is not None
                        name = (
                            label
                            if columns == 1
                            else f"{label}, {'' if measured else 'not '}measured"
                        )
                        low, high = answer.interval or (-np.inf, np.inf)
                        assert answer.synthetic is not None
                        errors = answer.value - truth, answer.synthetic - truth
                        rows[name].append((*errors, float(low <= truth <= high)))
            for name, found in rows.items():
                default, records, covered = np.array(found).T
                rms = [float(np.sqrt(np.square(errors).mean())) for errors in (default, records)]
                row = [float(len(found)), *rms, float(covered.mean())]
                print(f"{table}, {kind}: {name}", *row, flush=True)
                record("table-answers", f"{table}, {kind}: {name}", *row)


if __name__ == "__main__":
    main()
