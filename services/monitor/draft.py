"""The program of an isolated process that plans one draft of anybody.

The program reads a draft as JSON from standard input and writes the plan, or the faults, to the
standard output. The process has little time and memory and may write no file. A draft
names no file.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tomllib
from decimal import Decimal

from stream_dp.errors import UserError
from stream_dp.json_object import Json
from stream_dp.studyfile import parse_study

from .plan_request import PlanRequest
from .plan_result import planned

SECONDS = 20  # of the processor
MEMORY = 1 << 30  # bytes of addresses
_MOST_PERIODS = 600
_MOST_LINES = 20
TOO_MUCH = (
    f"draft: its plan needs more than {SECONDS} seconds or {MEMORY >> 30} GiB; ask less of it,"
    " or run 'stream-dp plan' on a machine of your own"
)


def confine() -> None:
    """Limits this process before it reads anything."""
    for resource_kind, limit in (
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(resource_kind, (limit, limit))
    os.nice(10)


def plan(question: Json) -> Json:
    """Plans a draft; returns the plan, or lines about the faults.

    question: `text`, of a study file without [run], and `request`, the fields of a `PlanRequest`.
    """
    request = question["request"]
    if request["queries"] is not None:
        request["queries"] = tuple(request["queries"])
    try:
        raw = tomllib.loads(question["text"], parse_float=Decimal)
        if "run" in raw:
            raise UserError("draft: leave [run] out; nothing is read or run here")
        study = parse_study(raw)
        if study.periods.count > _MOST_PERIODS:
            raise UserError(
                f"draft: more than {_MOST_PERIODS} periods; plan it with stream-dp plan"
            )
        return {"plan": planned(study, PlanRequest(**request)).as_dict()}
    except tomllib.TOMLDecodeError as error:
        return {"lines": [f"draft: not a TOML file: {error}"]}
    except UserError as error:
        return {"lines": list(error.lines)[:_MOST_LINES]}
    except RecursionError:
        return {"lines": ["draft: tables inside tables inside tables"]}
    except MemoryError:
        return {"lines": [TOO_MUCH]}


if __name__ == "__main__":
    confine()
    print(json.dumps(plan(json.load(sys.stdin))))
