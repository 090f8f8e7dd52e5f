"""The table of events that `run` and `worker` write."""

from __future__ import annotations

from stream_dp.services.process.events import KINDS


def markdown() -> str:
    lines = ["| event | level | meaning |", "|---|---|---|"]
    lines += [f"| `{name}` | {kind.level} | {kind.meaning} |" for name, kind in KINDS.items()]
    return "\n".join(lines)
