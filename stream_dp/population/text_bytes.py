"""The bytes of a column of texts, read without a look at every text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def text_bytes(texts: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of all texts in UTF-8, one text behind the other, and the bounds of the texts.

    texts: (n,) strings; a null has no bytes that count.

    Returns (bytes,) and (n + 1,) bounds, of which the first is 0.
    """
    _, bounds, content = texts.buffers()
    if content is None or not len(texts):
        return np.zeros(0, np.uint8), np.zeros(len(texts) + 1, np.int64)
    ends = np.frombuffer(bounds, np.int32, len(texts) + 1, 4 * texts.offset).astype(np.int64)
    data = np.frombuffer(content, np.uint8, int(ends[-1] - ends[0]), int(ends[0]))
    return data, ends - ends[0]


def has_byte(texts: pa.Array, among: NDArray[np.bool_]) -> bool:
    """Whether any text contains a byte of the set. among: (256,) by byte."""
    return bool(among[text_bytes(texts)[0]].any())


def bytes_of(text: str, *, beyond_ascii: bool = False) -> NDArray[np.bool_]:
    """Marks the bytes of a text's characters, (256,). beyond_ascii: those of all others, too."""
    marked = np.zeros(256, bool)
    marked[list(text.encode())] = True
    marked[128:] |= beyond_ascii
    return marked
