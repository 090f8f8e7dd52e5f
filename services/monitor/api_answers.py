"""The API's answers: the client's numbers as plain data."""

from __future__ import annotations

from stream_dp.answers.answer import Region
from stream_dp.client import PublicLog
from stream_dp.json_object import Json

from ..pages.privacy_label import privacy_label
from ..pages.questions import Question
from ..pages.record_rows import citation
from ..pages.release_figures import answers
from .public_state import State


def study_data(state: State) -> Json:
    """The declared study, the hash and the head of the public log."""
    study = state.public.study
    return {
        "study": study.model_dump(mode="json", exclude_none=True),
        "study_hash": study.hash,
        "head": state.head,
        "citation": citation(state.public),
    }


def releases_data(public: PublicLog) -> list[Json]:
    """The rows of `release_table`, in the order of publication."""
    rows: list[Json] = public.release_table().to_pylist()
    for index, row in enumerate(rows):
        row["index"] = index + 1
        row["time"] = None if row["time"] is None else row["time"].isoformat()
    return rows


def certificate_data(public: PublicLog, index: int) -> Json | None:
    """The certificate of a message, with the hash; None for a missing message."""
    if not 1 <= index <= len(public.published):
        return None
    release = public.published[index - 1]
    return {
        **release.certificate.model_dump(mode="json"),
        "hash": release.message.hash,
        "previous": release.message.previous,
    }


def estimate_data(
    state: State,
    name: str,
    query: str,
    period: str | None,
    *,
    count: bool | None,
    region: Region | None,
) -> dict[str, object]:
    """One answer. Raises UserError."""
    answer = state.public.answer(name, query, period, count=count, region=region)
    return {**answer.as_dict(), "head": state.head}


def curve_data(state: State, name: str, query: str, *, count: bool) -> dict[str, object]:
    """The answers at every period. Raises UserError."""
    line = answers(state.public, name, Question(query, query, count=count))
    return {"answers": [point.answer.as_dict() for point in line.points], "head": state.head}


def queries_data(public: PublicLog) -> dict[str, list[str]]:
    """By release, examples of queries."""
    published = {release.certificate.release: None for release in public.published}
    names = dict.fromkeys(declared.name for declared in public.study.releases) | published
    return {name: public.queries(name) for name in names}


def verify_data(state: State) -> Json:
    """The checks, the head, and the hashes of all messages."""
    return {
        "verified": list(state.verified),
        "head": state.head,
        "messages": [message.hash for message in state.public.messages],
    }


def privacy_data(state: State) -> Json:
    """The privacy label, and the budget in exact fractions and in (eps, delta)."""
    label, study = privacy_label(state.public), state.public.study
    last = state.public.published[-1].certificate if state.public.published else None
    return {
        "simulated": label.simulated,
        "label": [{"about": about, "words": text} for about, text in label.rows],
        "not_protected": list(label.unprotected),
        "rho_total": str(study.rho),
        "rho_spent": "0" if last is None else str(last.rho_spent),
        "epsilon_spent": "0" if last is None else last.epsilon_spent,
        "epsilon_total": None if last is None else last.epsilon_total,
        "delta": str(study.delta),
    }
