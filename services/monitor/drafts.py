"""Plans of drafts that anybody may write, each made by a process that reads nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any

from stream_dp.errors import UserError

from ..planner.wish import Wish

PATIENCE = 25.0  # seconds, less than an answer may take
MOST_DRAFT = 16_000  # characters
_PROGRAM = "stream_dp.services.planner.draft"


@dataclass(frozen=True)
class Draft:
    """text: of a study file without [run]. wish: what is asked of it."""

    text: str
    wish: Wish


def plan_draft(draft: Draft) -> dict[str, Any]:
    """The plan of a draft, as `Planned.as_dict` has it. Raises UserError."""
    if len(draft.text) > MOST_DRAFT:
        raise UserError(f"draft: is longer than {MOST_DRAFT:,} characters")
    draft.wish.check()
    return _answered(json.dumps({"text": draft.text, "wish": asdict(draft.wish)}))


def _answered(question: str) -> dict[str, Any]:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    outside = {k: v for k, v in os.environ.items() if not k.startswith("STREAM_DP_")}
    try:
        # -P: modules are never imported from the current folder.
        done = subprocess.run(
            [sys.executable, "-P", "-m", _PROGRAM],
            input=question,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env={**outside, **threads},
        )
    except subprocess.TimeoutExpired:
        raise UserError(_TOO_MUCH) from None
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = {}
    if "plan" in answer:
        plan: dict[str, Any] = answer["plan"]
        return plan
    raise UserError(answer.get("lines", [_TOO_MUCH]))


_TOO_MUCH = (
    "draft: its plan needs more time or memory than it gets here; ask less of it, or run"
    " 'stream-dp plan' on a machine of your own"
)
