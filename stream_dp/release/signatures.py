"""The signatures of the messages of a public log, and signed statements of audits.

Message 0 names the key of all messages, itself included; a message of the type KEY_TYPE, signed
with the key so far, names the next. A log whose first message names no key is not signed.

A statement says what an operator's audit has shown. It names the study, the code, the pair of
people and the seed of the noise. So anybody with the study file can repeat the audit to the digit.
It is an in-toto attestation in a DSSE envelope, as the signatures of messages are. Its subject is
the study's terms: the declaration without the description. It is a file of its own, beside the
public log: an audit may follow the first release, and the declaration may not change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import msgspec

from stream_dp.errors import Inconsistent, UserError, missing_extra
from stream_dp.log.message import Message
from stream_dp.log.signing import attested_statement, can_check, in_toto, is_key, is_signed
from stream_dp.study import Study

from .certificate import refusal

KEY_TYPE = "stream-dp.key"


class Signatures:
    """Checks messages in order, from the first on.

    keys: the public keys that messages named, in order; none in a log that is not signed.
    signed: how many messages have the signature of their key.
    """

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.signed = 0
        self._checks = can_check()

    def check(self, message: Message) -> bool:
        """Checks the next message; returns whether the message only names a key.

        Raises Inconsistent for a wrong signature, or a key that is none; UserError if nothing
        here can check signatures.
        """
        names_key = message.index > 0 and message.head.get("type") == KEY_TYPE
        named = message.head.get("signer") if message.index == 0 or names_key else None
        if (named is not None and not is_key(named)) or (names_key and message.parts):
            raise refusal(message, "names a key of an unknown kind")
        if message.index == 0 and named is not None:
            self.keys.append(named)
        if names_key and (named is None or not self.keys):
            raise refusal(message, "names a key in a log that is not signed")
        if self.keys:
            if not self._checks:
                fault = f"public log: it is signed by {self.keys[0]}, and nothing here can check"
                raise missing_extra(f"{fault} signatures", "trust")
            if not is_signed(self.keys[-1], message.manifest, message.signature):
                raise refusal(message, f"has no signature of {self.keys[-1]}")
            self.signed += 1
        if names_key:
            self.keys.append(str(named))
        return names_key

    def line(self) -> str:
        """The checked signatures, in a line."""
        if not self.keys:
            return "signatures: none; this log is not signed"
        later = f", and {len(self.keys) - 1} that followed it" if self.keys[1:] else ""
        return f"signatures: {self.signed} messages, by {self.keys[0]}, named in message 0{later}"

    def require(self, key: str) -> None:
        """Raises UserError, Inconsistent unless the log is signed and begins with this key."""
        if not is_key(key):
            raise UserError(f"--key {key}: write ed25519: and 64 hexadecimal digits")
        if self.keys[:1] != [key]:
            first = self.keys[0] if self.keys else "no key"
            raise Inconsistent(f"public log: message 0 names {first}, not the key kept elsewhere")


def is_hash(text: object) -> bool:
    """Whether a text is a hash in the form of messages."""
    return isinstance(text, str) and re.fullmatch("[0-9a-f]{64}", text) is not None


def require_head(head: str, hashes: Collection[str]) -> None:
    """Checks that a separately kept hash is among the hashes of the messages.

    Raises UserError for a text that is no hash; Inconsistent.
    """
    if not is_hash(head):
        raise UserError("head: write the 64 hexadecimal digits of a hash")
    if head not in hashes:
        raise Inconsistent(
            "public log: the hash kept elsewhere is not in its chain: an older log was restored,"
            " or it is another study's; 'stream-dp verify STUDY.toml --head HASH' says whether the"
            " journal has the hash, which is no fault"
        )


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
