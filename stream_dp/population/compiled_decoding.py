"""Decodes usual reports by the compiled reader, where it is installed.

The decoder of `report_decoding.py` is the definition. Every report that is not usual is left to it,
such as a report with an escape, a repeated key, an undeclared attribute or a value without a code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp.compiled import compiled_reader
from stream_dp.log.records import Records

from .cells import CLEARED, EMPTY, Cells
from .report_judging import Judge


class CompiledDecoding:
    """Decodes usual reports of a study.

    kind: the compiled decoder's class.
    nobodies: (n, 2) the hashes of ids of no person.
    """

    def __init__(self, kind: Any, judge: Judge, key: bytes, nobodies: NDArray[np.uint64]) -> None:
        attributes = []
        for name, attribute in zip(judge.names, judge.attributes, strict=True):
            scale = attribute.number
            numbers = None if scale is None else (scale.least, scale.most, scale.step)
            cleared = dict.fromkeys((None, *attribute.no_answers), CLEARED)
            attributes.append((name, _by_token({**attribute.codes, **cleared}), numbers))
        self._code_type = judge.code_type
        wide = np.dtype(self._code_type).itemsize > 2
        periods = _by_token(judge.period_numbers)
        self._decoder = kind(key, attributes, periods, judge.ascii_ids, wide)
        self._nobodies = nobodies

    def decode(
        self, records: Records, usable: NDArray[np.bool_], closed: int
    ) -> tuple[Cells, NDArray[np.bool_]]:
        """Decodes usual reports with accepted cells only.

        usable: which records have a value, and are not too large.
        closed: the last closed period.

        Returns their cells by partition, record and attribute, and which records were decoded.
        """
        if not (count := len(records)):
            return EMPTY, np.zeros(0, np.bool_)
        _, bounds, content = records.values.array().buffers()
        hi, lo, period, attribute, code, partition, offset, decoded = self._decoder.decode(
            np.frombuffer(content or b"", np.uint8),
            np.frombuffer(bounds, np.int64, count + 1),
            usable.view(np.uint8),
            np.frombuffer(records.partitions, np.int64, count),
            np.frombuffer(records.offsets, np.int64, count),
            closed,
        )
        cells = Cells(
            hi=np.frombuffer(hi, np.uint64),
            lo=np.frombuffer(lo, np.uint64),
            period=np.frombuffer(period, np.uint16),
            attribute=np.frombuffer(attribute, np.uint16),
            code=np.frombuffer(code, self._code_type),
            partition=np.frombuffer(partition, np.uint16),
            offset=np.frombuffer(offset, np.int64),
        )
        return self._without_nobody(cells, np.frombuffer(decoded, np.bool_), records)

    def _without_nobody(
        self, cells: Cells, decoded: NDArray[np.bool_], records: Records
    ) -> tuple[Cells, NDArray[np.bool_]]:
        """Leaves records with an id of nobody undecoded. The compiled decoder knows no such id."""
        if not len(self._nobodies):
            return cells, decoded
        of_nobody = np.isin(cells.hi, self._nobodies[:, 0])
        if not of_nobody.any():
            return cells, decoded
        places = set(
            zip(cells.partition[of_nobody].tolist(), cells.offset[of_nobody].tolist(), strict=True)
        )
        theirs = [
            place in places for place in zip(records.partitions, records.offsets, strict=True)
        ]  # further ids may share half of a hash: the other decoder tells
        return cells.take(np.flatnonzero(~of_nobody)), decoded & ~np.array(theirs)


def _by_token(numbers: Mapping[Any, int]) -> dict[bytes, int]:
    """Returns numbers by the JSON of their keys, texts and whole numbers.

    JSON with an escape is never compared: the compiled decoder leaves reports with escapes.
    """
    return {msgspec.json.encode(key): number for key, number in numbers.items()}


def compiled_decoding(
    judge: Judge, key: bytes, nobodies: NDArray[np.uint64]
) -> CompiledDecoding | None:
    """Makes the decoding of a study; None without the compiled reader.

    key: the secret key of the hashes of ids. nobodies: (n, 2) the hashes of ids of no person.
    """
    reader = compiled_reader()
    return None if reader is None else CompiledDecoding(reader.Decoder, judge, key, nobodies)
