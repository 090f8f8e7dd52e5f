"""The declared rule for comparing the spellings of ids."""

from __future__ import annotations

import unicodedata
from typing import Literal

from .field_types import Declaration, Flag

_ROUNDS = 8  # of normalization at most; ids that still change after them keep the last form


class Ids(Declaration):
    """The rule for comparing ids. Without a rule every spelling is a different person."""

    trim: Flag = None
    """`true`: blanks at both ends do not count."""
    case: Literal["fold"] | None = None
    """`"fold"`: capital and small letters are the same, by Unicode's case folding (so 'ß' is
    'ss')."""
    unicode: Literal["NFC", "NFKC"] | None = None
    """The normal form (Unicode Standard Annex 15) of accents and, for NFKC, of compatible
    characters."""

    def normal(self, text: str) -> str:
        """The normal form of an id, shared by all spellings of the id. Idempotent."""
        # Case folding can undo a normal form, and a normal form can end in blanks: repeat.
        for _ in range(_ROUNDS):
            previous, text = text, self._rewritten(text)
            if text == previous or (self.unicode is None and self.case is None):
                break
        return text

    def _rewritten(self, text: str) -> str:
        """Applies every step of the rule once."""
        if self.unicode is not None and not text.isascii():
            text = unicodedata.normalize(self.unicode, text)
        if self.case is not None:
            text = text.casefold()
        if self.unicode is not None and not text.isascii():
            text = unicodedata.normalize(self.unicode, text)
        return text.strip() if self.trim else text
