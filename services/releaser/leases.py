"""The leases of jobs: records among the rounds of transcripts, which say whose rounds count."""

from __future__ import annotations

import msgspec

from stream_dp.log.log import Record
from stream_dp.log.message import canonical
from stream_dp.study.topics import TRANSCRIPTS

from ..process.heartbeats import Heartbeat

LEASE = "stream-dp-lease"  # the header of these records


class Lease(msgspec.Struct, frozen=True):
    """A record that gives a job to a worker, or ends the worker's lease.

    writer: unique to the worker's lease; of all of its rounds.
    after: the writer of the lease that this record follows; empty for the first one. A record that
        follows another lease than the present one does not count.
    holder: the worker.
    released: whether the record ends the writer's own lease.
    """

    job: str
    writer: str
    after: str
    holder: Heartbeat
    released: bool = False


def lease_record(lease: Lease) -> Record:
    value = canonical(msgspec.to_builtins(lease))
    return Record(TRANSCRIPTS, value, headers=((LEASE, b"1"),), partition=0)
