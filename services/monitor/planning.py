"""The planner's form: a draft of a study and what is asked of it, as a page with the answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from stream_dp.errors import UserError
from stream_dp.study import Study
from stream_dp.study.text import study_text

from ..pages.planning import plan_figures
from ..pages.render import render
from ..planner.wish import Wish
from .asking import LONGEST_QUERY
from .drafts import MOST_DRAFT, Draft, plan_draft

_MOST_FIELDS = 20


def plan_page(
    study: Study,
    base: str,
    fields: Mapping[str, str] | None = None,
    *,
    key: str = "",
) -> str:
    """The form with the declaration of a study, and the answers to what `fields` ask.

    base: the template that it extends.
    key: of a form of the operator's.

    Raises UserError.
    """
    plan: dict[str, Any] | None = None
    if fields is None:
        text = study_text(study)
        fields = {"draft": text if len(text) <= MOST_DRAFT else ""}
    else:  # browsers send lines of a form with both characters
        fields = {**fields, "draft": fields.get("draft", "").replace("\r\n", "\n")}
        plan = plan_draft(draft_of(fields))
    return render(
        "plan.html",
        base=base,
        head="",
        study=study,
        fields={"draft": "", "query": "", "error": "", "people": "", "periods": "", **fields},
        key=key,
        plan=plan,
        figures=() if plan is None else plan_figures(plan),
    )


def form_fields(body: bytes) -> dict[str, str]:
    """The fields of a form. Raises UserError."""
    try:
        pairs = parse_qsl(body.decode("utf-8"), max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise UserError("this form is not understood") from None
    return dict(pairs)


def draft_of(fields: Mapping[str, str]) -> Draft:
    """The draft that a form's fields state. Raises UserError."""
    query = " ".join(fields.get("query", "").split())
    if len(query) > LONGEST_QUERY:
        raise UserError(f"query: is longer than {LONGEST_QUERY} characters")
    wish = Wish(
        queries=(query,) if query else None,
        error=_number(fields, "error", float),
        count=fields.get("measure") == "count",
        people=_number(fields, "people", int),
        periods=_number(fields, "periods", int),
        alternatives="alternatives" in fields,
    )
    return Draft(fields.get("draft", ""), wish)


def _number(fields: Mapping[str, str], name: str, kind: type[int] | type[float]) -> Any:
    text = fields.get(name, "").strip()
    if not text:
        return None
    try:
        if len(text) < 20:
            return kind(text)
    except ValueError:
        pass
    raise UserError(f"{name}: write a number")
