"""Plans of anybody's drafts, computed in isolated processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict

from stream_dp.errors import UserError
from stream_dp.json_object import Json

from .planner.plan_request import PlanRequest

PLAN_TIMEOUT = 25.0  # seconds, less than an answer may take
MOST_DRAFT = 16_000  # characters
_PROGRAM = "stream_dp.services.monitor.planner.draft"
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
