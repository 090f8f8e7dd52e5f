"""Records encrypted at rest with AES-256-GCM (NIST SP 800-38D), by the package `cryptography`.

A sealed record has one header and one value: the key's id, a nonce, and the encrypted key, value
and headers of the record. A context, such as the record's offset, is authenticated with it: a
record that was moved does not open.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from stream_dp.errors import UserError, missing_extra
from stream_dp.privacy.noise import system_entropy

from .log import Headers, LogError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_ID = 8  # bytes
NO_KEY = "is encrypted; declare in run.encryption where its key is"
_NONCE, _NAME = 12, 16
_HEX_KEY = re.compile(r"[0-9a-fA-F]{64}")
_MOST_KEYS = 100
_Content = tuple[bytes | None, bytes | None, Headers | None]
_DECODER = msgspec.msgpack.Decoder(
    tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
)


@dataclass(frozen=True)
class Keyring:
    """AES-256 keys: the first encrypts, all decrypt. keys: of 32 bytes."""

    keys: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"Keyring({len(self.keys)} keys)"

    @classmethod
    def of_text(cls, text: str) -> Keyring:
        """Reads the keys of a text with a key a line, in 64 hexadecimal digits.

        Raises UserError, which quotes nothing, also if `cryptography` is not installed.
        """
        try:
            import cryptography.hazmat.primitives.ciphers.aead  # noqa: F401
        except ImportError:
            raise missing_extra("cryptography: not installed", "trust") from None
        lines = text.split()
        if not 0 < len(lines) <= _MOST_KEYS or not all(map(_HEX_KEY.fullmatch, lines)):
            raise UserError(
                "not a key in 64 hexadecimal digits, or several, a line each; make one with openssl"
                " rand -hex 32"
            )
        return cls(tuple(bytes.fromhex(line) for line in lines))

    @cached_property
    def ids(self) -> tuple[bytes, ...]:
        """The id of every key: KEY_ID bytes derived from the key."""
        return tuple(derived_key(key, b"stream-dp key id", b"")[:KEY_ID] for key in self.keys)

    def key(self, key_id: bytes) -> bytes | None:
        """Returns the key with this id.

        Returns None if the keyring does not have it.
        """
        return dict(zip(self.ids, self.keys, strict=True)).get(key_id)


def derived_key(key: bytes, purpose: bytes, salt: bytes) -> bytes:
    """Derives a key of 32 bytes for a purpose, by HKDF with SHA-256 (RFC 5869)."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=purpose).derive(key)


class RecordSeal:
    """Seals records of a log and opens them.

    keys: the ring of all of its records.
    purpose: of the keys that encrypt, such as the identity of the log.
    """

    def __init__(self, keys: Keyring, purpose: str) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._id = keys.ids[0]
        self._names = derived_key(keys.keys[0], b"stream-dp keys of records", b"")
        self._ciphers: dict[bytes, AESGCM] = {
            key_id: AESGCM(derived_key(key, b"stream-dp records " + purpose.encode(), b""))
            for key_id, key in zip(keys.ids, keys.keys, strict=True)
        }

    def seal(self, key: bytes | None, value: bytes | None, headers: Headers, context: str) -> bytes:
        """Encrypts a record and returns the value of the sealed record.

        context: authenticated with the content, such as the record's offset.
        """
        nonce = system_entropy(_NONCE)
        content = msgspec.msgpack.encode((key, value, headers))
        return self._id + nonce + self._ciphers[self._id].encrypt(nonce, content, context.encode())

    def key_of(self, key: bytes | None) -> bytes | None:
        """Pseudonymises a record's key. Equal keys stay equal and choose the same partition."""
        return None if key is None else hmac.digest(self._names, key, "sha256")[:_NAME]

    def open(self, sealed: bytes | None, context: str, label: str) -> _Content:
        """Decrypts the key, value and headers of a sealed record.

        context: the context of `seal`.
        label: the record's name in error messages.

        Unreadable headers are None. Raises LogError if the record was not sealed with this context
        and a key of the ring.
        """
        from cryptography.exceptions import InvalidTag

        data = sealed or b""
        cipher = self._ciphers.get(data[:KEY_ID])
        if cipher is None:
            raise LogError(f"{label}: is encrypted with a key that run.encryption does not have")
        nonce = data[KEY_ID : KEY_ID + _NONCE]
        try:
            content: Any = cipher.decrypt(nonce, data[KEY_ID + _NONCE :], context.encode())
            key, value, headers = _DECODER.decode(content)
        except (InvalidTag, ValueError):
            raise LogError(f"{label}: is not what was written there; restore a backup") from None
        return key, value, tuple([(name, content or b"") for name, content in headers])
