"""Journal entries with the gates of periods, each drawn once, before the period's close."""

from __future__ import annotations

from collections.abc import Sequence

from stream_dp import __version__
from stream_dp.log.message import Message
from stream_dp.privacy.ledger import Charge

from .journal import Entry, closes, next_message
from .journal_heads import ChargeHead, GateHead, PeriodInput


def gate_entry(
    previous: Message,
    number: int,
    counted: PeriodInput,
    *,
    charge: Charge,
    people: int,
    held: bool,
) -> Message:
    """Builds the entry with the gate of a period, after the entry `previous`.

    number: the open period.
    people: the noisy count.
    """
    head = GateHead(
        number=number - 1,
        counted=counted,
        charges=[ChargeHead.of(charge)],
        public=[],
        code_version=__version__,
        people=people,
        held=held,
    )
    return next_message(previous, head, [])


def gates(entries: Sequence[Entry]) -> dict[int, Entry]:
    """By period, the entry with its gate."""
    return {entry.gated: entry for entry in entries if entry.gated is not None}


def open_gate(entries: Sequence[Entry]) -> Entry | None:
    """The entry with the gate of the open period. None before the gate is drawn."""
    return gates(entries).get(closes(entries)[-1].number + 1) if entries else None


def is_held(entries: Sequence[Entry]) -> bool:
    """Whether the gate holds the open period."""
    gate = open_gate(entries)
    return gate is not None and gate.gate.held
