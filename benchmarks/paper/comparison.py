"""The result of a comparison: frozen values. CONFIDENTIAL if the panel is real."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from stream_dp.json_object import Json
from stream_dp.services.process.command_output import WARNING


@dataclass(frozen=True)
class AnswerErrors:
    """The errors of an answer to a query, or to all cells, in people."""

    # "every pattern" and "every cell" are over all cells: a pattern or a sum b, in a period.
    query: str
    # "undebiased": the exported panel; "panel": the panel less its padding, if any; "raw": the
    # release's unbiased estimates; "best": the best linear unbiased estimates from all that the
    # release publishes, in theory.
    answer: str
    # Of a query, the mean over its periods. Of all cells, the root mean square of the cells' bias,
    # less its standard error; None if there are too many cells.
    bias: float | None
    # Over cells or periods, and repetitions.
    rmse: float
    # The largest RMSE of any cell or period; None if the bias of all cells is None.
    worst: float | None
    # The standard deviation of an unbiased answer, if known.
    theory: float | None
    # RMSE and worst, divided by the values of the paper's panel; None if that has no error.
    ratio: float | None = None
    worst_ratio: float | None = None
    # The relative standard error of the RMSE, and the standard error of the ratio: 0 in theory.
    chance: float = 0.0
    ratio_error: float | None = None
    # Both errors in theory; None unless both answers are unbiased.
    theory_ratio: float | None = None


@dataclass(frozen=True)
class FormErrors:
    """The errors of a form of a release; the first fields are those of `variants.Variant`."""

    label: str
    title: str
    rho: str
    paper: bool
    chosen: bool
    quantities: tuple[AnswerErrors, ...]

    def quantity(self, query: str, answer: str) -> AnswerErrors:
        """Returns the errors of an answer to the query with a text that begins with `query`."""
        return next(q for q in self.quantities if q.query.startswith(query) and q.answer == answer)


@dataclass(frozen=True)
class ReleaseComparison:
    """The forms of a release, or of a class of its queries."""

    release: str
    # Of the class of queries: "window" or "cumulative".
    kind: str
    rho: str
    width: int | None
    forms: tuple[FormErrors, ...]

    @property
    def paper(self) -> FormErrors:
        return next(form for form in self.forms if form.paper)

    @property
    def chosen(self) -> FormErrors:
        return next(form for form in self.forms if form.chosen)


@dataclass(frozen=True)
class Comparison:
    """All forms of all releases of a study on a known panel."""

    # The name of the data set.
    data: str
    # Whether its people are simulated.
    simulated: bool
    study: str
    unit: str
    neighbours: str
    people: int
    periods: int
    repetitions: int
    seed: int
    contests: tuple[ReleaseComparison, ...]
    confidential: bool = True

    def contest(self, release: str, kind: str | None = None) -> ReleaseComparison:
        """Returns the comparison of a release, or of a kind of its queries."""
        return next(c for c in self.contests if c.release == release and kind in (None, c.kind))

    def as_dict(self) -> Json:
        return {"warning": WARNING, **asdict(self)}
