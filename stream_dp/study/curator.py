"""The declared curator: the publisher of a study's releases, and the conditions of use."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, StringConstraints

from .field_types import Declaration, matching

_ADDRESS = r"https?://[^\s<>\"'`\\]+"
_MAIL = r"[^\s<>\"'`\\@:/?&]+@[^\s<>\"'`\\@:/?&]+"
_SPDX = r"[A-Za-z0-9][A-Za-z0-9.+-]*"

Line = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=1000),
    AfterValidator(matching(r"[^\x00-\x1f\x7f\u2028\u2029]*", "must be a single line of text")),
]
Contact = Annotated[
    str,
    StringConstraints(max_length=300),
    AfterValidator(matching(f"{_MAIL}|{_ADDRESS}", "must be a mail address, or https://...")),
]
Licence = Annotated[
    str,
    StringConstraints(max_length=300),
    AfterValidator(
        matching(f"{_SPDX}|{_ADDRESS}", "must be an SPDX id such as CC-BY-4.0, or https://...")
    ),
]


class Curator(Declaration):
    """The publisher of the releases, for metadata."""

    name: Line
    """The organisation that publishes the releases."""
    contact: Contact | None = None
    """A mail address, or the address of a page, for questions about the releases."""
    licence: Licence | None = None
    """The licence of the releases: an SPDX id such as `"CC-BY-4.0"`, or the address of its text."""
    intended_use: Line | None = None
    """What the releases are meant for, in a sentence."""
    region: Line | None = None
    """The region that the releases describe, such as a country."""
