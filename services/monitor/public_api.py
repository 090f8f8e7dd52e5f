"""The public monitor's JSON API: the client's numbers as plain data, with the types of answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict

from stream_dp.answers.query import of_people
from stream_dp.client import PublicLog
from stream_dp.json_object import Json
from stream_dp.planning.expected_errors import group_table
from stream_dp.release.answer import Region, ReleaseQuery
from stream_dp.release.public_reader import AnyPublished

from ..portals.description import citation, published_facts
from .answers_for_people import LEVELS
from .comparison import compared
from .default_questions import Question
from .public_state import State
from .release_figures import line_of


class _Typed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StudyAnswer(_Typed):
    """A declared study. study: the declaration, as in the log's first message."""

    study: Json
    study_hash: str
    head: str
    citation: str


class ReleaseRow(_Typed):
    """A publication. index: the position in the log, from 1. rho, rho_spent: rounded."""

    release: str
    kind: str
    period: str
    number: int
    time: str | None
    mechanism: str
    rows: int | None
    groups: int | None
    rho: float
    rho_spent: float
    epsilon_spent: float
    hash: str
    index: int


class FusedFields(_Typed):
    """An answer by several months of a table of people."""

    value: float
    standard_error: float
    interval: list[float]
    periods: list[str]
    assumes: str
    doubtful: bool


class SampledFields(_Typed):
    """The error of a share about the population. covers: the covered kinds of error, in words."""

    standard_error: float
    interval: list[float]
    covers: str


class UnbiasedFields(_Typed):
    """The unbiased answer beside the default one."""

    value: float | None
    standard_error: float | None
    interval: list[float] | None


class AnswerFields(_Typed):
    """An answer to a query. `panel`, `records` or `published`: the synthetic data's own answer."""

    release: str
    query: str
    period: str
    measure: str
    unit: str
    value: float | None
    standard_error: float | None
    interval: list[float] | None
    level: float
    method: str
    reason: str | None
    panel: float | None = None
    records: float | None = None
    published: float | None = None
    padding: float | None = None
    panel_bias: str | None = None
    people: str | None = None
    sources: list[str] | None = None
    through: str | None = None
    region: list[str] | None = None
    unbiased: UnbiasedFields | None = None
    fused: FusedFields | None = None
    sampled: SampledFields | None = None
    weighted_by: str | None = None


class EstimateAnswer(AnswerFields):
    """An answer, and the head of the log that the answer was computed from."""

    head: str


class CurveAnswer(_Typed):
    """The answers to a query at every period.

    band: `pointwise`, or `simultaneous` for all periods together.
    fan: for each answer, the two ends of an interval of each of `levels`; null without an error.
    """

    answers: list[AnswerFields]
    band: str
    levels: list[float]
    fan: list[list[list[float]] | None]
    head: str


class ComparedFields(_Typed):
    """A difference or a ratio of two answers, with its interval of 95 %.

    people: of whom both shares of a difference are, if of the same.
    """

    value: float
    standard_error: float | None
    interval: list[float] | None
    people: str | None = None


class CompareAnswer(_Typed):
    """Two answers, the first less the second, and the first over the second.

    ratio: null where the second is not clearly above 0.
    noise_alone: the chance that noise alone gives a difference at least this large.
    verdict: the result in words.
    """

    answers: list[AnswerFields]
    difference: ComparedFields
    ratio: ComparedFields | None
    noise_alone: float | None
    verdict: str
    head: str


class LabelRow(_Typed):
    """A heading of the privacy label with a sentence or two."""

    about: str
    words: str


class SizedGroup(_Typed):
    """A group of `size` people: its error as a part of the size, and the verdict in words."""

    size: int
    relative_half_width: float
    usable: bool
    words: str


class GroupErrorRow(_Typed):
    """The error of a count of a release, by the size of the group that is counted.

    most: how many people there can be, if declared.
    usable_from: null if no group is usable.
    """

    release: str
    stratum: str
    query: str
    most: int | None
    half_width: float
    usable_from: int | None
    groups: list[SizedGroup]


class GroupErrorTable(_Typed):
    """What small groups can learn. usable_at_most: the largest part that is called usable."""

    unit: str
    rule: str
    confidence: float
    usable_at_most: float
    rows: list[GroupErrorRow]


class PrivacyAnswer(_Typed):
    """The privacy label and the budget. Rho is an exact fraction."""

    simulated: bool
    label: list[LabelRow]
    not_protected: list[str]
    group_errors: GroupErrorTable
    rho_total: str
    rho_spent: str
    epsilon_spent: str
    epsilon_total: str
    delta: str


class VerifyAnswer(_Typed):
    """The checks of the public log. messages: the hash of every message."""

    verified: list[str]
    head: str
    messages: list[str]


class Refusal(_Typed):
    """A refused request, in words."""

    error: str
    lines: list[str]


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Refusal} for status in (400, 404, 503)
}


def file_path(application: FastAPI, path: str, *media: str) -> Callable[..., Any]:
    """The decorator of an address of files of these kinds, which the document of the API names."""
    content: dict[str, Json] = {media_type.partition(";")[0]: {} for media_type in media}
    documented = {200: {"content": content}, **REFUSALS}
    return application.get(path, response_class=Response, responses=documented)


Text = Annotated[str, Query(max_length=500)]
Optional = Annotated[str | None, Query(max_length=100)]
Measure = Annotated[str, Query(pattern="^(share|count)$")]
Band = Annotated[str, Query(pattern="^(pointwise|simultaneous)$")]


def is_count(measure: str | None) -> bool | None:
    """Whether an answer is a count instead of a share; None for the default."""
    return None if measure is None else measure == "count"


def region_path(path: str | None) -> Region | None:
    """The path of a region of sizes; None for all regions together."""
    return tuple(path.split("/")) if path else None


def state_response(state: State, body: bytes, media: str) -> Response:
    """A response that changes only with the head."""
    headers = {"ETag": f'"{state.head[:32]}"', "Cache-Control": "no-cache"}
    return Response(body, media_type=media, headers=headers)


def release_at_index(public: PublicLog, index: int) -> AnyPublished:
    """The release at a position in the log, from 1. Raises HTTPException."""
    if not 1 <= index <= len(public.published):
        raise HTTPException(404)
    return public.published[index - 1]


def releases_data(public: PublicLog) -> list[Json]:
    """The rows of `release_table`, in the order of publication."""
    rows: list[Json] = public.release_table().to_pylist()
    for index, row in enumerate(rows):
        row["index"] = index + 1
        row["time"] = None if row["time"] is None else row["time"].isoformat()
    return rows


def add_api(application: FastAPI, state: State) -> None:
    """Adds the API's paths to an application."""
    public, declared = state.public, state.public.study
    asked_of = (*declared.releases, *(declared.batches or ()))

    def answered(data: object) -> Response:
        return state_response(state, json.dumps(data).encode(), "application/json")

    def typed(path: str, model: Any) -> Callable[..., Any]:
        # Answers are made by the client; the model is for the document alone.
        return application.get(path, responses={200: {"model": model}, **REFUSALS})

    def known(name: str) -> None:
        """Raises NotThere for a release that the study does not have, with strata or without."""
        if not any(r.name == name or r.name.startswith(f"{name}-") for r in asked_of):
            declared.release(name)

    @typed("/api/v1/study", StudyAnswer)
    async def study(request: Request) -> Response:
        """The declared study, the hash, the head and a citation."""
        return answered(
            {
                "study": declared.model_dump(mode="json", exclude_none=True),
                "study_hash": declared.hash,
                "head": state.head,
                "citation": citation(public),
            }
        )

    @typed("/api/v1/releases", list[ReleaseRow])
    async def releases(request: Request) -> Response:
        """Every release, in the order of publication."""
        return answered(releases_data(public))

    @typed("/api/v1/certificates/{index}", Json)
    async def certificate(request: Request, index: int) -> Response:
        """The certificate of a release; index is the position in the list of releases, from 1."""
        release = release_at_index(public, index)
        fields = release.certificate.model_dump(mode="json")
        chain = {"hash": release.message.hash, "previous": release.message.previous}
        return answered(fields | chain)

    @typed("/api/v1/queries", dict[str, list[str]])
    async def queries(request: Request) -> Response:
        """By release, examples of queries."""
        names = dict.fromkeys(release.name for release in declared.releases)
        names |= {release.certificate.release: None for release in public.published}
        return answered({name: public.queries(name) for name in names})

    @typed("/api/v1/estimate", EstimateAnswer)
    async def estimate(
        request: Request,
        release: Text,
        query: Text,
        period: Optional = None,
        measure: Measure | None = None,
        region: Text | None = None,
        of: Text | None = None,
    ) -> Response:
        """An answer with standard error and interval, equal to the result of `stream-dp estimate`.

        region: for sizes of places, the path of a region such as north/0101; by default all regions

        of: whom a share is of: everybody, respondents or another query; the answer names them as
        `people`
        """
        known(release)
        path, question = region_path(region), of_people(query, of)
        answer = public.answer(release, question, period, count=is_count(measure), region=path)
        return answered({**answer.as_dict(), "head": state.head})

    @typed("/api/v1/curve", CurveAnswer)
    async def curve(
        request: Request,
        release: Text,
        query: Text,
        measure: Measure = "share",
        band: Band = "pointwise",
        of: Text | None = None,
    ) -> Response:
        """The answers to a query at every period, with intervals of 50, 80 and 95 %.

        of: whom shares are of: everybody, respondents or another query.
        band: `simultaneous` for intervals that contain all true answers together
        """
        known(release)
        asked = of_people(query, of)
        question = Question(asked, asked, count=measure == "count")
        line = line_of(public, release, question, together=band == "simultaneous")
        points = [point.answer.as_dict() for point in line.points]
        fan = [list(point.fan) or None for point in line.points]
        stated = {"answers": points, "band": band, "levels": LEVELS, "fan": fan}
        return answered({**stated, "head": state.head})

    @typed("/api/v1/compare", CompareAnswer)
    async def compare(
        request: Request,
        release: Text,
        query: Text,
        other_release: Text | None = None,
        other_query: Text | None = None,
        period: Optional = None,
        other_period: Optional = None,
        measure: Measure | None = None,
        region: Text | None = None,
        other_region: Text | None = None,
        of: Text | None = None,
    ) -> Response:
        """The difference and the ratio of two answers, with the joint error of both.

        `of` names whom both shares are of: everybody, respondents or another query.
        `other_release` and `other_query` are by default those of the first answer. `noise_alone` is
        the chance that noise alone gives a difference at least this large.
        """
        known(release)
        known(other_release or release)
        first = ReleaseQuery(release, of_people(query, of), period, region_path(region))
        second = ReleaseQuery(
            other_release or release,
            of_people(other_query or query, of),
            other_period,
            region_path(other_region),
        )
        comparison = compared(public, first, second, count=is_count(measure))
        return answered({**comparison.as_dict(), "head": state.head})

    @typed("/api/v1/privacy", PrivacyAnswer)
    async def privacy(request: Request) -> Response:
        """The privacy label in plain words, and the budget."""
        label, facts = state.label, published_facts(public)
        return answered(
            {
                "simulated": label.simulated,
                "label": [{"about": about, "words": text} for about, text in label.rows],
                "not_protected": list(label.unprotected),
                "group_errors": group_table(declared, state.groups),
                "rho_total": str(facts.rho_total),
                "rho_spent": str(facts.rho_spent),
                "epsilon_spent": facts.epsilon_spent,
                "epsilon_total": facts.epsilon_total,
                "delta": str(facts.delta),
            }
        )

    @typed("/api/v1/verify", VerifyAnswer)
    async def verify(request: Request) -> Response:
        """The checks of the public log, and the hash of every message."""
        hashes = [message.hash for message in public.messages]
        return answered({"verified": state.verified, "head": state.head, "messages": hashes})
