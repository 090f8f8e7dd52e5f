"""How ids are compared: a declared rule by which several spellings are one person."""

from __future__ import annotations

import unicodedata
from typing import Literal

from .declared import Declared, Flag

_ROUNDS = 8


class Ids(Declared):
    """The rule of a study. trim: without blanks at both ends; case: 'fold' takes capital and small
    letters for the same, by Unicode's case folding (so 'ß' is 'ss'); unicode: the normal form
    (Unicode Standard Annex 15) of accents and, for NFKC, of compatible characters."""

    trim: Flag = None
    case: Literal["fold"] | None = None
    unicode: Literal["NFC", "NFKC"] | None = None

    def normal(self, text: str) -> str:
        """The id that stands for all spellings of it; its own normal form."""
        # Folding may undo a normal form and a normal form may bring blanks to an end.
        for _ in range(_ROUNDS):
            before, text = text, self._once(text)
            if text == before or (self.unicode is None and self.case is None):
                break
        return text

    def _once(self, text: str) -> str:
        if self.unicode is not None and not text.isascii():
            text = unicodedata.normalize(self.unicode, text)
        if self.case is not None:
            text = text.casefold()
        if self.unicode is not None and not text.isascii():
            text = unicodedata.normalize(self.unicode, text)
        return text.strip() if self.trim else text
