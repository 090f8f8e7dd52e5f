"""The public monitor's JSON API: the client's numbers as plain data."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.responses import Response

from stream_dp.answers.answer import Region, ReleaseQuery
from stream_dp.client import PublicLog
from stream_dp.json_object import Json
from stream_dp.planning.group_errors import group_table
from stream_dp.release.public_reader import AnyPublished

from .api_types import (
    CompareAnswer,
    CurveAnswer,
    EstimateAnswer,
    PrivacyAnswer,
    Refusal,
    ReleaseRow,
    StudyAnswer,
    VerifyAnswer,
)
from .comparison import compared
from .fan import LEVELS
from .privacy_label import published_facts
from .public_state import State
from .questions import Question
from .record_rows import citation
from .release_figures import line_of

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

    def answered(data: object) -> Response:
        return state_response(state, json.dumps(data).encode(), "application/json")

    def typed(path: str, model: Any) -> Callable[..., Any]:
        # Answers are made by the client; the model is for the document alone.
        documented: dict[int | str, dict[str, Any]] = {
            200: {"model": model},
            400: {"model": Refusal},
            404: {"model": Refusal},
            503: {"model": Refusal},
        }
        return application.get(path, responses=documented)

    @typed("/api/v1/study", StudyAnswer)
    def study(request: Request) -> Response:
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
    def releases(request: Request) -> Response:
        """Every release, in the order of publication."""
        return answered(releases_data(public))

    @typed("/api/v1/certificates/{index}", Json)
    def certificate(request: Request, index: int) -> Response:
        """The certificate of a release; index is the position in the list of releases, from 1."""
        release = release_at_index(public, index)
        fields = release.certificate.model_dump(mode="json")
        chain = {"hash": release.message.hash, "previous": release.message.previous}
        return answered(fields | chain)

    @typed("/api/v1/queries", dict[str, list[str]])
    def queries(request: Request) -> Response:
        """By release, examples of queries."""
        names = dict.fromkeys(release.name for release in declared.releases)
        names |= {release.certificate.release: None for release in public.published}
        return answered({name: public.queries(name) for name in names})

    @typed("/api/v1/estimate", EstimateAnswer)
    def estimate(
        request: Request,
        release: Text,
        query: Text,
        period: Optional = None,
        measure: Measure | None = None,
        region: Text | None = None,
    ) -> Response:
        """An answer with standard error and interval, equal to the result of `stream-dp estimate`.

        region: for sizes of places, the path of a region such as north/0101; by default all regions
        """
        path = region_path(region)
        answer = public.answer(release, query, period, count=is_count(measure), region=path)
        return answered({**answer.as_dict(), "head": state.head})

    @typed("/api/v1/curve", CurveAnswer)
    def curve(
        request: Request,
        release: Text,
        query: Text,
        measure: Measure = "share",
        band: Band = "pointwise",
    ) -> Response:
        """The answers to a query at every period, with intervals of 50, 80 and 95 %.

        band: `simultaneous` for intervals that contain all true answers together
        """
        question = Question(query, query, count=measure == "count")
        line = line_of(public, release, question, together=band == "simultaneous")
        points = [point.answer.as_dict() for point in line.points]
        fan = [list(point.fan) or None for point in line.points]
        stated = {"answers": points, "band": band, "levels": LEVELS, "fan": fan}
        return answered({**stated, "head": state.head})

    @typed("/api/v1/compare", CompareAnswer)
    def compare(
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
    ) -> Response:
        """The difference and the ratio of two answers, with the joint error of both.

        `other_release` and `other_query` are by default those of the first answer. `noise_alone` is
        the chance that noise alone gives a difference at least this large.
        """
        first = ReleaseQuery(release, query, period, region_path(region))
        second = ReleaseQuery(
            other_release or release, other_query or query, other_period, region_path(other_region)
        )
        comparison = compared(public, first, second, count=is_count(measure))
        return answered({**comparison.as_dict(), "head": state.head})

    @typed("/api/v1/privacy", PrivacyAnswer)
    def privacy(request: Request) -> Response:
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
    def verify(request: Request) -> Response:
        """The checks of the public log, and the hash of every message."""
        hashes = [message.hash for message in public.messages]
        return answered({"verified": state.verified, "head": state.head, "messages": hashes})
