"""Manifests: the files of all parts at a cut, with their counts and the accounting together.

A manifest is a file beside those of the parts; its name and hash stand where a journal entry names
the population's snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_dp.errors import Inconsistent
from stream_dp.population import CellCounts, Population
from stream_dp.population.parts import Counts, joined
from stream_dp.population.reports import ReadAs
from stream_dp.population.split import Part
from stream_dp.study import Study

from ..jobs.records import SnapshotFile
from ..journal import Entry
from ..sealed_files import NotSealedSo
from ..snapshots import Snapshots

KIND, SUFFIX = "part", ".json"  # of the files of parts, and of their manifests
CELLS = "cells"  # the kind of files of cells that are on their way to parts


class PartFile(msgspec.Struct, frozen=True):
    """The population of a part. people: who have a place in it."""

    name: str
    sha256: str
    people: int


class Manifest(msgspec.Struct, frozen=True, dict=True):
    """What closing a period in parts gives.

    order: the id of the order that it answers.
    parts: in their order.
    counted: by release, its true counts as little-endian 64-bit integers.
    accounting: of all cells since the study began.
    records: how many reports were read for the period.
    read_as: how they were read; None for plain reports.
    jobs: by data set that the close begins and by table, the files of its input.
    """

    order: str
    number: int
    parts: list[PartFile]
    counted: dict[str, bytes]
    accounting: CellCounts
    records: int
    read_as: ReadAs | None = None
    jobs: dict[str, dict[str, SnapshotFile]] = {}

    @classmethod
    def of(
        cls,
        order: str,
        number: int,
        parts: Sequence[PartFile],
        counts: Counts,
        accounting: CellCounts,
        records: int,
        read_as: ReadAs | None = None,
        jobs: Mapping[str, dict[str, SnapshotFile]] | None = None,
    ) -> Manifest:
        return cls(
            order=order,
            number=number,
            parts=list(parts),
            counted={name: array.astype("<i8").tobytes() for name, array in counts.items()},
            accounting=accounting,
            records=records,
            read_as=read_as,
            jobs=dict(jobs or {}),
        )

    @cached_property
    def counts(self) -> dict[str, NDArray[np.int64]]:
        """By release, the counts that its mechanism measures; read once the noise is drawn."""
        return {n: np.frombuffer(d, "<i8").astype(np.int64) for n, d in self.counted.items()}

    @property
    def files(self) -> list[str]:
        """The names of the files of all parts and of the inputs of data sets."""
        inputs = [file.name for tables in self.jobs.values() for file in tables.values()]
        return [*(part.name for part in self.parts), *inputs]

    @property
    def people(self) -> int:
        return sum(part.people for part in self.parts)

    def save(self, file: BinaryIO) -> None:
        fields = msgspec.to_builtins(self, str_keys=True)
        file.write(msgspec.json.encode(fields, order="sorted"))


def write_manifest(snapshots: Snapshots, manifest: Manifest) -> SnapshotFile:
    """Writes a manifest, which is durable when this returns."""
    what = f"period-{manifest.number:05d}"
    return SnapshotFile(*snapshots.store(what, SUFFIX, manifest.save))


def read_manifest(snapshots: Snapshots, name: str, digest: str) -> Manifest | None:
    """A manifest; None where it is gone, or is damaged and set aside. Raises Inconsistent."""
    with snapshots.intact(name, digest) as file:
        if file is None:
            return None
        try:
            return msgspec.json.decode(file.read(), type=Manifest)
        except msgspec.MsgspecError:
            raise Inconsistent(f"snapshot {name}: no manifest that this version reads") from None


def read_part(study: Study, snapshots: Snapshots, file: PartFile, part: Part) -> Population | None:
    """The population of a part; None where its file is gone, or is damaged and set aside."""
    with snapshots.intact(file.name, file.sha256) as opened:
        return None if opened is None else Population.load(study, opened, part)


def read_population(
    study: Study, snapshots: Snapshots, name: str, digest: str
) -> Population | None:
    """The population of everybody, from its snapshot or from all of its parts.

    None where one of the files is gone, or is damaged and set aside. Raises Inconsistent.
    """
    if not name.endswith(SUFFIX):
        with snapshots.intact(name, digest) as file:
            return None if file is None else Population.load(study, file)
    manifest = read_manifest(snapshots, name, digest)
    if manifest is None:
        return None
    parts: list[Population] = []
    for index, listed in enumerate(manifest.parts):
        part = read_part(study, snapshots, listed, Part(index, len(manifest.parts)))
        if part is None:
            return None
        parts.append(part)
    return joined(study, parts, manifest.accounting)


def keep_files(snapshots: Snapshots, names: Iterable[str], upto: int) -> None:
    """Keeps these snapshots of the population, with the parts of manifests; removes the others.

    Files of cells go, too: no closed period needs them.

    upto: the last closed period; files of the open one may be of a close that is under way.
    """
    names, parts = set(names), set[str]()
    for name in names:
        with snapshots.at(name) as file:
            if file is not None and name.endswith(SUFFIX):
                # A damaged one is of no use, and neither are its parts.
                with suppress(msgspec.MsgspecError, NotSealedSo):
                    manifest = msgspec.json.decode(file.read(), type=Manifest)
                    parts |= {part.name for part in manifest.parts}
    snapshots.keep(names, upto=upto)
    snapshots.keep(parts, KIND, upto)
    snapshots.keep(set(), CELLS, upto)


def newest_files(closes: Sequence[Entry], snapshots: Snapshots) -> Entry:
    """The newest close whose snapshot, with all of its parts, is there; genesis without one."""
    for entry in reversed(closes[1:]):
        name, digest = entry.snapshot
        if not snapshots.holds(name):
            continue
        if name.endswith(SUFFIX):
            manifest = read_manifest(snapshots, name, digest)
            if manifest is None or not all(snapshots.holds(part.name) for part in manifest.parts):
                continue
        return entry
    return closes[0]
