"""Manifests: the files of all parts at a cut, with their counts and their joint accounting.

A manifest is a file beside the parts' files. A journal entry names it instead of the population's
snapshot.
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
from stream_dp.population.accounting import CellCounts
from stream_dp.population.population import Population
from stream_dp.population.population_parts import Counts, join_populations
from stream_dp.population.report_decoding import ReadAs
from stream_dp.population.split import Part
from stream_dp.study import Study
from stream_dp.study.period_gate import GATE

from ..storage.sealed_files import InvalidSeal
from ..storage.snapshots import Snapshots
from .job_families import JOB_FAMILIES
from .job_records import SnapshotFile
from .journal import Entry
from .orders import Order

KIND, SUFFIX = "part", ".json"  # of the files of parts, and of their manifests
CELLS = "cells"  # the kind of files of cells that are on their way to parts


class PartFile(msgspec.Struct, frozen=True):
    """The file of a part's population. people: the number of people in it."""

    name: str
    sha256: str
    people: int


class Manifest(msgspec.Struct, frozen=True, dict=True):
    """The result of closing a period in parts, or of counting people for its gate.

    order: the id of the order.
    parts: in their order; none for a gate.
    counted: by release, the true counts, see `encoded_counts`. For a gate, the number of people by
        the name of the gate's charges.
    accounting: of all cells since the study began.
    records: the number of reports for the period.
    read_as: how the reports were read; None for plain reports.
    jobs: by data set and table, the files of the inputs of jobs that the close begins.
    """

    order: str
    number: int
    parts: list[PartFile]
    counted: dict[str, bytes]
    accounting: CellCounts
    records: int
    read_as: ReadAs | None = None
    jobs: dict[str, dict[str, SnapshotFile]] = {}

    @cached_property
    def counts(self) -> dict[str, NDArray[np.int64]]:
        """By release, the counts for its mechanism, to be read after the noise is drawn."""
        return {n: np.frombuffer(d, "<i8").astype(np.int64) for n, d in self.counted.items()}

    @property
    def files(self) -> list[str]:
        """The names of the files of all parts and of the inputs of data sets."""
        inputs = [file.name for tables in self.jobs.values() for file in tables.values()]
        return [*(part_file.name for part_file in self.parts), *inputs]

    @property
    def people(self) -> int:
        return sum(part_file.people for part_file in self.parts)

    def answers(self, order: Order, study: Study, lengths: Mapping[str, int]) -> bool:
        """Whether this is an answer to an order, without a look at the counts.

        lengths: by release, bytes of its counts.
        """
        due = study.due(order.number) if order.letters else ()
        return (
            (self.order, self.number) == (order.id, order.number)
            and len(self.parts) == (0 if order.gate else order.parts)
            and {name: len(data) for name, data in self.counted.items()}
            == ({GATE: 8} if order.gate else lengths)
            and self._reads_as(order)
            and {name: set(files) for name, files in self.jobs.items()}
            == {release.name: {*JOB_FAMILIES[release.family].tables} for release in due}
        )

    def _reads_as(self, order: Order) -> bool:
        """Whether the reports were read with the ordered mapping."""
        if order.read_as is None or self.read_as is None:
            return order.read_as == self.read_as
        return order.read_as.mapping == self.read_as.mapping

    def save(self, file: BinaryIO) -> None:
        fields = msgspec.to_builtins(self, str_keys=True)
        file.write(msgspec.json.encode(fields, order="sorted"))


def gate_manifest(order: Order, people: int, records: int, read_as: ReadAs | None) -> Manifest:
    """The answer to the order of a gate. people: whom the gate counts."""
    counted = encoded_counts({GATE: np.array([people], np.int64)})
    return Manifest(order.id, order.number, [], counted, order.accounting, records, read_as)


def encoded_counts(counts: Counts) -> dict[str, bytes]:
    """Counts by release as little-endian 64-bit integers."""
    return {name: array.astype("<i8").tobytes() for name, array in counts.items()}


def write_manifest(snapshots: Snapshots, manifest: Manifest) -> SnapshotFile:
    """Writes a manifest, durable on return."""
    label = f"period-{manifest.number:05d}"
    return SnapshotFile(*snapshots.store(label, SUFFIX, manifest.save))


def read_manifest(snapshots: Snapshots, name: str, digest: str) -> Manifest | None:
    """Reads a manifest. Raises Inconsistent.

    Returns None if the file is gone, or is damaged and set aside.
    """
    with snapshots.intact(name, digest) as file:
        if file is None:
            return None
        try:
            return msgspec.json.decode(file.read(), type=Manifest)
        except msgspec.MsgspecError:
            raise Inconsistent(f"snapshot {name}: no manifest that this version reads") from None


def read_part(study: Study, snapshots: Snapshots, file: PartFile, part: Part) -> Population | None:
    """Reads the population of a part.

    Returns None if its file is gone, or is damaged and set aside.
    """
    with snapshots.intact(file.name, file.sha256) as opened:
        return None if opened is None else Population.load(study, opened, part)


def read_population(
    study: Study, snapshots: Snapshots, name: str, digest: str
) -> Population | None:
    """Reads the population of everybody, from its snapshot or from all of its parts.

    Returns None if a file is gone, or is damaged and set aside. Raises Inconsistent.
    """
    if not name.endswith(SUFFIX):
        with snapshots.intact(name, digest) as file:
            return None if file is None else Population.load(study, file)
    manifest = read_manifest(snapshots, name, digest)
    if manifest is None:
        return None
    populations: list[Population] = []
    for index, listed in enumerate(manifest.parts):
        population = read_part(study, snapshots, listed, Part(index, len(manifest.parts)))
        if population is None:
            return None
        populations.append(population)
    return join_populations(study, populations, manifest.accounting)


def keep_files(snapshots: Snapshots, names: Iterable[str], upto: int) -> None:
    """Keeps these snapshots of the population, with the parts of manifests; removes the rest.

    Files of cells go, too: no closed period needs them.

    upto: the last closed period; files of the open period may belong to a close under way.
    """
    names, part_names = set(names), set[str]()
    for name in names:
        with snapshots.at(name) as file:
            if file is not None and name.endswith(SUFFIX):
                # A damaged manifest is of no use, and neither are its parts.
                with suppress(msgspec.MsgspecError, InvalidSeal):
                    manifest = msgspec.json.decode(file.read(), type=Manifest)
                    part_names |= {part_file.name for part_file in manifest.parts}
    snapshots.keep(names, upto=upto)
    snapshots.keep(part_names, KIND, upto)
    snapshots.keep(set(), CELLS, upto)


def newest_files(closes: Sequence[Entry], snapshots: Snapshots) -> Entry:
    """Finds the newest close with a complete snapshot; the genesis entry without it."""
    complete = (e for e in reversed(closes[1:]) if is_complete(snapshots, *e.snapshot))
    return next(complete, closes[0])


def is_complete(snapshots: Snapshots, name: str, digest: str) -> bool:
    """Tells whether a snapshot is there, with all parts of a manifest. Raises Inconsistent."""
    if not snapshots.holds(name):
        return False
    if not name.endswith(SUFFIX):
        return True
    manifest = read_manifest(snapshots, name, digest)
    return manifest is not None and all(snapshots.holds(part.name) for part in manifest.parts)
