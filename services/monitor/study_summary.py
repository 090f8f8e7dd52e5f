"""What the list of studies shows of one study, and the words by which a search finds the study."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from stream_dp.json_object import Json
from stream_dp.study import Study

from .public_state import State

# Characters and numbers at most: a log is written by anybody, and a list holds many of them.
_DESCRIPTION, _UNIT, _WORDS, _RELEASES = 300, 60, 4000, 12


@dataclass(frozen=True)
class StudySummary:
    """One study in a list.

    releases: the names of published releases.
    last: the period of the last publication; empty before the first.
    epsilon: spent so far, in decimals.
    simulated: whether the noise is seeded, so that nothing is private.
    words: what a search looks through, casefolded.
    """

    study: str
    description: str
    unit: str
    releases: tuple[str, ...]
    last: str
    epsilon: str
    simulated: bool
    words: str

    def as_dict(self) -> Json:
        return asdict(self)


def study_summary(state: State) -> StudySummary:
    """The summary of a state's study."""
    public, study = state.public, state.public.study
    certificates = [release.certificate for release in public.published]
    names = tuple(dict.fromkeys(certificate.release for certificate in certificates))
    spent = float(certificates[-1].epsilon_spent) if certificates else 0.0
    return StudySummary(
        study=study.name,
        description=_cut(" ".join(study.description.split()), _DESCRIPTION),
        unit=_cut(study.unit, _UNIT),
        releases=names[:_RELEASES],
        last=certificates[-1].period if certificates else "",
        epsilon=f"{spent:.3f}",
        simulated=state.simulated,
        words=" ".join(_words(study)).casefold()[:_WORDS],
    )


def _words(study: Study) -> Iterator[str]:
    """The declared texts of a study, and last the one without a limit."""
    yield from (study.name, study.unit)
    for name, attribute in study.attributes.items():
        yield from (name, attribute.label or "")
    yield from (release.name for release in (*study.releases, *(study.batches or ())))
    yield study.description


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1].rstrip()}…"
