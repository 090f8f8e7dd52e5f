"""A comparison as text: for each release its forms, first over all cells, then query by query.

CONFIDENTIAL like the numbers that it prints; the first line says so.
"""

from __future__ import annotations

from fractions import Fraction

from ..table import WARNING, plain_table
from .comparison import AnswerErrors, Comparison, FormErrors, ReleaseComparison

_ANSWERS = {"panel": "panel", "raw": "estimates", "best": "best estimates"}
_WORDS = {
    "window": "patterns of the last {width} periods",
    "cumulative": "periods with the event so far",
}


def comparison_text(found: Comparison) -> str:
    people = "SIMULATED people" if found.simulated else f"{found.unit}s"
    head = (
        f"{WARNING}\n"
        f"{found.data}: {found.people} {people}, {found.periods} periods, {found.neighbours}, "
        f"{found.repetitions} repetitions, seed {found.seed}\n"
        "errors in people; x: over the paper's panel, at the same rho and relation; *: the plan's\n"
        "every cell: bias is the root mean square of the cells', less what chance adds, and worst"
        " the largest RMSE of any cell\n"
        "a query: bias is the mean of its periods', RMSE is over them\n"
        "best estimates: linear and unbiased, from all that the form ever publishes, in theory"
    )
    return "\n\n".join([head, *map(_contest, found.contests)])


def _contest(found: ReleaseComparison) -> str:
    what = _WORDS[found.kind].format(width=found.width)
    rho = float(Fraction(found.rho))
    first = found.forms[0].quantities[0].query
    named = list(
        dict.fromkeys(q.query for form in found.forms for q in form.quantities if q.query != first)
    )
    legend = "\n".join(f"({i}) {query}" for i, query in enumerate(named, 1))
    cells = [["form", "answer", "bias", "RMSE", "x", "theory", "worst", "x"]]
    queries = [["form", "answer"]]
    for i in range(1, len(named) + 1):
        queries[0] += [f"({i}) bias", "RMSE", "x"]
    for form in found.forms:
        for answer in _answers(form):
            label = [_label(form, found), _ANSWERS[answer]]
            one = form.quantity(first, answer)
            cells.append([*label, *_cell_columns(one)])
            row = list(label)
            for query in named:
                held = [q for q in form.quantities if (q.query, q.answer) == (query, answer)]
                row += _query_columns(held[0]) if held else ["-"] * 3
            queries.append(row)
    blocks = [
        f"release {found.release}: {what}, rho {rho:g}; {first}",
        _aligned(cells),
        legend,
        _aligned(queries),
    ]
    return "\n".join(blocks)


def _answers(form: FormErrors) -> list[str]:
    return sorted({q.answer for q in form.quantities}, key=list(_ANSWERS).index)


def _label(form: FormErrors, contest: ReleaseComparison) -> str:
    rho = "" if form.rho == contest.rho else f", rho {float(Fraction(form.rho)):g}"
    return f"{'* ' if form.chosen else '  '}{form.label}{rho}"


def _cell_columns(one: AnswerErrors) -> list[str]:
    return [
        _decimal(one.bias, 1),
        f"{one.rmse:.1f}",
        _decimal(one.ratio, 2),
        _decimal(one.theory, 1),
        _decimal(one.worst, 1),
        _decimal(one.worst_ratio, 2),
    ]


def _query_columns(one: AnswerErrors) -> list[str]:
    bias = "-" if one.bias is None else f"{one.bias:+.1f}"
    return [bias, f"{one.rmse:.1f}", _decimal(one.ratio, 2)]


def _decimal(number: float | None, digits: int) -> str:
    return "-" if number is None else f"{number:.{digits}f}"


def _aligned(rows: list[list[str]]) -> str:
    """The first two columns to the left."""
    wide = max(len(row[0]) for row in rows)
    joined = [[f"{form.ljust(wide)}  {answer}", *rest] for form, answer, *rest in rows]
    return plain_table(joined[0], joined[1:])
