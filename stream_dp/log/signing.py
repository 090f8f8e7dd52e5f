"""Signatures of messages: in-toto attestations, signed with Ed25519 (RFC 8032) in a DSSE envelope.

The statement names the SHA-256 of a manifest, which has the hashes of its parts and of the
preceding message: so the signature holds for all of them. Ed25519 needs no randomness: the same key
gives the same bytes. Needs cryptography. Sources: in-toto Attestation Framework, Statement v1;
DSSE v1, https://github.com/secure-systems-lab/dsse.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import importlib.util
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stream_dp.errors import UserError, missing_extra
from stream_dp.json_object import Json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_KEY = re.compile(r"ed25519:([0-9a-f]{64})")
_PAYLOAD = "application/vnd.in-toto+json"


def can_check() -> bool:
    """Tells whether the package for checking signatures is installed."""
    return importlib.util.find_spec("cryptography") is not None


def require_package() -> None:
    """Raises UserError with the name of the extra if the package is not installed."""
    if not can_check():
        raise missing_extra("signatures: cryptography is not installed", "trust")


def is_key(name: object) -> bool:
    """Tells whether a name is a public key in messages: `ed25519:` and 64 hexadecimal digits."""
    return isinstance(name, str) and _KEY.fullmatch(name) is not None


@dataclass(frozen=True)
class SigningKey:
    """A private key."""

    _private: Ed25519PrivateKey

    @classmethod
    def of_pem(cls, text: str) -> SigningKey:
        """Reads a key in PEM, the format of `openssl genpkey -algorithm ed25519`.

        Raises UserError.
        """
        require_package()
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            private = load_pem_private_key(text.encode(), None)
        except Exception:  # its message may quote the text
            private = None
        if not isinstance(private, Ed25519PrivateKey):
            raise UserError(
                "not an Ed25519 private key in PEM without a password; make one with openssl"
                " genpkey -algorithm ed25519"
            )
        return cls(private)

    @property
    def public(self) -> str:
        """The public key in the encoding of messages."""
        return f"ed25519:{self._private.public_key().public_bytes_raw().hex()}"

    def sign(self, manifest: bytes) -> str:
        """Attests a manifest. Returns the DSSE envelope in JSON."""
        return self.attest(statement(manifest))

    def attest(self, payload: bytes) -> str:
        """Signs a statement of `in_toto`. Returns the DSSE envelope in JSON."""
        return _envelope(payload, self.public, self._private.sign(_encoded(payload)))


def statement(manifest: bytes) -> bytes:
    """The in-toto statement about a manifest."""
    return in_toto("manifest", hashlib.sha256(manifest).hexdigest(), {})


def in_toto(subject: str, digest: str, predicate: Json) -> bytes:
    """The in-toto statement about a subject with this SHA-256."""
    return _json(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": subject, "digest": {"sha256": digest}}],
            "predicateType": f"urn:stream-dp:{subject}:v1",
            "predicate": predicate,
        }
    )


def _encoded(payload: bytes) -> bytes:
    """The bytes under the signature: DSSE's pre-authentication encoding."""
    return b"DSSEv1 %d %b %d %b" % (len(_PAYLOAD), _PAYLOAD.encode(), len(payload), payload)


def _envelope(payload: bytes, key: str, signature: bytes) -> str:
    text = base64.b64encode(payload).decode()
    signed = {"keyid": key, "sig": base64.b64encode(signature).decode()}
    return _json({"payload": text, "payloadType": _PAYLOAD, "signatures": [signed]}).decode()


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def is_signed(key: str, manifest: bytes, envelope: str) -> bool:
    """Tells whether an envelope is the attestation of the manifest with this public key."""
    return is_attested(key, statement(manifest), envelope)


def attested_statement(keys: Iterable[str], envelope: str) -> bytes | None:
    """The statement in an envelope, or None without a signature of one of the public keys."""
    try:
        payload = base64.b64decode(json.loads(envelope)["payload"], validate=True)
    except (ValueError, TypeError, LookupError, RecursionError, binascii.Error):
        return None
    return payload if any(is_attested(key, payload, envelope) for key in keys) else None


def is_attested(key: str, payload: bytes, envelope: str) -> bool:
    """Tells whether an envelope is that of a statement, signed with this public key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    match = _KEY.fullmatch(key)
    if match is None:
        return False
    try:
        raw = base64.b64decode(json.loads(envelope)["signatures"][0]["sig"], validate=True)
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(match[1])).verify(raw, _encoded(payload))
    except (InvalidSignature, ValueError, TypeError, LookupError, RecursionError, binascii.Error):
        return False
    return envelope == _envelope(payload, key, raw)
