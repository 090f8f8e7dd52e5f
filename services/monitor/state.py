"""What the public monitor serves: one verified state of a public log, and pages computed from it.

The messages up to a head never change, so results computed from a state are cached with it, in
bounded memory, until the next head arrives.
"""

from __future__ import annotations

import traceback
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from threading import Condition, Event, RLock, Thread

from stream_dp.client import PublicLog
from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.base import Batch, Damaged, Log, LogError, Missing, Positions, TopicInfo
from stream_dp.release.published import AnyCertificate
from stream_dp.study import Study
from stream_dp.topics import RELEASES

from ..pages.figures import ReleaseFigures, release_figures

MOST_BYTES = 64 << 20  # of pages and answers of one state
_BETWEEN = 1.0  # seconds between two looks at the log
_LONGEST = 10.0  # seconds until the next look at a log that does not answer


class Computed:
    """Bytes by what was asked for, the latest within a limit; each is computed once."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._lock = RLock()
        self._results: OrderedDict[str, bytes] = OrderedDict()
        self._bytes, self._most = 0, most

    def get(self, key: str, compute: Callable[[], bytes]) -> bytes:
        """The bytes of a key, computed by one thread at a time where they are not in memory."""
        result = self._results.get(key)
        if result is not None:
            return result
        with self._lock:
            result = self._results.get(key)
            if result is None:
                result = self._results[key] = compute()
                self._bytes += len(result) + len(key)
                while self._bytes > self._most and len(self._results) > 1:
                    old, dropped = self._results.popitem(last=False)
                    self._bytes -= len(dropped) + len(old)
            return result


@dataclass(frozen=True)
class State:
    """A public log up to its head. verified: a line for each property that was checked."""

    public: PublicLog
    verified: tuple[str, ...]
    computed: Computed = field(default_factory=Computed)
    _figures: dict[str, ReleaseFigures] = field(default_factory=dict)

    def figures(self, name: str) -> ReleaseFigures:
        """The figures of a release, computed once. Raises UserError."""
        known = self._figures.get(name)
        if known is None:
            known = self._figures[name] = release_figures(self.public, name)
        return known

    @property
    def head(self) -> str:
        return self.public.head


class _Followed:
    """A log that notes where the reading of a topic has come to, and its last record there."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.next = 0
        self.last: bytes | None = None

    def describe(self, topic: str) -> TopicInfo:
        return self._log.describe(topic)

    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        batch = self._log.read(topic, positions, limit, timeout)
        if batch.records:
            self.last = batch.records[-1].value
            self.next = batch.records[-1].offset + 1
        return batch


def keep_all_but_panels(study: Study, certificate: AnyCertificate, table: str) -> bool:
    """Panels are counted and not kept: they are the only tables that grow with the rows."""
    return table != "panel"


class PublicReader:
    """Follows a public log in a thread: the newest checked state, or why there is none.

    open_log: opens the log; called for every look, so that a replaced file is seen.
    prepared: called with a new state before anybody is served it.
    """

    def __init__(
        self, open_log: Callable[[], Log], prepared: Callable[[State], object] = lambda state: None
    ) -> None:
        self._open, self._prepared = open_log, prepared
        self._end: tuple[str, int, bytes | None] | None = None
        self._changed = Condition()
        self._stop = Event()
        self.state: State | None = None
        self.fault: Sequence[str] = ("the public log is being read; look again in a moment",)

    def look(self) -> None:
        """Reads the log where it has changed; keeps the fault in words where it cannot be used."""
        try:
            with closing(self._open()) as log:
                if self.state is None or self._has_changed(log):
                    self._read(log)
            fault: Sequence[str] = ()
        except (Inconsistent, Damaged, Missing) as error:
            self._forget()
            fault = error.lines if isinstance(error, UserError) else [str(error)]
        except UserError as error:
            fault = error.lines
        except (LogError, OSError) as error:
            fault = [str(error) if isinstance(error, LogError) else "the public log: no answer"]
        except Exception:  # whatever a log does to this program, the thread goes on
            self._forget()
            traceback.print_exc()
            fault = ["the monitor failed on this public log; its operator can say why"]
        self._tell(fault)

    def _forget(self) -> None:
        self.state, self._end = None, None

    def _tell(self, fault: Sequence[str]) -> None:
        with self._changed:
            self.fault = fault
            self._changed.notify_all()

    def _has_changed(self, log: Log) -> bool:
        """Whether anything follows the last record, or stands in its place."""
        assert self._end is not None
        identity, position, last = self._end
        if log.describe(RELEASES).identity != identity:
            return True
        batch = log.read(RELEASES, {0: position - 1}, 2, 0)
        return [record.value for record in batch.records] != [last]

    def _read(self, log: Log) -> None:
        followed = _Followed(log)
        public = PublicLog(followed, keep_all_but_panels, count_panels=True)  # type: ignore[arg-type]
        state = State(public, tuple(public.verify()))
        self._prepared(state)
        self._end = (log.describe(RELEASES).identity, followed.next, followed.last)
        self.state = state

    def wait(self, head: str | None, timeout: float) -> str | None:
        """The head, as soon as it is another one than the given; or what it is at the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self.head != head, timeout)
            return self.head

    @property
    def head(self) -> str | None:
        state = self.state
        return None if state is None else state.head

    def start(self) -> Thread:
        thread = Thread(target=self._follow, daemon=True, name="public-reader")
        thread.start()
        return thread

    def stop(self) -> None:
        self._stop.set()

    def _follow(self) -> None:
        pause = _BETWEEN
        while not self._stop.is_set():
            self.look()
            pause = _BETWEEN if not self.fault else min(2 * pause, _LONGEST)
            self._stop.wait(pause)
