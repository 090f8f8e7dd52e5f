"""What structural rules change in answers: `python benchmarks/ruled_answers.py [SEEDS]`.

20,000 simulated people of `ruled_regressions.py`, of the kind `mixture` under add_remove at eps 1
(delta = 1e-9). The same measurements are used with the declared rules and without. All counts of
one value and of two values are asked but those that the rules exclude. Prints, by number of
columns, the root mean square error in people without rules and with, the stated one with rules, and
the coverage of 95 % intervals. In the last rows 2 % of the people report a random start, and some
of them break rules.

With `RECORD` it writes the rows of the documentation's table.
"""

from __future__ import annotations

import sys

import numpy as np
from regressions import Measured
from result_file import record
from ruled_regressions import DECLARED, table

from stream_dp.answers.tables.conjunction import matching_rows, parse_conjunction
from stream_dp.answers.tables.table_answer import Conjunctions
from stream_dp.batch.people.people_table import People

SEEDS = 3


def compare(wrong: float, seeds: int, told: str = "") -> None:
    """Prints and records a row for single columns and for pairs. told: after their names."""
    simulated = table(wrong, ())
    free, ruled = Measured.of(simulated, "1"), Measured.of(simulated, "1", DECLARED)
    few = People.of_answers(ruled.people.domain, simulated.answers[:500])
    found: dict[int, list[list[float]]] = {1: [], 2: []}
    for seed in range(1, seeds + 1):
        noisy, _ = ruled.measured(seed)
        true = ruled.published(ruled.people, noisy)
        tables = [Conjunctions(one.published(few, noisy)) for one in (free, ruled)]
        for answers in zip(*(one.every() for one in tables), strict=True):
            if answers[0].measure == "count" and answers[1].standard_error:
                query = parse_conjunction(answers[0].query, true)
                truth = float(matching_rows(query, true))
                row = [x for a in answers for x in (a.value - truth, a.standard_error or 0.0)]
                found[len(query.of("people"))].append(row)
    for columns, rows in found.items():
        off, stated, off_ruled, stated_ruled = np.array(rows).T
        cells = [float(np.sqrt(np.square(x).mean())) for x in (off, off_ruled, stated_ruled)]
        for error, deviation in ((off, stated), (off_ruled, stated_ruled)):
            cells.append(float((np.abs(error) <= 1.96 * deviation).mean()))
        title = f"{'single columns' if columns == 1 else 'pairs'}{told}"
        print(f"{title:36}", *(f"{cell:8.3f}" for cell in cells), flush=True)
        record("answers-rules", title, *cells)


def main(seeds: int) -> None:
    print(f"{'counts':36} error without, with, stated  covered without, with")
    compare(0, seeds)
    compare(0.02, seeds, ", 2 % random starts")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS)
