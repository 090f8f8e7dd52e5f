"""How ids are compared: the declared rule under which several spellings are one person."""

from __future__ import annotations

import unicodedata
from typing import Literal

from .numbers import Declaration, Flag

_ROUNDS = 8  # of normalization at most; ids that still change after them keep the last form


class Ids(Declaration):
    """Which spellings of an id are one person. Without a rule every spelling is a person."""

    trim: Flag = None
    """`true`: blanks at both ends do not count."""
    case: Literal["fold"] | None = None
    """`"fold"`: capital and small letters are the same, by Unicode's case folding (so 'ß' is
    'ss')."""
    unicode: Literal["NFC", "NFKC"] | None = None
    """The normal form (Unicode Standard Annex 15) of accents and, for NFKC, of compatible
    characters."""

    def normal(self, text: str) -> str:
        """The normal form that all spellings of an id share; the normal form of itself."""
        # Case folding can undo a normal form, and a normal form can end in blanks: repeat.
        for _ in range(_ROUNDS):
            before, text = text, self._rewritten(text)
            if text == before or (self.unicode is None and self.case is None):
                break
        return text

    def _rewritten(self, text: str) -> str:
        """The text after each part of the rule, once."""
        if self.unicode is not None and not text.isascii():
            text = unicodedata.normalize(self.unicode, text)
        if self.case is not None:
            text = text.casefold()
        if self.unicode is not None and not text.isascii():
            text = unicodedata.normalize(self.unicode, text)
        return text.strip() if self.trim else text
