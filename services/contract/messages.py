"""The messages of every topic of a study, as AsyncAPI 3 describes them.

The schemas of journal entries, jobs and certificates are those of the types that write them. The
pieces of JSON Schema come first.
"""

from __future__ import annotations

import msgspec
from pydantic.json_schema import models_json_schema

from stream_dp.json_object import Json
from stream_dp.log.log import SEALED
from stream_dp.log.message import SIGNATURE
from stream_dp.population.cells import REASONS
from stream_dp.release.public_reader import READERS
from stream_dp.release.published_panels import STUDY_TYPE, WEIGHTS_TYPE, WeightsStatement
from stream_dp.release.signatures import KEY_TYPE
from stream_dp.release.study_plan import PLAN, ReleasePlan
from stream_dp.study import Run, Study, topics
from stream_dp.study.run_settings import Input

from ..intake.markers import MARKED_STUDY, MARKER, Announced, study_mark
from ..process.heartbeats import Heartbeat
from ..releaser.answer_topic import CONNECT_SCHEMA, answer_schema
from ..releaser.fit_transcript import LEASE, Lease
from ..releaser.job_board import KNOWN
from ..releaser.people_jobs import panels_of
from ..storage.close_orders import Answer, Order, Reading
from ..storage.deployment import Binding
from ..storage.job_records import Job, JobStudy
from ..storage.journal_heads import (
    CloseHead,
    GenesisHead,
    KeyHead,
    PlacedHead,
    ReadingHead,
    ResultHead,
    WeightsHead,
)
from .report_schemas import report_schema

Schema = Json

SHARED = "#/components/schemas/"  # the path of shared schemas in the document


def object_of(properties: dict[str, Schema]) -> Schema:
    """An object that has all these properties."""
    return {"type": "object", "required": list(properties), "properties": properties}


def matching(pattern: str) -> Schema:
    """A text that matches a regular expression."""
    return {"type": "string", "pattern": pattern}


def typed(kind: str) -> Schema:
    """An object with the constant property `type`. kind: the constant."""
    return object_of({"type": {"const": kind}})


def shared(name: str) -> Schema:
    """A reference to the shared schema with this name."""
    return {"$ref": f"{SHARED}{name}"}


def all_of(*schemas: Schema) -> Schema:
    """A schema that requires all of the schemas."""
    return {"allOf": list(schemas)}


Messages = dict[str, Schema]

_TEXT: Schema = {"type": "string"}
BINARY: Schema = {"type": "string", "format": "binary"}  # as documents of APIs say bytes
_COUNT: Schema = {"type": "integer", "minimum": 0}
_DIGEST: Schema = matching("^[0-9a-f]{64}$")
_SIGNER: Schema = matching("^ed25519:[0-9a-f]{64}$")
_ARROW = "application/vnd.apache.arrow.stream"
_JSON, _BYTES = "application/json", "application/octet-stream"


def shared_schemas() -> dict[str, Schema]:
    """The schemas that messages of several topics refer to, by name."""
    heads = (
        *(GenesisHead, CloseHead, ResultHead, PlacedHead, ReadingHead, KeyHead, WeightsHead),
        *(Job, JobStudy),
    )
    record_types = (Binding, Announced, Order, Answer, Reading, Heartbeat, Lease)
    _, private = msgspec.json.schema_components(
        (*heads, *record_types), ref_template=f"{SHARED}{{name}}"
    )
    _, public = models_json_schema(
        [
            (WeightsStatement, "serialization"),
            (ReleasePlan, "serialization"),
            *((reader.certificate, "serialization") for reader in dict.fromkeys(READERS.values())),
        ],
        ref_template=f"{SHARED}{{model}}",
    )
    listed = object_of({"name": _TEXT, "bytes": _COUNT, "sha256": _DIGEST})
    manifest = object_of(
        {"index": _COUNT, "previous": _DIGEST, "parts": {"type": "array", "items": listed}}
    )
    manifest["description"] = (
        "What every manifest has: its place in the chain, the SHA-256 of the manifest before it"
        " (zeros before the first), and the parts that came before it."
    )
    # A manifest has the fields of its head beside its own.
    for head in heads:
        private[head.__name__].pop("additionalProperties", None)
    return {**private, **public["$defs"], "Manifest": manifest}


def messages(study: Study, run: Run) -> dict[str, Messages]:
    """By topic, its messages by name."""
    source, signed = f"stream-dp/{study.name}", run.signing is not None
    weighed = run.weights and bool(study.releases)
    private = {
        topics.STUDY: {"binding": _binding(study)},
        topics.REPORTS: {"report": _report(study, run.input), "closeMarker": _marker(study)},
        topics.DEAD_LETTERS: {"deadLetter": _dead_letter()},
        topics.JOURNAL: {
            "journalPart": _part("stream-dp.decision", source, "(design|state .+|public)", _BYTES),
            **{
                f"{name}Entry": _manifest(
                    "stream-dp.decision", source, [shared(f"{name.title()}Head")]
                )
                for name in (
                    *("genesis", "close", "result", "placed"),
                    *(["weights"] * weighed),
                    *(["reading"] * run.log.startswith("kafka:")),
                    *(["key"] * signed),
                )
            },
        },
        topics.CLOCK: {"tick": _message("Its append time is the cluster's time.")},
        topics.HEARTBEATS: {
            "heartbeat": _message(
                "A process lives, or has ended, and what it waits for.",
                shared("Heartbeat"),
                key={"enum": list(topics.PROCESSES)},
            )
        },
    }
    private |= _part_messages() | _job_messages(study, source)
    if run.input.plain:
        private[topics.REPORTS]["faultyRow"] = _faulty_row()
    if run.encryption is not None:
        private |= {t: {"sealed": _sealed()} for t in private if t not in topics.UNSEALED}
    public = {topics.RELEASES: _releases(study, source, signed=signed, weighed=weighed)}
    return {**private, **public, topics.ESTIMATES: {"estimate": _estimate(run)}}


def _estimate(run: Run) -> Schema:
    if run.estimates_schema is not None:
        summary = "An answer of a publication, in Avro behind a zero byte and its schema's id."
        return {**_message(summary, key=_TEXT), "contentType": "application/avro"}
    return _message(
        "An answer of a publication, with the schema that Kafka Connect reads.",
        object_of({"schema": {"const": CONNECT_SCHEMA}, "payload": answer_schema()}),
        key=_TEXT,
    )


def _binding(study: Study) -> Schema:
    declared = object_of({"study": {"const": study.name}, "terms": {"const": study.terms_hash}})
    return _message("The study that the log belongs to.", all_of(shared("Binding"), declared))


def _report(study: Study, declared: Input) -> Schema:
    """The message of a person's answers. declared: the form of the records."""
    summary = f"What one {study.unit} says for one period. Whoever may write here may send it."
    if declared.plain:
        key_description = "The person's id as text, so that one person's reports stay in order."
        key = {"type": ["string", "null"], "description": key_description}
        return _message(summary, report_schema(study), key=key)
    summary += f" A record of the shape that [run.input] declares: {declared.format} with"
    summary += f" {declared.packed} in it; the JSON Schema of reports holds once it is mapped."
    return _message(summary)


def _faulty_row() -> Schema:
    row = {"type": ["integer", "null"], "minimum": 1}
    payload = {**object_of({"row": row, "text": _TEXT}), "additionalProperties": False}
    summary = "A row of a table that makes no report, as `send` writes it. It is rejected."
    return _message(summary, payload)


def _marker(study: Study) -> Schema:
    """The message by which an operator closes periods."""
    headers = object_of({MARKER: matching("^[0-9]{1,5}$")})
    headers["properties"][MARKED_STUDY] = {"const": study_mark(study).decode()}
    summary = (
        "Closes every period up to the number in its header, for its partition. An operator's."
    )
    summary += " One that names another study closes nothing and is rejected."
    return _message(summary, {"type": "null"}, content=_BYTES, headers=headers)


def _dead_letter() -> Schema:
    """The message with a rejected record, with the headers of Kafka Connect."""
    reasons = "|".join(REASONS)
    headers = object_of(
        {
            "__connect.errors.topic": _TEXT,
            "__connect.errors.partition": matching("^[0-9]+$"),
            "__connect.errors.offset": matching("^[0-9]+$"),
            "__connect.errors.stage": {"const": "VALUE_CONVERTER"},
            "__connect.errors.exception.message": _TEXT,
            "stream-dp-cells": matching(f"^({reasons})=[0-9]+(,({reasons})=[0-9]+)*$"),
        }
    )
    headers["properties"]["stream-dp-source"] = {**_TEXT, "maxLength": 255}
    key = matching(f"^{topics.REPORTS}/[0-9]+/[0-9]+$")
    summary = "A rejected record's value, with the reasons in headers; none of them quotes it."
    return _message(summary, headers=headers, key=key)


def _part_messages() -> dict[str, Messages]:
    order = dict(_DIGEST)
    return {
        topics.CLOSES: {
            "announcement": _message(
                "Positions of the reports that the next markers do not lie before.",
                shared("Announced"),
            )
        },
        topics.ORDERS: {
            "order": _message("A close that an aggregator is to do.", shared("Order"), key=order)
        },
        topics.MANIFESTS: {
            "answer": _message(
                "The file of the manifest that answers an order.", shared("Answer"), key=order
            ),
            "reading": _message(
                "The schemas that the reports of an order are read with.",
                shared("Reading"),
                key=matching("^[0-9a-f]{64}/reading$"),
            ),
            "lost": _message(
                "Files of the period before an order are lost; the releaser has them made again.",
                key=matching("^[0-9a-f]{64}/lost$"),
            ),
        },
    }


def _sealed() -> Schema:
    summary = "A record that is encrypted, with its headers, by the keys of [run.encryption]."
    return _message(summary, headers=object_of({name: {} for name, _ in SEALED}))


def _job_messages(study: Study, source: str) -> dict[str, Messages]:
    """By topic, the messages of the operator's tables and of batch jobs."""
    job = {**_TEXT, "minLength": 1}
    table, part_names = ("groups", "groups|members")
    if study.places is not None:
        table, part_names = ("places", "regions|places|counts")
    kind = f"stream-dp.{table}"
    number: Schema = {"type": ["number", "null"]}
    progress = {"job": job, "done": _COUNT, "rounds": _COUNT, "error": number, "left": number}
    result = {"mechanism": _TEXT, "notes": {"type": "object"}, "simulated": {"type": "boolean"}}
    interruption = {"attempt": _COUNT, "reason": _TEXT}
    hold = {"attempt": _COUNT, "rounds": _COUNT}
    listed = object_of({"name": _TEXT, "sha256": _DIGEST})
    result |= {
        "fused_with": {"type": "array", "items": _COUNT},
        "attempt": _COUNT,
        "parts": {"type": "array", "items": listed},
    }

    def handed_in(part_schema: Schema) -> Schema:
        return object_of({"stream-dp-part": part_schema, "stream-dp-writer": _TEXT})

    known: Messages = {}
    if any(panels_of(study, batch) for batch in study.batches or ()):
        columns: Schema = {"type": "array", "items": _COUNT}
        content = {"columns": columns, "variance": {"type": "number"}, "number": _COUNT}
        known[KNOWN] = _message(
            "What panels have published of columns of a job's people, before the job.",
            object_of({"type": {"const": KNOWN}, "id": job, **content}),
            key=job,
        )
    return {
        topics.GROUPS: {
            f"{table}Part": _part(kind, source, f"({part_names})", _BYTES),
            f"{table}Table": _manifest(kind, source, [typed(kind), object_of({"hash": _DIGEST})]),
        },
        topics.JOBS: {
            "job": _message(
                "A data set that a worker is to fit.",
                all_of(typed("job"), shared("Job"), shared("JobStudy")),
                key=job,
            ),
            "operatorWord": _message(
                "An operator has a job retried or abandoned.",
                object_of({"type": {"enum": ["retry", "abandon"]}, "id": job}),
                key=job,
            ),
            "interruption": _message(
                "The worker beside a releaser was killed; it goes on from the transcript.",
                object_of({"type": {"const": "interrupted"}, "id": job, **interruption}),
                key=job,
            ),
            **known,
        },
        topics.TRANSCRIPTS: {
            "lease": _message(
                "A worker takes or ends the lease of a job; only the holder's rounds count.",
                shared("Lease"),
                headers=object_of({LEASE: {"const": "1"}}),
            ),
            "round": _message(
                "A piece of a round of a job, decided before it is used.",
                headers=object_of({"stream-dp-chunk": {"pattern": "^[0-9a-f]+/[0-9]+/[0-9]+$"}}),
                key=matching("^.+/[0-9]+$"),
            ),
            "progress": _message(
                "How far a worker is with a job.",
                object_of(progress),
                headers=object_of({"stream-dp-progress": {"const": ""}}),
            ),
        },
        topics.RESULTS: {
            "resultPart": _message(
                "A part of a fitted data set.",
                content=_ARROW,
                headers=handed_in(matching("/[0-9]+$")),
                key=job,
            ),
            "result": _message(
                "The manifest that completes a result.",
                object_of(result),
                headers=handed_in({"const": "manifest"}),
                key=job,
            ),
            "failure": _message(
                "Why a job failed.",
                object_of({"attempt": _COUNT, "reason": {**_TEXT, "maxLength": 300}}),
                headers=object_of({"stream-dp-part": {"const": "failure"}}),
                key=job,
            ),
            "hold": _message(
                "A worker by itself begins a job, or lets go of it unfinished.",
                object_of({"type": {"enum": ["begun", "released"]}, **hold}),
                headers=object_of({"stream-dp-part": {"const": "hold"}}),
                key=job,
            ),
        },
    }


def _releases(study: Study, source: str, *, signed: bool, weighed: bool) -> Messages:
    """The public messages: the declaration, and a manifest and parts for each kind of release.

    signed: whether every manifest has a signature, and keys may change.
    weighed: whether there are weights of answers.
    """
    declaration = all_of(
        typed(STUDY_TYPE),
        object_of({"study": {"type": "object"}, "study_hash": _DIGEST, "code_version": _TEXT}),
    )
    public = {
        "studyPlan": {**_part(STUDY_TYPE, source, PLAN, _JSON), "payload": _plan()},
        "studyDeclaration": _manifest(STUDY_TYPE, source, [declaration], signed=signed),
    }
    if signed:
        named = object_of({"signer": _SIGNER, "study_hash": _DIGEST, "code_version": _TEXT})
        heads = [typed(KEY_TYPE), named]
        public["signingKey"] = _manifest(KEY_TYPE, source, heads, signed=True)
    if weighed:
        of_panels = object_of({"release": {"enum": [r.name for r in study.releases]}})
        dated = study.periods.release_time(1) is not None
        heads = [typed(WEIGHTS_TYPE), shared(WeightsStatement.__name__), of_panels]
        public["weightsPart"] = _part(WEIGHTS_TYPE, source, "(counts|errors)", _ARROW, dated=dated)
        public["weights"] = _manifest(WEIGHTS_TYPE, source, heads, dated=dated, signed=signed)
    declared = (*study.releases, *(study.batches or ()))
    for reader in dict.fromkeys(READERS.values()):
        name, kind = reader.name, reader.message_type
        certificate, part_names = reader.certificate.__name__, "|".join(reader.tables)
        releases = [release for release in declared if READERS[release.family] is reader]
        if not releases:
            continue
        stated = object_of(
            {
                "study": {"const": study.name},
                "release": {"enum": [release.name for release in releases]},
                "period": {"enum": list(study.periods.labels)},
                "unit": {"const": study.unit},
                "neighbours": {"const": study.neighbours},
            }
        )
        dated = study.periods.release_time(1) is not None
        heads = [typed(kind), shared(certificate), stated]
        public[f"{name}Part"] = _part(kind, source, f"({part_names})", _ARROW, dated=dated)
        public[f"{name}Release"] = _manifest(kind, source, heads, dated=dated, signed=signed)
    return public


def _plan() -> Schema:
    """By release, its plan."""
    words = "A plan of more than a part's length is the JSON of its parts, joined in order."
    return {
        "type": "object",
        "additionalProperties": shared(ReleasePlan.__name__),
        "description": words,
    }


def _part(kind: str, source: str, names: str, content: str, *, dated: bool = False) -> Schema:
    """A part of a message whose manifest follows. names: a pattern of the name before `/`."""
    headers = _event_headers(kind, source, content, matching(f"^{names}/[0-9]+$"), dated=dated)
    return _message(
        "A part of the message that the next manifest ends.", content=content, headers=headers
    )


def _manifest(
    kind: str, source: str, heads: list[Schema], *, dated: bool = False, signed: bool = False
) -> Schema:
    headers = _event_headers(kind, source, _JSON, {"const": "manifest"}, dated=dated)
    if signed:
        headers["required"].append(SIGNATURE)
        headers["properties"][SIGNATURE] = {"type": "string", "contentMediaType": _JSON}
    return _message(
        "The manifest that ends a message; its SHA-256 is the message's hash.",
        all_of(*heads, shared("Manifest")),
        headers=headers,
        key=matching("^[0-9]+(/.+)?$"),
    )


def _event_headers(
    kind: str, source: str, content: str, part_schema: Schema, *, dated: bool
) -> Schema:
    """The headers of the CloudEvents binding to Kafka. dated: whether to include ce_time."""
    time = {"ce_time": {"type": "string", "format": "date-time"}} if dated else {}
    return object_of(
        {
            "ce_specversion": {"const": "1.0"},
            "ce_type": {"const": kind},
            "ce_source": {"const": source},
            "ce_id": matching("^[0-9]+/"),
            "content-type": {"const": content},
            "stream-dp-part": part_schema,
            **time,
        }
    )


def _message(
    summary: str,
    payload: Schema | None = None,
    *,
    content: str | None = None,
    headers: Schema | None = None,
    key: Schema | None = None,
) -> Schema:
    """A message in AsyncAPI.

    payload: the schema; None for bytes.
    content: the media type; by default JSON with a payload, else bytes.
    """
    media = content or (_BYTES if payload is None else _JSON)
    bindings = None if key is None else {"kafka": {"key": key, "bindingVersion": "0.5.0"}}
    optional = {"headers": headers, "bindings": bindings}
    fields = {name: value for name, value in optional.items() if value is not None}
    return {"summary": summary, "contentType": media, "payload": payload or BINARY, **fields}
