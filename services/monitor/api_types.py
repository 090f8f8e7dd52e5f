"""The types of the API's answers, which the OpenAPI document states."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from stream_dp.json_object import Json


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
    """The error of a share as one about the population. covers: what it covers, in words."""

    standard_error: float
    interval: list[float]
    covers: str


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
    """A difference or a ratio of two answers, with its interval of 95 %."""

    value: float
    standard_error: float | None
    interval: list[float] | None


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
