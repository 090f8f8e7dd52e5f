"""Decides the releases of a closed period, or of a finished job, as one journal entry.

A certificate states the charges of everything that is published up to it. Does no input or output.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, overload

from stream_dp.continual.mechanisms import AnyMechanism
from stream_dp.errors import UserError
from stream_dp.log.log import Record
from stream_dp.log.message import MAX_PART, Message, build_message
from stream_dp.log.signing import SigningKey
from stream_dp.panel import Columns
from stream_dp.planning.plan import Plan
from stream_dp.privacy.ledger import Charge
from stream_dp.privacy.noise import Draw, NoiseSource
from stream_dp.release.certificate import CertifiedLedger, GateStatement
from stream_dp.release.published_panels import (
    RELEASE_TYPE,
    WEIGHTS_TYPE,
    Weights,
    panel_certificate,
    panel_parts,
)
from stream_dp.study import Release, Study
from stream_dp.study.noisy_gate import GATE, noisy_gate
from stream_dp.study.topics import RELEASES

from ..storage import journal
from ..storage.job_records import Job, Result
from ..storage.journal import ClosedPeriod, Entry, gate_entry
from ..storage.journal_heads import CloseHead, GateHead, PeriodInput, ResultHead, study_records
from .job_families import JOB_FAMILIES


def certified(ledger: CertifiedLedger, entry: Entry) -> CertifiedLedger:
    """The ledger of certificates after the entry's publication.

    A certificate counts the gates of all periods up to its own.
    """
    study, head = ledger.study, entry.head
    certifies = isinstance(head, CloseHead | ResultHead) and bool(entry.published)
    return ledger.with_charges(
        *certified_charges(entry, study),
        ancestors=data_set_charges(study, head.release, head.fused_with)
        if isinstance(head, ResultHead)
        else (),
        gates=entry.number if certifies else 0,
    )


def certified_charges(entry: Entry, study: Study) -> tuple[Charge, ...]:
    """The charges of releases that certificates count after the entry's publication.

    The charge of a data set is in the close that begins its job, but counts only with the job's
    result, or with a result that descends from it.
    """
    if isinstance(entry.head, GateHead):
        return ()
    if not isinstance(entry.head, ResultHead):
        return tuple(c for c in entry.charges if study.batch(c.release) is None)
    return data_set_charges(study, entry.head.release, [entry.number])


def data_set_charges(study: Study, release: str, periods: Iterable[int]) -> tuple[Charge, ...]:
    """The charges of the data sets of a release at these periods.

    Raises UserError for a period without one.
    """
    batch = study.batch(release)
    assert batch is not None
    schedule = study.schedule(batch)
    try:
        return tuple(Charge(release, number, schedule[number].rho) for number in sorted({*periods}))
    except KeyError:
        raise UserError("a result is fused with a table that is not declared") from None


_ROOM = 65_536  # bytes of a journal record, beside those of the public record in it


@dataclass(frozen=True)
class ReleaseState:
    """A release of the study, its mechanism, and the mechanism's state after the last period."""

    release: Release
    mechanism: AnyMechanism
    state: Any


@dataclass(frozen=True)
class ChainEnd:
    """The end of the journal and of the chain of public messages.

    entry: the last entry of the journal.
    index: the index of the last public message that is decided.
    hash: the hash of that message.
    certified: the charges of the releases up to that message, and of everything that they descend
        from; a certificate states their sum. A data set counts here once its own result, or a
        result that descends from it, is decided, though its job was charged before.
    """

    entry: Entry
    index: int
    hash: str
    certified: CertifiedLedger

    @classmethod
    def of(cls, plan: Plan, entries: Sequence[Entry]) -> ChainEnd:
        """The end of a journal, with what its publications have cost."""
        hashes = [digest for entry in entries for digest in entry.published]
        ledger = CertifiedLedger.of(plan.study)
        for entry in entries:
            ledger = certified(ledger, entry)
        return cls(entries[-1], len(hashes) - 1, hashes[-1], ledger)


def release_states(
    plan: Plan, closes: Sequence[Entry], panels: Mapping[str, Columns]
) -> tuple[ReleaseState, ...]:
    """Every continual release with its state after the last close.

    plan: of the study's beginning.
    closes: genesis and the entries that close a period.
    panels: by release, the decided panel.
    """
    states, study = [], plan.study
    for release in study.releases:
        mechanism = plan.mechanisms[release.name]
        entries = [e for e in closes if e.number and study.time(release, e.number) is not None]
        state = mechanism.load(Dumps(entries, release.name), panels.get(release.name))
        states.append(ReleaseState(release, mechanism, state))
    return tuple(states)


@dataclass(frozen=True)
class Dumps(Sequence[bytes]):
    """The additions of periods to the state of a release, each read on access.

    closes: the entries that close the release's periods.
    """

    closes: Sequence[Entry]
    release: str

    def __len__(self) -> int:
        return len(self.closes)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Dumps: ...
    def __getitem__(self, index: int | slice) -> bytes | Dumps:
        if isinstance(index, slice):
            return Dumps(self.closes[index], self.release)
        return self.closes[index].state(self.release)


def draw_noise(
    study: Study, source: NoiseSource, states: Sequence[ReleaseState], number: int
) -> list[Draw]:
    """The noise of a period per release, drawn before the counts are known."""
    times = [study.time(current.release, number) for current in states]
    return [
        source.draw(() if t is None else current.mechanism.demand(t))
        for current, t in zip(states, times, strict=True)
    ]


def decide_gate(
    study: Study, end: ChainEnd, number: int, *, people: int, draw: Draw, counted: PeriodInput
) -> ChainEnd:
    """Decides the entry with the gate of the open period: the new end of the chain.

    The ledger must already have accepted its charge.

    number: the period.
    people: the true count. draw: its noise.
    """
    gate = noisy_gate(study)
    assert gate is not None
    noisy = people + int(draw.noise[0][0])
    entry = gate_entry(
        end.entry.message,
        number,
        counted,
        charge=Charge(GATE, number, gate.rho),
        people=noisy,
        held=gate.holds(noisy),
    )
    return replace(end, entry=Entry(entry))


def decide(
    plan: Plan,
    end: ChainEnd,
    states: Sequence[ReleaseState],
    *,
    draws: Sequence[Draw],
    closed: ClosedPeriod,
    gate: GateHead | None = None,
    simulated: bool,
    signer: SigningKey | None = None,
) -> tuple[ChainEnd, tuple[ReleaseState, ...]]:
    """Decides the entry that closes a period: the new end of the chain, and the new states.

    The ledger must already have accepted the period's charges.

    end: the end of the chain before the entry.
    states: the states of the continual releases, in the study's order.
    draws: by release, the period's noise.
    closed: the period.
    gate: of the period; None in a study without.
    simulated: whether the noise is seeded.
    signer: signs the public messages.
    """
    study, ledger, number = plan.study, end.certified, closed.number
    index, previous = end.index, end.hash
    new_states, public, hashes = list[ReleaseState](), list[Record](), list[str]()
    charges = {charge.release: charge for charge in plan.charges(number)}
    assert plan.stored is not None  # the plan of the journal's beginning
    for current, draw in zip(states, draws, strict=True):
        release, charge = current.release, charges.get(current.release.name)
        if study.time(release, number) is None:
            new_states.append(current)
            continue
        counts = closed.closed.counts[release.name]
        state, step = current.mechanism.step(current.state, counts, draw)
        new_states.append(replace(current, state=state))
        ledger = ledger if charge is None else ledger.with_charges(charge)
        if step is None:
            continue
        ledger = ledger.with_charges(gates=number)
        cost = Fraction(0) if charge is None else charge.rho
        certificate = panel_certificate(
            study,
            release,
            mechanism=current.mechanism,
            errors=plan.stored[release.name].panel,
            number=number,
            step=step,
            rho=cost,
            spent=ledger.spent,
            simulated=simulated,
        ).model_copy(update={"gate": _stated(study, gate), **plan.proved.stated(ledger.spent)})
        index += 1
        message = build_message(
            index,
            previous,
            certificate.model_dump(mode="json", exclude_none=True),
            panel_parts(step, certificate.columns),
        )
        previous = message.hash
        hashes.append(message.hash)
        public += _records(study, message, release.name, RELEASE_TYPE, number, signer)
    entry = journal.close(
        end.entry.message,
        closed,
        charges=plan.charges(number),
        states={
            s.release.name: s.mechanism.dump(s.state)
            for s in new_states
            if study.time(s.release, number) is not None
        },
        public=public,
        hashes=hashes,
    )
    return ChainEnd(Entry(entry), index, previous, ledger), tuple(new_states)


def decide_result(
    plan: Plan,
    job: Job,
    result: Result,
    end: ChainEnd,
    *,
    gate: GateHead | None = None,
    simulated: bool,
    signer: SigningKey | None = None,
) -> ChainEnd:
    """Decides the entry that publishes a job's result: the new end of the chain.

    gate: of the job's period; None in a study without.

    Raises UserError for data that are no result of this job. Nothing is decided then, and the same
    data are refused each time.
    """
    study = plan.study
    declared = study.batch(job.release)
    assert declared is not None
    if any(len(data) > MAX_PART - _ROOM // 2 for _, data in result.parts):
        raise UserError("a part of a result is too large for a record")
    provenance = result.provenance
    if provenance is None:
        raise UserError("a result does not say how it was fitted")
    if provenance.simulated != simulated:
        raise UserError("a result with seeded noise in a study without, or the other way round")
    ancestors = data_set_charges(study, declared.name, provenance.fused_with)
    earlier_periods = [n for n in study.due_periods(declared) if declared.fused and n < job.period]
    if not {charge.period for charge in ancestors} <= {*earlier_periods}:
        raise UserError("a result is fused with a table that does not come before it")
    ledger = end.certified.with_charges(job.charge, ancestors=ancestors, gates=job.period)
    labels, costs = study.periods.labels, {charge.period: charge.rho for charge in ancestors}
    fused_with = {labels[n - 1]: costs.get(n, Fraction(0)) for n in earlier_periods}
    try:
        certificate = (
            JOB_FAMILIES[declared.family]
            .certificate(
                study,
                declared,
                result.parts,
                provenance,
                number=job.period,
                rho=Fraction(job.rho),
                spent=ledger.spent,
            )
            .model_copy(update={"gate": _stated(study, gate), "fused_with": fused_with})
            .model_copy(update=plan.proved.stated(ledger.spent))
        )
        fields = certificate.model_dump(mode="json")
        message = build_message(end.index + 1, end.hash, fields, result.parts)
    except (ValueError, TypeError, RecursionError):
        raise UserError("a result says in what is no JSON how it was fitted") from None
    public = _records(study, message, declared.name, certificate.type, job.period, signer)
    entry = journal.result(
        end.entry.message,
        job,
        digest=result.hash,
        public=public,
        hashes=[message.hash],
        fused_with=provenance.fused_with,
    )
    return ChainEnd(Entry(entry), message.index, message.hash, ledger)


def decide_weights(
    study: Study,
    computed: Sequence[Weights],
    end: ChainEnd,
    number: int,
    signer: SigningKey | None = None,
) -> ChainEnd:
    """Decides the entry that publishes weights of answers: the new end of the chain.

    number: the last closed period.
    """
    index, previous = end.index, end.hash
    public, hashes = list[Record](), list[str]()
    for head, parts in computed:
        index += 1
        message = build_message(index, previous, head.model_dump(mode="json"), parts)
        previous = message.hash
        hashes.append(previous)
        time, content = study.periods.release_time(number), "application/vnd.apache.arrow.stream"
        public += study_records(
            message, RELEASES, study, WEIGHTS_TYPE, content, time=time, signer=signer
        )
    entry = journal.weights(end.entry.message, number, public, hashes)
    return replace(end, entry=Entry(entry), index=index, hash=previous)


def _stated(study: Study, gate: GateHead | None) -> GateStatement | None:
    """The gate of a period in a certificate."""
    declared = noisy_gate(study)
    if declared is None:
        return None
    assert gate is not None
    return GateStatement.of(declared, gate.people)


def _records(
    study: Study, message: Message, name: str, kind: str, number: int, signer: SigningKey | None
) -> list[Record]:
    """The records of a release's public message, each key ending with the release's name."""
    time, content = study.periods.release_time(number), "application/vnd.apache.arrow.stream"
    records = study_records(message, RELEASES, study, kind, content, time=time, signer=signer)
    return [replace(r, key=(r.key or b"") + f"/{name}".encode()) for r in records]
