"""What a comparison found: frozen values. CONFIDENTIAL where the panel is real."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..table import WARNING


@dataclass(frozen=True)
class AnswerErrors:
    """One answer to one query, or to all cells, in people.

    query: "every pattern" and "every cell" are over all cells (a pattern or a sum b, in a period);
    answer: "panel"; "raw": the release's own unbiased estimates; "best": the best linear unbiased
    ones from all that it publishes, in theory. rmse: over cells or periods and repetitions; worst:
    the largest RMSE of any cell or period. bias: of a query, the mean over its periods; of all
    cells, the root mean square of theirs, less what chance adds (None, as worst, where there are
    too many cells to look at one by one). theory: what is known of the RMSE of an unbiased answer.
    ratio, worst_ratio: to those of the paper's panel, None where it has no error.
    """

    query: str
    answer: str
    bias: float | None
    rmse: float
    worst: float | None
    theory: float | None
    ratio: float | None
    worst_ratio: float | None


@dataclass(frozen=True)
class FormErrors:
    """One form of a release, as `variants.Variant`, and how it did."""

    label: str
    title: str
    rho: str
    paper: bool
    chosen: bool
    quantities: tuple[AnswerErrors, ...]

    def quantity(self, query: str, answer: str) -> AnswerErrors:
        """query: its first words."""
        return next(q for q in self.quantities if q.query.startswith(query) and q.answer == answer)


@dataclass(frozen=True)
class ReleaseComparison:
    """The forms of one release, or of one class of its queries; kind: of that class."""

    release: str
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
    """simulated: whether the people are; data: the name of the data set."""

    data: str
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
        return next(c for c in self.contests if c.release == release and kind in (None, c.kind))

    def as_dict(self) -> dict[str, Any]:
        return {"warning": WARNING, **asdict(self)}
