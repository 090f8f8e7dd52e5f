"""The planner's form: a page with a draft of a study, a request and the plan.

Plans of anybody's drafts, computed in isolated processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qsl

from stream_dp.errors import UserError
from stream_dp.json_object import Json
from stream_dp.study import Study
from stream_dp.study.study_text import study_text

from .group_chart import group_figure
from .plan_figures import plan_figures
from .plan_request import PlanRequest
from .query_forms import within_length
from .render import render

PLAN_TIMEOUT = 25.0  # seconds, less than an answer may take
MOST_DRAFT = 16_000  # characters
_PROGRAM = "stream_dp.services.monitor.draft"
_TOO_MUCH = (
    "draft: its plan needs more time or memory than it gets here; ask less of it, or run"
    " 'stream-dp plan' on a machine of your own"
)


def plan_draft(text: str, request: PlanRequest) -> Json:
    """Plans a draft; returns the result of `Planned.as_dict`. Raises UserError.

    text: a study file without [run].
    """
    if len(text) > MOST_DRAFT:
        raise UserError(f"draft: is longer than {MOST_DRAFT:,} characters")
    request.check()
    question = json.dumps({"text": text, "request": asdict(request)})
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STREAM_DP_")}
    try:
        # -P: modules are never imported from the current folder.
        finished = subprocess.run(
            [sys.executable, "-P", "-m", _PROGRAM],
            input=question,
            capture_output=True,
            text=True,
            timeout=PLAN_TIMEOUT,
            env={**environment, **threads},
        )
    except subprocess.TimeoutExpired:
        raise UserError(_TOO_MUCH) from None
    try:
        answer = json.loads(finished.stdout)
    except ValueError:
        answer = {}
    if "plan" in answer:
        plan: Json = answer["plan"]
        return plan
    raise UserError(answer.get("lines", [_TOO_MUCH]))


_MOST_FIELDS = 20


def plan_page(
    study: Study,
    base: str,
    fields: Mapping[str, str] | None = None,
    *,
    root: str = "",
    key: str = "",
) -> tuple[str, bool]:
    """Renders the form with a study's declaration, and the plan for `fields` or their faults.

    base: the template that the page extends.
    root: the path that the page's links begin with.
    key: the hidden field of an operator's form.

    Returns the page and whether the draft could be planned.
    """
    plan: Json | None = None
    faults: Sequence[str] = ()
    if fields is None:
        text = study_text(study)
        fields = {"draft": text if len(text) <= MOST_DRAFT else ""}
    else:  # browsers send lines of a form with both characters
        fields = {**fields, "draft": fields.get("draft", "").replace("\r\n", "\n")}
        try:
            plan = plan_draft(fields["draft"], request_of(fields))
        except UserError as error:
            faults = error.lines
    text = render(
        "plan.html",
        root=root,
        base=base,
        head="",
        study=study,
        fields={"draft": "", "query": "", "error": "", "people": "", "periods": "", **fields},
        key=key,
        plan=plan,
        faults=faults,
        figures=() if plan is None else plan_figures(plan),
        groups=None if plan is None else group_figure(plan["group_errors"]),
    )
    return text, not faults


def form_fields(body: bytes) -> dict[str, str]:
    """Parses the fields of a form. Raises UserError."""
    try:
        pairs = parse_qsl(body.decode("utf-8"), max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise UserError("this form is not understood") from None
    return dict(pairs)


def request_of(fields: Mapping[str, str]) -> PlanRequest:
    """Parses a request from a form's fields. Raises UserError."""
    query = within_length(" ".join(fields.get("query", "").split()))
    return PlanRequest(
        queries=(query,) if query else None,
        error=_number(fields, "error", float),
        count=fields.get("measure") == "count",
        people=_number(fields, "people", int),
        periods=_number(fields, "periods", int),
        alternatives="alternatives" in fields,
    )


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
