"""The signatures of the messages of a public log.

Message 0 names the key of all messages, itself included; a message of the type KEY_TYPE, signed
with the key so far, names the next. A log whose first message names no key is not signed.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from stream_dp.errors import Inconsistent, UserError, missing_extra
from stream_dp.log.message import Message
from stream_dp.log.signing import can_check, is_key, is_signed

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
