"""Events: the services' messages to the operator, with a name, a level and a line.

An event names periods, releases and jobs, and never a count, a value or the id of a person.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from stream_dp.log.message import rfc3339_utc

from .command_output import say

Level = Literal["info", "warning", "error"]


@dataclass(frozen=True)
class Kind:
    """A kind of event. meaning: a sentence for the reference."""

    level: Level
    meaning: str


KINDS: dict[str, Kind] = {
    "close-awaited": Kind("info", "The open period waits for `stream-dp close`."),
    "time-awaited": Kind("info", "The open period waits for its time, or for clocks to agree."),
    "period-held": Kind("warning", "The gate holds the open period for the operator's decision."),
    "sender-awaited": Kind("warning", "The open period waits for a sender's open transaction."),
    "role-lost": Kind("warning", "Another releaser has the role; this releaser waits for its end."),
    "log-awaited": Kind("warning", "The releaser waits for brokers that do not answer."),
    "period-closed": Kind("info", "A period is closed and its releases are decided."),
    "release-awaited": Kind(
        "info", "A decided release waits for its time, or for clocks to agree."
    ),
    "period-published": Kind("info", "The releases of a period are public."),
    "horizon-reached": Kind("info", "Every period is released; the releaser ends."),
    "description-changed": Kind(
        "warning", "The study file's new description or curator is ignored."
    ),
    "key-changed": Kind("warning", "Another key signs all later messages."),
    "moved": Kind("warning", "The journal continues in other files, at the operator's word."),
    "reading-changed": Kind(
        "warning", "Reports are read from more partitions, or from another topic, from now on."
    ),
    "aggregator-awaited": Kind("info", "The releaser waits for an aggregator to close a period."),
    "aggregator-idle": Kind("info", "An aggregator waits for an order."),
    "order-begun": Kind("info", "An aggregator closes a period in parts."),
    "order-lost": Kind("warning", "Files of the last close are lost, and are written again."),
    "order-answered": Kind("info", "An aggregator has closed a period in parts."),
    "job-due": Kind("info", "A close has begun a batch job."),
    "jobs-outstanding": Kind("info", "Only batch jobs that workers have are left to do."),
    "job-begun": Kind("info", "A worker fits a batch job."),
    "job-handed-in": Kind("info", "A worker has appended the result of a batch job."),
    "job-published": Kind("info", "The result of a batch job is public."),
    "weights-published": Kind("info", "The weights of answers of least error are public."),
    "weights-failed": Kind(
        "warning", "No weights of answers could be computed; answers stay unbiased."
    ),
    "job-dropped": Kind("info", "A worker leaves a job: abandoned, done elsewhere, or stopped."),
    "job-failed": Kind("error", "A batch job failed and waits for an operator's `stream-dp jobs`."),
    "job-abandoned": Kind("warning", "An operator has abandoned a batch job; its charge stands."),
    "mode-mended": Kind(
        "warning", "A confidential file was open to all users; its mode is corrected."
    ),
    "operator-act": Kind(
        "warning", "An operator has closed a period, or retried or abandoned a job."
    ),
    "snapshot-damaged": Kind(
        "error", "A snapshot is damaged and set aside; its input is read again."
    ),
    "ended": Kind("error", "The process ends: `error`, `lines` and `code` say why."),
    "worker-idle": Kind("info", "A worker waits for a job, or for another worker to finish one."),
    "worker-restarted": Kind(
        "warning", "The worker that `run` started has ended, and is restarted."
    ),
}


@dataclass(frozen=True)
class Event:
    """name: a key of KINDS; message: the line for a terminal; period: a label."""

    name: str
    message: str
    period: str | None = None
    release: str | None = None
    job: str | None = None


HORIZON_REACHED = Event("horizon-reached", "the horizon is reached: every period is released")
DESCRIPTION_CHANGED = Event(
    "description-changed",
    "study.description or study.curator has changed; the first one stays the published one",
)
KEY_CHANGED = Event("key-changed", "published the key that signs from now on")
MOVED = Event(
    "moved",
    "moved: the journal goes on in these files; never start another copy of them, for both would"
    " draw noise for the same periods",
)


def reading(partitions: int) -> Event:
    """The event for more partitions or another topic of reports. partitions: their number now."""
    message = f"reports are read from {partitions} partitions from the open period on"
    return Event("reading-changed", message)


def outstanding(message: str) -> Event:
    """The event for a releaser with nothing but batch jobs left."""
    return Event("jobs-outstanding", message)


Tell = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Drops an event."""


def head(name: str) -> dict[str, str]:
    """The first fields of a line in a log: the time, and the event's level and name."""
    return {"time": rfc3339_utc(time.time()), "level": KINDS[name].level, "event": name}


def tell_text(event: Event) -> None:
    """Prints the line of an event on standard output."""
    say(event.message)


def tell_json(study: str) -> Tell:
    """A function for writing events as lines of JSON on standard error."""

    def tell(event: Event) -> None:
        line = {
            **head(event.name),
            "study": study,
            "period": event.period,
            "release": event.release,
            "job": event.job,
            "message": event.message,
        }
        print(json.dumps(line), file=sys.stderr, flush=True)

    return tell
