"""The study of a confidential log: a record of the first writer.

Before the first start of the releaser a log belongs to a study of this name and this first period,
whose file may still change. From the first start on the terms of the study are fixed, too.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from stream_dp.errors import Inconsistent
from stream_dp.log.following import following, stop_following
from stream_dp.log.log import Log, LogError, Missing, Record
from stream_dp.log.message import canonical
from stream_dp.study import Study
from stream_dp.study.topics import STUDY

from . import journal
from .journal_checks import first_declared


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
