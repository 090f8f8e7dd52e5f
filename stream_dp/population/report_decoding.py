"""Decodes reports, the answers of a person for a period, in batches into columns of cells.

A report is JSON, `{"person": "p1", "period": "2021-01", "values": {"poverty": 1}}`; `null` clears
a value. Unusable content is rejected for one of a few reasons, which never quote the report.

A keyed hash of the id stands for a person in every stored state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent
from stream_dp.log.log import Stored, memory_bytes
from stream_dp.log.records import Records, binary_array, string_bounds
from stream_dp.study import Study
from stream_dp.study.id_forms import text_of_number

from .cells import EMPTY, Cells, Reason, RejectedRecord
from .compiled_decoding import compiled_decoding
from .id_index import LONGEST, Fingerprints, KeptHashes
from .report_judging import (
    LONGEST_ID,
    NOT_SAID,
    REFUSED,
    Judge,
    JudgedReport,
    plain_text,
    whole_number,
    whole_refusal,
)
from .shapes.record_contents import ReadAs

_FEW = 16  # fewer ids are hashed without a look-up, which would take longer


class Hasher:
    """Keyed BLAKE2b (RFC 7693) of 128 bits. key: secret."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._fingerprints, self._kept = Fingerprints(key), KeptHashes()

    def hashes(self, ids: pa.Array) -> NDArray[np.uint64]:
        """Returns the two halves of the hash of every id, (n, 2).

        ids: an array of `large_binary` without nulls.
        """
        if len(ids) < _FEW:
            return self._computed(ids.to_pylist())
        from pyarrow import compute as pc  # takes long, and most commands read no ids

        keepable = pc.less_equal(pc.binary_length(ids), LONGEST)
        if pc.all(keepable).as_py():
            return self._looked_up(ids)
        hashes, keep = np.empty((len(ids), 2), np.uint64), keepable.to_numpy(zero_copy_only=False)
        hashes[keep] = self._looked_up(ids.filter(keepable))
        hashes[~keep] = self._computed(ids.filter(pc.invert(keepable)).to_pylist())
        return hashes

    def _looked_up(self, ids: pa.Array) -> NDArray[np.uint64]:
        """Returns hashes like `hashes`, for ids of at most LONGEST bytes."""
        keys = self._fingerprints.of(ids)
        hashes, unknown = self._kept.find(keys)
        if unknown.size:
            new = self._computed(ids.take(pa.array(unknown)).to_pylist())
            hashes[unknown] = new
            self._kept.add(keys[unknown], new)
        return hashes

    def _computed(self, ids: Sequence[bytes]) -> NDArray[np.uint64]:
        start = hashlib.blake2b(key=self._key, digest_size=16).copy
        digests = []
        for person_id in ids:
            state = start()
            state.update(person_id)
            digests.append(state.digest())
        return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64).reshape(-1, 2)


CHANGED_INPUT = (
    "run.input: it has changed since a period was closed that has to be read again, for its"
    " snapshot is gone; restore the [run.input] of then, or the snapshot"
)

_SHARED = 4  # reports a template, in the mean: with fewer, templates gain nothing
LARGEST_REPORT = 64_000  # bytes of its key, value and headers, as `memory_bytes` counts them


@dataclass(frozen=True)
class Templates:
    """The common content of several reports beside the id, a column per template.

    period: the period's number, 0 for a period outside of the study.
    code: by attribute, the code of its value, NOT_SAID or REFUSED.
    """

    period: NDArray[np.int64]
    code: NDArray[np.signedinteger]

    def accepted(self, closed: int) -> NDArray[np.bool_]:
        """Marks templates with at least one cell and with only accepted cells.

        closed: the last closed period.
        """
        answered = (self.code != REFUSED).all(axis=0) & (self.code != NOT_SAID).any(axis=0)
        accepted: NDArray[np.bool_] = answered & (self.period > closed)
        return accepted


class Decoder:
    """Decodes the reports of a study. key: the secret key of the hashes of ids."""

    def __init__(self, study: Study, key: bytes) -> None:
        self._hasher = Hasher(key)
        self._judge = Judge(study)
        self._compiled = compiled_decoding(self._judge, key, self.hashes(self._judge.nobodies))
        cell = str | int | None | msgspec.UnsetType
        values = msgspec.defstruct(
            "Values",
            [(f"a{i}", cell, msgspec.UNSET) for i in range(len(study.attributes))],
            rename={f"a{i}": name for i, name in enumerate(study.attributes)},
            forbid_unknown_fields=True,
            gc=False,
        )
        report = msgspec.defstruct(
            "Report",
            [("person", str | int), ("period", str | int), ("values", values)],
            gc=False,
        )
        self._decode = msgspec.json.Decoder(report).decode

    def ids(self, persons: Sequence[str]) -> Sequence[str]:
        """Normalises ids by the study's rule, which merges several spellings of an id."""
        return self._judge.ids(persons)

    def hashes(self, ids: Sequence[str]) -> NDArray[np.uint64]:
        """Returns the two halves of the 128-bit keyed BLAKE2b hash of every id, (n, 2)."""
        return self._hasher.hashes(binary_array([person.encode() for person in ids]))

    def decode(self, records: Sequence[Stored], closed: int) -> tuple[Cells, list[RejectedRecord]]:
        """Decodes records into cells and rejected records.

        closed: the last closed period; cells for it or an earlier period are late.
        """
        columns = Records.of(records)
        sized = sized_records(columns)
        if self._compiled is None:
            return self._decode_uncompiled(columns, sized, closed)
        cells, decoded = self._compiled.decode(columns, sized, closed)
        if decoded.all():
            return cells, []
        rows = np.flatnonzero(~decoded).tolist()
        rest = columns if len(rows) == len(columns) else columns.take(rows)
        others, rejected = self._decode_uncompiled(rest, sized[rows], closed)
        return Cells.joined([cells, others]), [
            RejectedRecord(rows[row], reasons) for row, reasons in rejected
        ]

    def _decode_uncompiled(
        self, columns: Records, sized: NDArray[np.bool_], closed: int
    ) -> tuple[Cells, list[RejectedRecord]]:
        """Decodes records like `decode`. sized: the result of `sized_records`."""
        cells, usable = self._decode_by_template(columns, sized, closed)
        undecoded = np.ones(len(columns), bool)
        undecoded[usable] = False
        if not undecoded.any():
            return cells, []
        typed, rejected = self._decode_by_record(
            columns, sized, np.flatnonzero(undecoded).tolist(), closed
        )
        return Cells.joined([cells, typed]), rejected

    def _decode_by_template(
        self, records: Records, sized: NDArray[np.bool_], closed: int
    ) -> tuple[Cells, NDArray[np.int64]]:
        """Decodes reports that share templates, if all of their cells are accepted.

        sized: which records have a value, and are not too large.

        Returns the cells, and the rows of the records.
        """
        record_rows, values = np.flatnonzero(sized), records.values
        if record_rows.size < _SHARED:
            return EMPTY, np.zeros(0, np.int64)
        from .templates import divide  # takes long, and most commands read no reports

        if record_rows.size < len(values):
            texts = list(map(values.objects().__getitem__, record_rows.tolist()))
            divided = divide(binary_array(texts))
        else:
            divided = divide(values.array())
        count = len(divided.templates)
        if _SHARED * count > divided.rows.size:
            return EMPTY, np.zeros(0, np.int64)
        period = np.zeros(count, np.int64)
        code = np.full((len(self._judge.names), count), REFUSED, self._judge.code_type)
        for number, template in enumerate(divided.templates):
            if (read := self._template(*template)) is not None:
                period[number], code[:, number] = read
        ids = self._judge.id_column(divided.ids)
        lengths = np.diff(string_bounds(ids))
        templates, rows = Templates(period, code), record_rows[divided.rows]
        accepted = templates.accepted(closed)[divided.template]
        accepted &= (lengths > 0) & (lengths <= LONGEST_ID)
        if not accepted.all():
            ids = ids.filter(pa.array(accepted))
        rows = rows[accepted]
        cells = self.cells_of_templates(templates, divided.template[accepted], ids, records, rows)
        return cells, rows

    def cells_of_templates(
        self,
        templates: Templates,
        template: NDArray[np.int64],
        ids: pa.Array,
        records: Records,
        rows: NDArray[np.int64],
    ) -> Cells:
        """Returns the cells of accepted reports, each a template with an id.

        template: by report, the number of its template.
        ids: by report, the id as bytes, an array of `large_binary`.
        rows: by report, the row of its record.
        """
        hashes, codes = self._hasher.hashes(ids), templates.code[:, template]
        attribute, row_of = np.nonzero(codes != NOT_SAID)
        return Cells(
            hi=hashes[row_of, 0],
            lo=hashes[row_of, 1],
            period=templates.period.astype(np.uint16)[template[row_of]],
            attribute=attribute.astype(np.uint16),
            code=codes[attribute, row_of],
            partition=np.array(records.partitions, np.uint16)[rows[row_of]],
            offset=np.array(records.offsets, np.int64)[rows[row_of]],
        )

    def _template(self, head: bytes, tail: bytes) -> tuple[int, list[int]] | None:
        """Decodes the bytes before and after the id of reports: the period and the codes.

        Returns None unless two probes in place of the id come back as the id.
        """
        try:
            reports: list[Any] = [self._decode(head + probe + tail) for probe in (b"x", b"y")]
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None
        if [report.person for report in reports] != ["x", "y"]:
            return None
        report = reports[0]
        find = enumerate(self._judge.find)
        codes = [find_code(getattr(report.values, f"a{i}"), REFUSED) for i, find_code in find]
        return self._judge.period(report.period), codes

    def _decode_by_record(
        self, records: Records, sized: NDArray[np.bool_], rows: list[int], closed: int
    ) -> tuple[Cells, list[RejectedRecord]]:
        """Decodes the records in these rows, record by record; see `decode`."""
        reports: list[Any] = []
        report_rows: list[int] = []
        irregular: list[int] = []
        decode, values, usable = self._decode, records.values.objects(), sized.tolist()
        for row in rows:
            try:
                if usable[row]:
                    reports.append(decode(values[row]))  # type: ignore[arg-type]
                    report_rows.append(row)
                    continue
            except (msgspec.DecodeError, ValueError, RecursionError):
                pass
            irregular.append(row)
        cells, rejected = self._typed(reports, report_rows, records, closed)
        decoded = [cells]
        for row in irregular:
            judged = self._irregular(values[row] or b"", closed) if usable[row] else None
            if judged is None:
                rejected.append(RejectedRecord(row, {"unreadable": 1}))
                continue
            if judged.codes:
                place = records.partitions[row], records.offsets[row]
                decoded.append(self.cells_of_report(judged, *place))
            if judged.reasons:
                rejected.append(RejectedRecord(row, dict(judged.reasons)))
        return Cells.joined(decoded), rejected

    def close_period(self) -> ReadAs | None:
        """Returns how records were read since the last close; None for plain reports."""
        return None

    @property
    def unknown(self) -> frozenset[int]:
        """The unknown schema ids that records named since the last close."""
        return frozenset()

    def repeat(self, read_as: ReadAs | None) -> None:
        """Decodes from now on in the way of a closed period. Raises Inconsistent."""
        if read_as is not None:
            raise Inconsistent(CHANGED_INPUT)

    def go_on(self, periods: Sequence[ReadAs | None]) -> None:
        """Decodes from now on the input after these closed periods. Raises Inconsistent."""

    def _typed(
        self, reports: list[Any], report_rows: list[int], records: Records, closed: int
    ) -> tuple[Cells, list[RejectedRecord]]:
        """Decodes reports with declared attributes and plain values, column by column."""
        count = len(reports)
        persons = self.ids(
            [r.person if r.person.__class__ is str else plain_text(r.person) or "" for r in reports]
        )
        number = self._judge.period
        period = np.fromiter((number(r.period) for r in reports), np.int64, count)
        sound = np.fromiter((0 < len(p) <= LONGEST_ID for p in persons), bool, count)
        kind = self._judge.code_type
        code = np.empty((len(self._judge.names), count), kind)
        for i, find in enumerate(self._judge.find):
            name = f"a{i}"
            code[i] = np.fromiter(
                (find(getattr(r.values, name), REFUSED) for r in reports), kind, count
            )
        present = code != NOT_SAID
        usable = sound & (period > closed) & present.any(axis=0)
        refused = (code == REFUSED) & usable
        good = usable & ~refused & present
        reasons_by_row = self._faults(reports, refused)
        rows = np.flatnonzero(~usable)
        outlines = sound[rows].tolist(), period[rows].tolist(), present[:, rows].sum(0).tolist()
        for row, is_sound, number_of_period, told in zip(rows.tolist(), *outlines, strict=True):
            reasons = whole_refusal(is_sound, number_of_period, closed, told)
            assert reasons is not None
            reasons_by_row[row] = reasons
        rejected = [
            RejectedRecord(report_rows[row], reasons)
            for row, reasons in sorted(reasons_by_row.items())
        ]
        hashes = self.hashes(persons)
        partition = np.fromiter(map(records.partitions.__getitem__, report_rows), np.uint16, count)
        offset = np.fromiter(map(records.offsets.__getitem__, report_rows), np.int64, count)
        attribute, row_of = np.nonzero(good)
        cells = Cells(
            hi=hashes[row_of, 0],
            lo=hashes[row_of, 1],
            period=period[row_of].astype(np.uint16),
            attribute=attribute.astype(np.uint16),
            code=code[attribute, row_of],
            partition=partition[row_of],
            offset=offset[row_of],
        )
        return cells, rejected

    def _faults(
        self, reports: list[Any], refused: NDArray[np.bool_]
    ) -> dict[int, dict[Reason, int]]:
        """Counts the refused values of reports by reason. refused: by attribute and report."""
        reasons_by_row = dict[int, dict[Reason, int]]()
        for index, refused_rows in enumerate(refused):
            name, known = f"a{index}", dict[object, Reason]()
            for row in np.flatnonzero(refused_rows).tolist():
                value = getattr(reports[row].values, name)
                if (reason := known.get(value)) is None:
                    reason = known[value] = self._judge.fault(index, value)
                reasons = reasons_by_row.setdefault(row, {})
                reasons[reason] = reasons.get(reason, 0) + 1
        return reasons_by_row

    def _irregular(self, record_value: bytes, closed: int) -> JudgedReport | None:
        """Judges a report refused by the typed decoder; None if unreadable."""
        try:
            report = msgspec.json.decode(record_value)
            person, period, values = report["person"], report["period"], report["values"]
        except (msgspec.DecodeError, TypeError, KeyError, ValueError, RecursionError):
            return None
        if not isinstance(values, dict):
            return None
        values = {name: whole_number(value) for name, value in values.items()}
        if isinstance(person, float):
            person = _id_number(person, record_value)
        return self._judge.report(person, whole_number(period), values, closed)

    def cells_of_report(self, judged: JudgedReport, partition: int, offset: int) -> Cells:
        """Returns the accepted cells of a report, whose record has this position."""
        if not judged.codes:
            return EMPTY
        n = len(judged.codes)
        hashes = np.repeat(self.hashes([judged.person]), n, axis=0)
        return Cells(
            hi=hashes[:, 0],
            lo=hashes[:, 1],
            period=np.full(n, judged.period, np.uint16),
            attribute=np.array([a for a, _ in judged.codes], np.uint16),
            code=np.array([c for _, c in judged.codes], self._judge.code_type),
            partition=np.full(n, partition, np.uint16),
            offset=np.full(n, offset, np.int64),
        )


def sized_records(records: Records) -> NDArray[np.bool_]:
    """Marks records with a value, readable headers, and at most LARGEST_REPORT bytes."""
    headers, sizes = records.headers, records.values.lengths() + records.keys.lengths()
    sized: NDArray[np.bool_] = sizes <= LARGEST_REPORT
    sized[records.empty()] = False
    shared = headers[0] if headers else ()
    if shared is not None and headers.count(shared) == len(headers):
        return sized & (sizes + memory_bytes(None, None, shared) <= LARGEST_REPORT)
    if headers.count(()) < len(records):
        for row in [row for row, several in enumerate(headers) if several != ()]:
            several = headers[row]
            sized[row] &= several is not None and (
                int(sizes[row]) + memory_bytes(None, None, several) <= LARGEST_REPORT
            )
    return sized


def _id_number(number: float, report: bytes) -> object:
    """Returns whole numbers and numbers with an exponent as text, and fractions unchanged."""
    token = bytes(msgspec.json.decode(report, type=dict[str, msgspec.Raw])["person"]).decode()
    text = text_of_number(token)
    return text if number.is_integer() or text != token else number


DecoderMaker = Callable[[Study, bytes], Decoder]
