"""A study file with its plan, its logs, its folder of snapshots and its secrets.

A confidential log is bound to its study by a record of the first writer. Before the first start of
the releaser a log belongs to a study of this name and this first period, whose file may still
change. From the first start on the terms of the study are fixed, too.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log import address, cache_folder, open_log, public_log
from stream_dp.log.log import Log, LogError, Missing, Record, following, stop_following
from stream_dp.log.message import canonical
from stream_dp.log.owned_files import mark_path, read_mark
from stream_dp.log.sealing import Keyring
from stream_dp.log.signing import SigningKey
from stream_dp.study import Run, Study
from stream_dp.study.topics import CLOCK, HEARTBEATS, REPORTS, STUDY, UNSEALED, topics
from stream_dp.studyfile import load_study

from ..process.access import read_token
from . import journal
from .atomic_files import protect
from .journal_checks import first_declared
from .restored_logs import ROLE, check_marked
from .study_register import StudyRegister, read_register

if TYPE_CHECKING:
    from stream_dp.client import PublicLog
    from stream_dp.release.public_reader import TableFilter

    from .snapshots import Snapshots
    from .witness import WitnessLog

Key = TypeVar("Key", SigningKey, Keyring)


@dataclass(frozen=True)
class Deployment:
    """A study file, read and checked. Its paths are relative to its folder."""

    study: Study
    run: Run
    path: Path

    @classmethod
    def load(cls, path: Path) -> Deployment:
        """Reads a study file. Raises UserError."""
        study, run = load_study(path)
        lines = []
        urls = {"log": run.log, "public": run.public}
        witness = {} if run.witness is None or _in_bucket(run.witness) else {"witness": run.witness}
        for key, url in (urls | witness).items():
            try:
                address(url)
            except UserError as error:
                bucket = ", or s3://BUCKET/OBJECT" if key == "witness" else ""
                lines += [f"{path}: run.{key}: {line}{bucket}" for line in error.lines]
        if run.listen is not None and run.listen_token is None:
            lines.append(
                f"{path}: run.listen: every user of a machine reaches it, and its /metrics count"
                " reports; name a file with a token, 16 characters or more: listen_token ="
                " \"FILE\"; 'openssl rand -hex 24 > FILE' makes one"
            )
        if lines:
            raise UserError(lines)
        if run.reports is not None:
            _check_reports(path, run)
        if run.log == run.public:
            raise UserError(
                f"{path}: run.public: is the same as run.log; analysts would read everything"
            )
        if run.witness in urls.values():
            raise UserError(
                f"{path}: run.witness: is the log that it is to watch; name a log elsewhere"
            )
        return cls(study, run, path)

    @property
    def base(self) -> Path:
        return self.path.parent

    @property
    def listen_token(self) -> str | None:
        """The token of the confidential listener; None without a listener. Raises UserError."""
        if self.run.listen is None or self.run.listen_token is None:
            return None
        return read_token(self.base / self.run.listen_token, "run.listen_token")

    @property
    def on_cluster(self) -> bool:
        """Whether the confidential log is on Kafka, where a releaser can fence another one."""
        return self.run.log.startswith("kafka:")

    def log(self, *, readonly: bool = False) -> Log:
        """The confidential log.

        Raises Inconsistent where its file is gone after a release, or where the log belongs to
        another study.
        """
        kind, _, name = self.run.log.partition(":")
        public = self.run.public.partition(":")[0]
        if kind == "sqlite" and not (self.base / name).exists():
            if public == "sqlite":
                self.check_unpublished()
            check_marked([], read_mark(mark_path(self.base / name, ROLE)))
        if kind == "sqlite":
            ends = ("", "-wal", "-shm", f".{ROLE}.mark")
            protect(self.base / f"{name}{end}" for end in ends)
        log = open_log(
            self.run.log,
            self.base,
            readonly=readonly,
            kafka=self.run.kafka,
            insecure=self.run.insecure,
            replication=self.run.replication,
            timed=(REPORTS, CLOCK, HEARTBEATS),
            latest=(HEARTBEATS,),
            kept={REPORTS: self.study.periods.longest},
            named={} if self.run.reports is None else {REPORTS: self.run.reports},
            unsealed=UNSEALED,
            keys=self.keys,
            study=self.study.name,
        )
        try:
            check_bound(log, self.study)
        except BaseException:
            log.close()
            raise
        return log

    @property
    def register(self) -> Path | None:
        """The declared register of studies."""
        return None if self.run.register is None else self.base / self.run.register

    def check_bound(self) -> None:
        """Checks that the study may write to the confidential log.

        Raises Inconsistent where the log belongs to another study, and UserError where the study
        has no place in the declared register.
        """
        register = None if self.register is None else read_register(self.register)
        try:
            with closing(self.log(readonly=True)) as log:
                if register is not None:
                    _check_beginning(register, self.study, log)
        except Missing:
            if register is not None:
                register.check_beginning(self.study, None)

    def check_unpublished(self) -> None:
        """Raises Inconsistent where something is published, although the journal is empty."""
        from .journal_checks import check_unpublished

        with suppress(Missing), closing(self.public(readonly=True)) as log:
            check_unpublished(log)

    def public(self, *, readonly: bool = False) -> Log:
        """The public log."""
        kafka = self.run.kafka if self.run.kafka_public is None else self.run.kafka_public
        return open_log(
            self.run.public,
            self.base,
            public=True,
            readonly=readonly,
            kafka=kafka,
            insecure=self.run.insecure,
            replication=self.run.replication,
        )

    def witness(self, *, readonly: bool = False) -> WitnessLog | None:
        """The witness's log; None if undeclared. It is small and may be on a network's disk."""
        if self.run.witness is None:
            return None
        if _in_bucket(self.run.witness):
            from .witness import WitnessObject

            return WitnessObject(self.run.witness)
        kafka = self.run.kafka if self.run.kafka_witness is None else self.run.kafka_witness
        return open_log(
            self.run.witness,
            self.base,
            public=True,  # a rollback journal, which other machines' disks allow
            readonly=readonly,
            kafka=kafka,
            insecure=self.run.insecure,
            replication=self.run.replication,
        )

    def signing_key(self, name: Literal["signing", "signing_before"]) -> SigningKey | None:
        """The key that `[run]` names; None if undeclared.

        Raises UserError.
        """
        declared = self.run.signing if name == "signing" else self.run.signing_before
        return self._key(f"run.{name}", declared, SigningKey.of_pem)

    @cached_property
    def keys(self) -> Keyring | None:
        """The keys that encrypt the confidential log; None if undeclared. Raises UserError."""
        return self._key("run.encryption", self.run.encryption, Keyring.of_text)

    def _key(
        self, name: str, declared: Mapping[Any, str] | None, parse: Callable[[str], Key]
    ) -> Key | None:
        """Reads a declared key, and closes its file to others. Raises UserError."""
        if declared is None:
            return None
        text = secret_text(name, declared, self.base)
        try:
            key = parse(text)
        except UserError as error:
            raise UserError(f"{name}: {line}" for line in error.lines) from None
        protect(self.base / path for kind, path in declared.items() if kind == "file")
        return key

    @property
    def public_place(self) -> tuple[str, Path]:
        """The address of the public log, and the base of a relative path in the address."""
        return self.run.public, self.base

    @property
    def snapshots_place(self) -> str:
        """The folder of snapshots, relative to `base`, or its URL."""
        return self.run.snapshots or f"{self.study.name}-snapshots"

    @property
    def snapshots(self) -> Snapshots:
        from .snapshots import Snapshots

        return Snapshots(self.snapshots_place, self.base, keys=self.keys)


def _in_bucket(url: str) -> bool:
    """Whether the URL of a witness names an object in a bucket."""
    return re.fullmatch(r"s3://[^/\s]+/[^\s]*[^/\s]", url) is not None


def _check_reports(path: Path, run: Run) -> None:
    """Raises UserError if the reports have no topic of their own on Kafka."""
    prefixes = [address(url)[1] for url in (run.log, run.public)]
    if prefixes[0] is None:
        raise UserError(
            f"{path}: run.reports: names a topic on Kafka, but run.log is a file; remove the key"
        )
    sides = topics(1, batches=True, scheduled=True, parts=True, estimates=True)
    taken = {
        f"{prefix}.{topic}"
        for prefix, names in zip(prefixes, sides, strict=True)
        for topic in names
        if prefix is not None and topic != REPORTS
    }
    if run.reports in taken:
        raise UserError(
            f"{path}: run.reports: {run.reports} is a topic that this study writes; name the topic"
            " of the reports"
        )


def _check_beginning(register: StudyRegister, study: Study, log: Log) -> None:
    """Raises UserError for a study without a place in the register, and Missing."""
    try:
        genesis = journal.genesis_hash(log)
    except Missing:
        raise
    except LogError:  # a sender may not read the journal
        register.check(study)
    else:
        register.check_beginning(study, genesis)


def open_public(
    source: str, keep: TableFilter | None = None
) -> tuple[PublicLog, Deployment | None]:
    """Opens a public log, with the deployment of a study file.

    source: a study file, or a public log such as sqlite:FILE.
    keep: which tables to read, all of them by default.

    Raises UserError.
    """
    from stream_dp.client import PublicLog  # who writes to a log need not wait for its imports
    from stream_dp.release.public_reader import keep_all

    if Path(source).suffix in {".db", ".sqlite"} and ":" not in source:
        raise UserError(f"{source}: name a public log as sqlite:{source}")
    is_log = ":" in source and not Path(source).exists()
    deployment = None if is_log else Deployment.load(Path(source))
    try:
        with closing(
            public_log(source) if deployment is None else deployment.public(readonly=True)
        ) as log:
            url, base = (source, Path()) if deployment is None else deployment.public_place
            return PublicLog(log, keep or keep_all, cache=cache_folder(url, base)), deployment
    except Missing as error:
        raise UserError(f"public log: {error}: nothing is published there yet") from None


def open_pinned(
    options: argparse.Namespace, keep: TableFilter | None = None
) -> tuple[PublicLog, Deployment | None]:
    """Opens the log of `public_source`, which must have the pins; see `open_public`."""
    public, deployment = open_public(options.source, keep)
    public.require(key=options.key, head=options.head)
    return public, deployment


class Binding(msgspec.Struct, frozen=True):
    """The study of a log.

    study: the name of the study.
    first: the label of its first period.
    terms: the hash of the study without its description and curator.
    begun: whether the releaser has begun the study, so that its terms are fixed.
    """

    study: str
    first: str
    terms: str
    begun: bool

    @classmethod
    def of(cls, study: Study, *, begun: bool = False) -> Binding:
        return cls(study.name, study.periods.labels[0], study.terms_hash, begun)

    @property
    def words(self) -> str:
        return f"'{self.study}' with the first period {self.first} (terms {self.terms[:12]})"


def bound_to(log: Log) -> Binding | None:
    """The study of a log, or None for an empty log.

    The first record of a begun study counts, otherwise the first record.
    """
    first_binding: Binding | None = None
    with suppress(Missing):
        positions = dict(log.describe(STUDY).first)
        for record in following(log, STUDY, positions):
            with suppress(msgspec.MsgspecError):
                binding = msgspec.json.decode(record.value or b"", type=Binding)
                if first_binding is None or (binding.begun and not first_binding.begun):
                    first_binding = binding
        stop_following(log, STUDY)
    return first_binding


def check_bound(log: Log, study: Study) -> Binding | None:
    """The study of a log, or None for an empty log.

    Raises Inconsistent if the log belongs to another study.
    """
    bound, declared = bound_to(log), Binding.of(study)
    if bound is None:
        return None
    if (bound.study, bound.first) != (declared.study, declared.first):
        raise Inconsistent(
            f"log: it belongs to the study {bound.words}, and this study file declares"
            f" {declared.words}; nothing was written; name another log in [run], or take the study"
            " file of this one"
        )
    if bound.begun and bound.terms != declared.terms:
        with suppress(LogError):  # the keys that have changed, if the journal can be read
            for entry in journal.read_heads(log)[:1]:
                first_declared(entry, study)
        raise Inconsistent(
            f"study: it has changed since its first record (terms {bound.terms[:12]}, now"
            f" {declared.terms[:12]}); restore the study file, or start a new study with a new log"
        )
    return bound


def bind(log: Log, study: Study, *, begun: bool = False) -> None:
    """Binds a log to a study before anything else is written to it.

    begun: whether the terms of the study are fixed from now on.

    Raises Inconsistent where the log belongs to another study, or another writer was first.
    """
    bound = check_bound(log, study)
    if bound is None or (begun and not bound.begun):
        log.create({STUDY: 1})
        value = canonical(msgspec.to_builtins(Binding.of(study, begun=begun)))
        log.append([Record(STUDY, value, partition=0)])
        check_bound(log, study)


_COMMAND_TIMEOUT = 60.0  # seconds for a command


def secret_text(key: str, declared: Mapping[Any, str], base: Path) -> str:
    """Reads the text of a secret, without surrounding blanks.

    key: the key of the study file, for messages.
    declared: `file`, `env` or `command` with its value.
    base: the folder for relative paths, and the working folder of the command.

    Raises UserError without any part of the secret.
    """
    if len(declared) != 1:
        raise UserError(f"{key}: name one place")
    ((kind, name),) = declared.items()
    if kind == "env":
        if name not in os.environ:
            raise UserError(f"{key}: environment variable {name} is not set")
        return os.environ[name].strip()
    if kind == "file":
        try:
            return (base / name).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise UserError(f"{key}: {base / name} cannot be read") from None
    try:
        finished = subprocess.run(
            shlex.split(name),
            cwd=base,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_COMMAND_TIMEOUT,
            check=True,
        )
        return finished.stdout.decode().strip()
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        raise UserError(f"{key}: the command does not print it: {name}") from None
