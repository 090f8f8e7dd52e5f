"""Writes a comparison as text: the forms of releases, over all cells, then by query.

CONFIDENTIAL like the numbers that it prints; the first line says so.
"""

from __future__ import annotations

from fractions import Fraction

from comparison import AnswerErrors, Comparison, FormErrors, ReleaseComparison

from stream_dp.services.process.command_output import WARNING, decimal, plain_table

_ANSWERS = {
    "undebiased": "panel, exported",
    "panel": "panel",
    "raw": "estimates",
    "best": "best estimates",
}
_SUBJECTS = {
    "window": "patterns of the last {width} periods",
    "cumulative": "periods with the event so far",
}


def comparison_text(comparison: Comparison) -> str:
    people = "SIMULATED people" if comparison.simulated else f"{comparison.unit}s"
    head = (
        f"{WARNING}\n"
        f"{comparison.data}: {comparison.people} {people}, {comparison.periods} periods, "
        f"{comparison.neighbours}, {comparison.repetitions} repetitions, seed {comparison.seed}\n"
        "errors in people; x: over the paper's panel, at the same rho and relation, and its"
        " standard error; *: the plan's\n"
        "x theory: unbiased answers over the paper's unbiased answers, both in theory\n"
        "panel, exported: its plain shares times the people; panel: less the rows of its padding,"
        " where there are any\n"
        "every cell: bias is the root mean square of the cells', less what chance adds, and worst"
        " the largest RMSE of any cell\n"
        "a query: bias is the mean of its periods', RMSE is over them\n"
        "best estimates: linear and unbiased, from all that the form ever publishes, in theory"
    )
    return "\n\n".join([head, *map(_release_text, comparison.contests)])


def _release_text(comparison: ReleaseComparison) -> str:
    subject = _SUBJECTS[comparison.kind].format(width=comparison.width)
    rho = float(Fraction(comparison.rho))
    all_cells = comparison.forms[0].quantities[0].query
    named = list(
        dict.fromkeys(
            quantity.query
            for form in comparison.forms
            for quantity in form.quantities
            if quantity.query != all_cells
        )
    )
    legend = "\n".join(f"({i}) {query}" for i, query in enumerate(named, 1))
    cells = [
        ["form", "answer", "bias", "RMSE", "x", "+-", "theory", "x theory", "worst", "x"],
    ]
    queries = [["form", "answer"]]
    for i in range(1, len(named) + 1):
        queries[0] += [f"({i}) bias", "RMSE", "x", "+-"]
    for form in comparison.forms:
        for answer in _answers(form):
            label = [_label(form, comparison), _ANSWERS[answer]]
            cells.append([*label, *_cell_columns(form.quantity(all_cells, answer))])
            by_query = {q.query: q for q in form.quantities if q.answer == answer}
            columns = [_query_columns(by_query.get(query)) for query in named]
            queries.append([*label, *(text for texts in columns for text in texts)])
    blocks = [
        f"release {comparison.release}: {subject}, rho {rho:g}; {all_cells}",
        _aligned(cells),
        legend,
        _aligned(queries),
    ]
    return "\n".join(blocks)


def _answers(form: FormErrors) -> list[str]:
    return sorted({q.answer for q in form.quantities}, key=list(_ANSWERS).index)


def _label(form: FormErrors, comparison: ReleaseComparison) -> str:
    rho = "" if form.rho == comparison.rho else f", rho {float(Fraction(form.rho)):g}"
    return f"{'* ' if form.chosen else '  '}{form.label}{rho}"


def _cell_columns(errors: AnswerErrors) -> list[str]:
    return [
        decimal(errors.bias),
        decimal(errors.rmse),
        decimal(errors.ratio, 2),
        decimal(errors.ratio_error, 3),
        decimal(errors.theory),
        decimal(errors.theory_ratio, 2),
        decimal(errors.worst),
        decimal(errors.worst_ratio, 2),
    ]


def _query_columns(errors: AnswerErrors | None) -> list[str]:
    if errors is None:
        return ["-"] * 4
    return [
        decimal(errors.bias, signed=True),
        decimal(errors.rmse),
        decimal(errors.ratio, 2),
        decimal(errors.ratio_error, 3),
    ]


def _aligned(rows: list[list[str]]) -> str:
    """Lays out rows as a table with two columns on the left."""
    width = max(len(row[0]) for row in rows)
    joined = [[f"{form.ljust(width)}  {answer}", *rest] for form, answer, *rest in rows]
    return plain_table(joined[0], joined[1:])
