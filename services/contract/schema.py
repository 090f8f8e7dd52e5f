"""`stream-dp schema`: the schemas of a study's reports, and AsyncAPI of all its topics.

For AsyncAPI 3 a topic has an address, writers and messages.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from stream_dp import __version__
from stream_dp.errors import write_error
from stream_dp.json_object import Json
from stream_dp.log import address
from stream_dp.log.owned_files import make_folder
from stream_dp.study import Run, Study
from stream_dp.study.topics import (
    CLOCK,
    CLOSES,
    DEAD_LETTERS,
    ESTIMATES,
    GROUPS,
    HEARTBEATS,
    JOBS,
    JOURNAL,
    MANIFESTS,
    ORDERS,
    RELEASES,
    REPORTS,
    RESULTS,
    STUDY,
    TRANSCRIPTS,
    topics_of,
)

from ..process.command_output import Output
from ..releaser.answer_topic import answer_avro
from ..storage.atomic_files import write_text_file
from ..storage.deployment import Deployment
from .messages import messages, shared_schemas
from .report_schemas import report_avro, report_schema

VERSION = "3.0.0"
# By topic: whether the system receives or sends the messages, and the purpose.
_TOPICS = {
    STUDY: ("receive", "Whose log it is, as its first writer says. Confidential."),
    REPORTS: ("receive", "What people say, and the operator's markers. Confidential."),
    GROUPS: ("receive", "The table of groups and their members, or of places. Confidential."),
    DEAD_LETTERS: ("send", "Rejected records, with the reasons. Confidential."),
    JOURNAL: ("send", "The releaser's decisions, a chain of messages. Confidential."),
    CLOCK: ("send", "By which the cluster's time is read. Confidential."),
    HEARTBEATS: ("send", "Each process says that it lives; the last record counts. Confidential."),
    CLOSES: ("receive", "Where the operator's markers are. Confidential."),
    ORDERS: ("send", "Closes that an aggregator is to do. Confidential."),
    MANIFESTS: ("send", "What aggregators have closed. Confidential."),
    JOBS: ("send", "Data sets that workers are to fit. Confidential."),
    TRANSCRIPTS: ("send", "The rounds of jobs, each decided once. Confidential."),
    RESULTS: ("send", "Data sets that workers have fitted. Confidential."),
    RELEASES: ("send", "What is published, a chain of messages. Public."),
    ESTIMATES: ("send", "The answers of each publication, a record each. Public."),
}


def asyncapi(study: Study, run: Run) -> Json:
    """The AsyncAPI 3 document of all topics that a study has, its reports' schema included.

    A log that is a file has the same topics under their bare names, and no server.
    """
    private, public = topics_of(study, run.partitions, run.engine != "here", run.estimates)
    contents = messages(study, run)
    servers, channels, operations = {}, {}, {}
    for server, url, partitions in (("log", run.log, private), ("public", run.public, public)):
        host, prefix = address(url)
        if prefix is not None:
            servers[server] = {"host": host, "protocol": "kafka"}
        for topic, number in partitions.items():
            action, description = _TOPICS[topic]
            name = topic if prefix is None else f"{prefix}.{topic}"
            name = run.reports or name if topic == REPORTS else name
            channel: Json = {
                "address": name,
                "description": description,
                "messages": contents[topic],
            }
            if prefix is not None:
                channel["servers"] = [{"$ref": f"#/servers/{server}"}]
                binding = {"topic": name, "partitions": number, "bindingVersion": "0.5.0"}
                channel["bindings"] = {"kafka": binding}
            channels[topic] = channel
            operations[f"{action}-{topic}"] = {
                "action": action,
                "channel": {"$ref": f"#/channels/{topic}"},
            }
    return {
        "asyncapi": VERSION,
        "info": {
            "title": f"The study {study.name}",
            "version": __version__,
            "description": f"Every topic of the study {study.name}. In a log that is a file they"
            " have the same names without a prefix.",
        },
        "defaultContentType": "application/json",
        **({"servers": servers} if servers else {}),
        "channels": channels,
        "operations": operations,
        "components": {"schemas": shared_schemas()},
    }


# By kind: the end of the file's name, and what makes the schema.
_KINDS: dict[str, tuple[str, Callable[[Deployment], dict[str, object]]]] = {
    "json": ("report.schema.json", lambda deployment: report_schema(deployment.study)),
    "avro": ("report.avsc", lambda deployment: report_avro(deployment.study)),
    "asyncapi": ("asyncapi.json", lambda deployment: asyncapi(deployment.study, deployment.run)),
    "estimates-avro": ("estimate.avsc", lambda _: answer_avro()),
}


def run(options: argparse.Namespace) -> Output:
    deployment = Deployment.load(options.study)
    folder: Path | None = options.out
    if folder is None:
        _, make = _KINDS[(options.kind or ["json"])[-1]]
        schema = make(deployment)
        return Output(schema, _text(schema))
    files = []
    for kind in dict.fromkeys(options.kind or _KINDS):
        ending, make = _KINDS[kind]
        path = folder / f"{deployment.study.name}.{ending}"
        try:
            make_folder(folder, public=True)
        except OSError as error:
            raise write_error(path, error) from None
        write_text_file(path, _text(make(deployment)) + "\n", public=True)
        files.append(str(path))
    return Output({"files": files}, "\n".join(files))


def _text(schema: dict[str, object]) -> str:
    return json.dumps(schema, indent=2)
