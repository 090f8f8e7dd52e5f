"""What structural rules change in regressions: `python benchmarks/ruled_regressions.py [SEEDS]`.

20,000 simulated people of `ruled_tables.py` with years in classes of four, of the kind `mixture`
under add_remove at eps 1 (delta = 1e-9). The same measurements are used with the declared rules and
without. Prints, by model, the coverage of 95 % intervals, the share of refused fits, and the median
width of intervals with rules over that without, of the fits that neither refuses. In the last row
2 % of the people report a random start, and some of them break rules.

With `RECORD` it writes the rows of the documentation's table.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from regressions import LOGISTIC, Measured, Table, covers, fitted, true_fit, widths
from result_file import record
from ruled_tables import RULES, SIZES, people

from stream_dp.answers.tables.regression import Regression
from stream_dp.batch.people.people_table import People

COUNT, SEEDS = 20_000, 200
YEARS = 4  # in a class of `start` or `end`
DECLARED = {**RULES, "rules": ["start <= end", "start < 2 -> job = 0", "job = 0 -> start < 2"]}
MODELS = (
    "end ~ start",
    "income ~ start + end",
    "income ~ start + sector",
    "income ~ start*end",
    "income ~ job + sector + sex",
    "income ~ end + factor(sector)",
    "start ~ sex + region",
    "logistic: sex ~ start + end",
    "logistic: sex ~ job + start",
    "logistic: sex ~ income + sector",
)


def table(wrong: float, models: Sequence[str]) -> Table:
    """People, of whom a share has a random start. The others keep the rules."""
    codes, rng = people(COUNT, seed=5), np.random.default_rng(1)
    codes[:, :2] //= YEARS
    mistaken = rng.random(COUNT) < wrong
    codes[mistaken, 0] = rng.integers(0, SIZES["start"] // YEARS, mistaken.sum())
    sizes = SIZES | {name: SIZES[name] // YEARS for name in ("start", "end")}
    attributes = {name: {"values": [*range(size)], "missing": 0} for name, size in sizes.items()}
    return Table("mixture", attributes, codes, models)


def compare(simulated: Table, seeds: int, told: str = "") -> None:
    """Prints and records a row for each model. told: after its formula."""
    free, ruled = Measured.of(simulated, "1"), Measured.of(simulated, "1", DECLARED)
    few = People.of_answers(ruled.people.domain, simulated.answers[:500])
    fits: dict[str, list[list[Regression | None]]] = {model: [] for model in simulated.models}
    for seed in range(1, seeds + 1):
        noisy, _ = ruled.measured(seed)
        tables = [one.published(few, noisy) for one in (free, ruled)]
        for model, found in fits.items():
            found.append([fitted(published, model) for published in tables])
    for model, found in fits.items():
        truth, _ = true_fit(free, noisy, model)
        covered, refused = list[float](), list[float]()
        for known in ([fit for fit in of_kind if fit] for of_kind in zip(*found, strict=True)):
            covered.append(float(np.mean([hit for fit in known for hit in covers(fit, truth)])))
            refused.append(1 - len(known) / seeds)
        ratios = [widths(b) / widths(a) for a, b in found if a is not None and b is not None]
        width = float(np.median(ratios))
        print(f"{model:40}", *(f"{x:9.3f}" for x in (*covered, *refused, width)), flush=True)
        formula = (
            f"`{model.removeprefix(LOGISTIC)}`" + ", logistic" * model.startswith(LOGISTIC) + told
        )
        record("regressions-rules", formula, *covered, *refused, width)


def main(seeds: int) -> None:
    print(f"{'model':40}  covered without, with  refused without, with  width")
    compare(table(0, MODELS), seeds)
    compare(table(0.02, MODELS[:1]), seeds, ", 2 % random starts")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS)
