"""Signed statements of audits: what an operator's audit has shown.

A statement names the study, the code, the pair of people and the seed of the noise. So anybody with
the study file can repeat the audit to the digit.

A statement is an in-toto attestation in a DSSE envelope, as the signatures of messages are. Its
subject is the study's terms: the declaration without the description. It is a file of its own,
beside the public log: an audit may follow the first release, and the declaration may not change.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import msgspec

from stream_dp.errors import Inconsistent, UserError
from stream_dp.log.signing import attested_statement, in_toto
from stream_dp.study import Study

SUBJECT = "audit"
_MOST_BYTES = 1 << 16  # of a file
_Number = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
_Answers = tuple[Annotated[int, msgspec.Meta(ge=0)], ...]
_Word = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]


class AuditStatement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of an audit.

    release, kind: of the audited release; None for all releases of the study together.
    audited: what was audited, in words.
    rho_lower_bound: if the assumption holds; rho_lower_bound_counted without it.
    runs: in each of two worlds.
    pair: the answers of the two neighbours, as numbers of the options of the audited cells; None
        for nobody.
    people: the number of people with these answers.
    seed: of the noise; None for noise from the system's entropy, which cannot be repeated.
    code_sha256: of the installed sources of stream-dp.
    """

    study: _Word
    release: _Word | None
    kind: _Word | None
    audited: _Word
    rho_declared: _Number
    rho_lower_bound: _Number
    rho_lower_bound_counted: _Number
    confidence: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    assumption: _Word
    runs: Annotated[int, msgspec.Meta(ge=1)]
    violation: bool
    pair: tuple[_Answers, _Answers | None]
    people: Annotated[int, msgspec.Meta(ge=1)]
    seed: Annotated[int, msgspec.Meta(ge=0)] | None
    code_version: _Word
    code_sha256: _Word

    def payload(self, study: Study) -> bytes:
        """The bytes that are signed."""
        return in_toto(SUBJECT, study.terms_hash, msgspec.to_builtins(self))

    @property
    def words(self) -> str:
        """The statement in words, for people who read releases."""
        name = "all releases" if self.release is None else self.release
        if self.violation:
            return (
                f"The operator states that an audit of {name} found a violation: rho is"
                f" above the declared {self.rho_declared:.6g}."
            )
        return (
            f"The operator states that an audit of {name} ({self.audited}) showed rho to be"
            f" at least {self.rho_lower_bound:.3g}, with {self.runs:,} runs at"
            f" {100 * self.confidence:g} % confidence. The declared rho is {self.rho_declared:.6g}."
        )


def read_audit_statement(path: Path, study: Study, keys: list[str]) -> AuditStatement:
    """Reads the file of a signed statement.

    keys: the public keys of the public log.

    Raises UserError for a file that cannot be read, Inconsistent for a statement that none of the
    keys signed, or that is about another study.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode()
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{path}: it cannot be read; name a file of audit --statement") from None
    payload = attested_statement(keys, text.strip())
    if payload is None:
        signer = (
            "this log is not signed" if not keys else f"no key of this log signed it: {keys[0]}"
        )
        raise Inconsistent(f"{path}: {signer}; sign it with the key of the study")
    try:
        statement = msgspec.json.decode(payload, type=_InToto).predicate
    except msgspec.MsgspecError:
        raise Inconsistent(f"{path}: is no statement of an audit; write it with audit") from None
    if payload != statement.payload(study):
        raise Inconsistent(f"{path}: is a statement about another study, or about other terms")
    release = None if statement.release is None else study.declared(statement.release)
    if statement.release is not None and release is None:
        raise Inconsistent(f"{path}: the study declares no such release")
    if statement.kind != (None if release is None else release.kind):
        raise Inconsistent(f"{path}: the study declares no such release")
    return statement


def repeatable_statement(path: Path, study: Study) -> AuditStatement:
    """Reads a statement with a valid signature of whatever key it names, and with a seed.

    Raises UserError or Inconsistent for another file.
    """
    try:
        key = json.loads(path.read_text())["signatures"][0]["keyid"]
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        raise UserError(f"{path}: it cannot be read; name a file of audit --statement") from None
    statement = read_audit_statement(path, study, [str(key)])
    if statement.seed is None:
        raise Inconsistent(f"{path}: the statement names no seed, so it cannot be repeated")
    return statement


class _InToto(msgspec.Struct):
    predicate: AuditStatement
