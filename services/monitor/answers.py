"""The API's answers: the client's own numbers as plain data."""

from __future__ import annotations

from typing import Any

from stream_dp.client import PublicLog
from stream_dp.release.data_sets import DataSet
from stream_dp.release.sizes import PublishedSizes

from ..pages.figures import answers
from ..pages.label import privacy_label
from ..pages.questions import Question
from ..pages.records import citation
from .state import State


def study_data(state: State) -> dict[str, Any]:
    """The study as it was declared, its hash, and the head of what is published."""
    study = state.public.study
    return {
        "study": study.model_dump(mode="json", exclude_none=True),
        "study_hash": study.hash,
        "head": state.head,
        "citation": citation(state.public),
    }


def releases_data(public: PublicLog) -> list[dict[str, Any]]:
    """A row for each release, in the order of publication, as `release_table` has them."""
    rows: list[dict[str, Any]] = public.release_table().to_pylist()
    for index, row in enumerate(rows):
        row["index"] = index + 1
        row["time"] = None if row["time"] is None else row["time"].isoformat()
    return rows


def certificate_data(public: PublicLog, index: int) -> dict[str, Any] | None:
    """The certificate of a message, with its hash; None where there is no such message."""
    if not 1 <= index <= len(public.published):
        return None
    release = public.published[index - 1]
    return {
        **release.certificate.model_dump(mode="json"),
        "hash": release.message.hash,
        "previous": release.message.previous,
    }


def estimate_data(
    state: State, name: str, query: str, period: str | None, *, count: bool
) -> dict[str, Any]:
    """One answer. Raises UserError."""
    public = state.public
    of_data_set = public.study.batch(name) is not None
    ask = public.data_set_estimate if of_data_set else public.estimate
    return {**ask(name, query, period, count=count).as_dict(), "head": state.head}


def curve_data(state: State, name: str, query: str, *, count: bool) -> dict[str, Any]:
    """The answers at every period. Raises UserError."""
    line = answers(state.public, name, Question(query, query, count=count))
    return {"answers": [point.answer.as_dict() for point in line.points], "head": state.head}


def queries_data(public: PublicLog) -> dict[str, list[str]]:
    """By release of a panel, examples of what can be asked."""
    return {declared.name: public.queries(declared.name) for declared in public.study.releases}


def verify_data(state: State) -> dict[str, Any]:
    """What was checked, and the head to compare with one that was kept elsewhere."""
    return {
        "verified": list(state.verified),
        "head": state.head,
        "messages": [message.hash for message in state.public.messages],
    }


def privacy_data(state: State) -> dict[str, Any]:
    """The privacy label, and the budget as exact fractions and as (eps, delta)."""
    label, study = privacy_label(state.public), state.public.study
    last = state.public.published[-1].certificate if state.public.published else None
    return {
        "simulated": label.simulated,
        "label": [{"about": about, "words": words} for about, words in label.rows],
        "not_protected": list(label.unprotected),
        "rho_total": str(study.rho),
        "rho_spent": "0" if last is None else str(last.rho_spent),
        "epsilon_spent": "0" if last is None else last.epsilon_spent,
        "epsilon_total": None if last is None else last.epsilon_total,
        "delta": str(study.delta),
    }


def parts_of(public: PublicLog, name: str) -> tuple[str, ...]:
    """The tables of a release that can be downloaded."""
    for release in public.published:
        if isinstance(release, DataSet) and release.certificate.release == name:
            return (*sorted(release.certificate.columns), "measurements")
        if isinstance(release, PublishedSizes) and release.certificate.release == name:
            return ("sizes", "measurements")
    return ("panel", "measurements", "estimates")
