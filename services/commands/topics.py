"""`stream-dp topics`: creates the missing topics of a study and checks the others."""

from __future__ import annotations

import argparse
from contextlib import closing

from stream_dp.study.run_settings import Input
from stream_dp.study.topics import REPORTS, topics_of

from ..process.command_output import Output
from ..releaser.recovery import make_topics
from ..storage.deployment import Deployment


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    run = deployment.run
    private, public = topics_of(
        deployment.study, run.partitions, run.engine != "here", run.estimates
    )
    with closing(deployment.log()) as log, closing(deployment.public()) as published:
        existing = {*log.describe_all(private), *published.describe_all(public)}
        make_topics(log, published, (private, public), str(deployment.path))
    names = [*private, *public]
    created = [name for name in names if name not in existing]
    lines = [f"{name}: {'created' if name in created else 'exists'}" for name in names]
    notices = _notices(run.input)
    data = {"topics": names, "created": created, "notices": notices}
    return Output(data, "\n".join([*lines, *notices]))


def _notices(declared: Input) -> list[str]:
    """The settings of row senders for readable changes of rows."""
    columns = f"'{declared.person}' and '{declared.period}'"
    if declared.packed == "debezium" and declared.before == "required":
        return [
            f"{REPORTS}: updates and deletions must have {columns} of the old row; PostgreSQL"
            " writes them after ALTER TABLE ... REPLICA IDENTITY FULL. Others are rejected with"
            " the reason 'before'."
        ]
    if declared.packed == "flat" and declared.tombstones == "withdraw":
        return [
            f"{REPORTS}: the keys of records must have the columns {columns}; Debezium's have"
            " those of the primary key, or with REPLICA IDENTITY FULL those of"
            " message.key.columns. Others are rejected with the reasons 'before' and 'deleted'."
        ]
    return []
