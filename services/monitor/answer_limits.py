"""Limits of computed answers, shared by all studies of a monitor."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import InitVar, dataclass, field
from functools import partial

from .forks import Work
from .live import MOST_STREAMS
from .memory_limit import answers_at_once, memory_limit
from .request_slots import RequestSlots

MOST_BYTES = 64 << 20  # of answers that are kept
MOST_WAITING = 128  # requests whose answers are being computed or wait for it
MOST_DOWNLOADS = 32  # that are written, wait for it or are on their way


class AnswerCache:
    """A cache of answers by request, least recently used first out. limit: bytes of all answers."""

    def __init__(self, limit: int = MOST_BYTES) -> None:
        self._answers: OrderedDict[tuple[str, ...], Work] = OrderedDict()
        self._bytes, self._limit = 0, limit

    def get(self, key: tuple[str, ...]) -> Work | None:
        if key in self._answers:
            self._answers.move_to_end(key)
        return self._answers.get(key)

    def keep(self, key: tuple[str, ...], answer: Work) -> None:
        self._drop(key)
        self._answers[key] = answer
        self._bytes += _size(key, answer)
        while self._bytes > self._limit:
            self._drop(next(iter(self._answers)))

    def _drop(self, key: tuple[str, ...]) -> None:
        dropped = self._answers.pop(key, None)
        if dropped is not None:
            self._bytes -= _size(key, dropped)


def _size(key: tuple[str, ...], answer: Work) -> int:
    return sum(map(len, key)) + len(answer.body) + 1000


@dataclass(frozen=True)
class AnswerLimits:
    """The limits of one monitor, however many studies it serves.

    studies: their number.
    computed, written, sent: slots for answers, and for downloads that are written and sent.
    viewed: slots for streams of events.
    cache: of answers.
    forms: the paths of forms that are being answered.
    """

    studies: InitVar[int] = 1
    computed: RequestSlots = field(init=False)
    written: RequestSlots = field(default_factory=partial(RequestSlots, 1, MOST_DOWNLOADS))
    sent: RequestSlots = field(default_factory=partial(RequestSlots, *[MOST_DOWNLOADS] * 2))
    viewed: RequestSlots = field(default_factory=partial(RequestSlots, *[MOST_STREAMS] * 2))
    cache: AnswerCache = field(default_factory=AnswerCache)
    forms: set[str] = field(default_factory=set)

    def __post_init__(self, studies: int) -> None:
        at_once = answers_at_once(memory_limit(), studies)
        object.__setattr__(self, "computed", RequestSlots(at_once, MOST_WAITING))
