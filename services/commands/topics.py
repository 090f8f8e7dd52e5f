"""`stream-dp topics`: creates the missing topics of a study and checks the others."""

from __future__ import annotations

import argparse
from contextlib import closing

from stream_dp.study.topics import topics_of

from ..intake.options import study_file
from ..process.output import Output
from ..releaser.recovery import make_topics
from ..storage.deployment import Deployment


def options(parser: argparse.ArgumentParser) -> None:
    study_file(parser)


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
    lines = [f"{name}: {'created' if name in created else 'as it must be'}" for name in names]
    return Output({"topics": names, "created": created}, "\n".join(lines))
