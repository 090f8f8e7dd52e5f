"""The ledger of certificates: what is published has cost, and everything that it descends from.

A fused table learns from earlier tables of its release, its ancestors. An ancestor may never be
published, as an operator abandoned its job or its result was refused. Its charge counts from the
first publication that descends from it, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from stream_dp.privacy.ledger import Charge, Ledger
from stream_dp.study import Study
from stream_dp.study.period_gate import gate_charges

_DataSets = frozenset[tuple[str, int]]  # releases with the numbers of periods


@dataclass(frozen=True)
class CertifiedLedger:
    """The charges that a certificate counts.

    ledger: all of these charges.
    counted: the data sets among them.
    unpublished: those of `counted` that are ancestors and not published.
    """

    study: Study
    ledger: Ledger
    counted: _DataSets = frozenset()
    unpublished: _DataSets = frozenset()

    @classmethod
    def of(cls, study: Study) -> CertifiedLedger:
        """The ledger before any publication."""
        return cls(study, Ledger(study.rho, study.strata))

    @property
    def spent(self) -> Fraction:
        return self.ledger.spent

    def with_charges(
        self, *charges: Charge, ancestors: Sequence[Charge] = (), gates: int = 0
    ) -> CertifiedLedger:
        """Adds the charges of publications.

        ancestors: data sets that the publications descend from; those that count already are not
            added again.
        gates: the gates of all periods up to this one count, too.

        Raises BudgetExceeded.
        """
        uncounted = [c for c in charges if _data_set(c) not in self.unpublished]
        unpublished = [c for c in ancestors if _data_set(c) not in self.counted]
        of_gates = gate_charges(self.study, self.ledger, gates)
        ledger = self.ledger.charge(*of_gates, *uncounted, *unpublished)
        published = {_data_set(c) for c in charges if self.study.batch(c.release) is not None}
        new = {_data_set(c) for c in unpublished}
        if not published | new:
            return replace(self, ledger=ledger)
        return replace(
            self,
            ledger=ledger,
            counted=self.counted | published | new,
            unpublished=(self.unpublished | new) - published,
        )


def _data_set(charge: Charge) -> tuple[str, int]:
    return charge.release, charge.period
