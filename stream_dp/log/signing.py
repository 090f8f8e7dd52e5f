"""Signatures of messages: Ed25519 (RFC 8032) over the bytes of a manifest.

A manifest has the hashes of its parts and of the preceding message, so its signature holds for
all of them. Ed25519 needs no randomness: the same key gives the same bytes. Needs cryptography.
"""

from __future__ import annotations

import base64
import binascii
import importlib.util
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stream_dp.errors import UserError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_KEY = re.compile(r"ed25519:([0-9a-f]{64})")


def can_check() -> bool:
    """Tells whether the package for checking signatures is installed."""
    return importlib.util.find_spec("cryptography") is not None


def require_package() -> None:
    """Raises UserError with the name of the extra if the package is not installed."""
    if not can_check():
        raise UserError("signatures: cryptography is not installed; pip install 'stream-dp[trust]'")


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
        """The public key as messages name it."""
        return f"ed25519:{self._private.public_key().public_bytes_raw().hex()}"

    def sign(self, data: bytes) -> str:
        """Signs data. Returns the signature in base64."""
        return base64.b64encode(self._private.sign(data)).decode()


def is_signed(key: str, data: bytes, signature: str) -> bool:
    """Tells whether a signature in base64 over the data was made with this public key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    match = _KEY.fullmatch(key)
    if match is None:
        return False
    try:
        raw = base64.b64decode(signature, validate=True)
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(match[1])).verify(raw, data)
    except (InvalidSignature, ValueError, binascii.Error):
        return False
    return True
