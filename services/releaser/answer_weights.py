"""The weights of answers of least error, computed in the background after a publication.

They are post-processing of what is public: a thread reads nothing else. So a crash loses nothing,
and nothing waits for them. They are decided once, in an entry of the journal, because another
machine may compute other last digits. If a later period is published first, weights that are not
decided yet are left out, and those of the later period are computed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stream_dp.answers.error_weights import MOST_WORK, missing_weights
from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.log.log import Log
from stream_dp.log.signing import SigningKey
from stream_dp.release.public_reader import AnyCertificate
from stream_dp.release.published_panels import Weights
from stream_dp.study import Study

from ..process.events import Event, Tell
from . import decision
from .releaser_facts import Context

if TYPE_CHECKING:
    from .open_period import Recovered


def _of_panels(study: Study, certificate: AnyCertificate, table: str) -> bool:
    """Whether weights need a table."""
    return study.batch(certificate.release) is None and table != "estimates"


@dataclass
class AnswerWeights:
    """Computes the weights of the last publication while the releaser waits.

    public: the public log.
    wanted: whether weights are published.
    number: the last period whose weights are decided, are being computed, or cannot be computed.
    """

    study: Study
    public: Log
    tell: Tell
    wanted: bool
    number: int
    _log: PublicLog | None = field(default=None, init=False)  # read so far
    _thread: threading.Thread | None = field(default=None, init=False)
    _computed: Sequence[Weights] = field(default=(), init=False)
    _fault: str = field(default="", init=False)

    @property
    def busy(self) -> bool:
        """Whether weights are computed, or are there and not decided."""
        return self._thread is not None

    def begin(self, number: int) -> None:
        """Begins with the weights of the last published period, if none were begun for it."""
        if not self.wanted or number <= self.number or self.busy:
            return
        self.number, self._computed, self._fault = number, (), ""
        rows = [r.rows or self.study.size or 0 for r in self.study.releases]
        if not rows or max(rows) * number > MOST_WORK:
            self._log = None
            return
        if self._log is None:
            self._log = PublicLog(self.public, _of_panels)
        else:
            self._log.extend(self.public)
        self._thread = threading.Thread(target=self._compute, args=(self._log,), daemon=True)
        self._thread.start()

    def _compute(self, log: PublicLog) -> None:
        try:
            self._computed = list(missing_weights(log))
        except (UserError, ArithmeticError, ValueError, MemoryError) as error:
            self._fault = f"answers stay unbiased, because no weights could be computed: {error}"

    def finished(self, last: int | None) -> Sequence[Weights]:
        """The computed weights, once. Empty before, and if the releases of `last` came later."""
        if self._thread is None or self._thread.is_alive():
            return ()
        self._thread = None
        if self._fault:
            self.tell(Event("weights-failed", self._fault))
        return self._computed if self.number == last else ()


def publish_weights(run: Recovered, context: Context, signer: SigningKey | None) -> None:
    """Decides and publishes the weights of answers once they are computed."""
    weights, journal = run.weights, run.journal
    if not (computed := weights.finished(context.facts.released)):
        return
    journal.require_decidable()
    end = decision.decide_weights(weights.study, computed, journal.end, weights.number, signer)
    journal.commit(end, context.at, "weights-")
    run.publisher.publish(end.entry, until_idle=False)
    journal.renew()
