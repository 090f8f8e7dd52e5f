"""The register of all studies of a population, with the sum of their costs for its people.

A file of lines, each a JSON object with the hash of the line before: the first declares the
population and the most rho, the others are studies and their beginnings. Zero-concentrated
differential privacy adds up over studies of one unit under one relation of neighbours, so a
register has one of each.

A study that was added costs its rho once, and so does its first beginning. A study that begins
again, with new logs, draws new noise for the same people: each further beginning costs its rho
again. A beginning is named by the hash of its journal's first entry, which stands in the register
before anything is drawn. So a beginning that was interrupted is not counted twice.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stream_dp.errors import Inconsistent, UserError, write_error
from stream_dp.log.message import START, canonical
from stream_dp.study import Study
from stream_dp.study.families import Neighbours
from stream_dp.study.field_types import Name, Rho

# Words in one line.
Words = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]
_MOST_BYTES = 1 << 26  # of a file


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    previous: str


class Registered(_Line):
    """The first line: a population.

    population: in words.
    unit, neighbours: of every study.
    rho: the most that all studies may cost together.
    """

    population: Words
    unit: Words
    neighbours: Neighbours
    rho: Rho


class RegisteredStudy(_Line):
    """A study, or a beginning of it.

    terms: the hash of its declaration without the description and the curator.
    genesis: the hash of the first entry of the journal; None for a study that is only added.
    """

    study: Name
    terms: str
    rho: Rho
    genesis: str | None = None


@dataclass(frozen=True)
class StudyCost:
    """What a study costs. begun: the number of its beginnings. rho: of all of them together."""

    study: str
    begun: int
    rho: Fraction


@dataclass(frozen=True)
class StudyRegister:
    """A register as it was read. head: the hash of the last line."""

    path: Path
    population: Registered
    lines: tuple[RegisteredStudy, ...]
    head: str

    @property
    def studies(self) -> tuple[StudyCost, ...]:
        """The costs of the studies, in the order of their first lines."""
        costs = dict[str, StudyCost]()
        for line in self.lines:
            begun = len(self.beginnings(line.terms))
            costs.setdefault(line.terms, StudyCost(line.study, begun, line.rho * max(1, begun)))
        return tuple(costs.values())

    @property
    def spent(self) -> Fraction:
        """The rho of all studies together."""
        return sum((study.rho for study in self.studies), Fraction(0))

    def has(self, study: Study) -> bool:
        return study.terms_hash in {line.terms for line in self.lines}

    def beginnings(self, terms: str) -> frozenset[str]:
        """The beginnings of a study, by the hashes of their journals' first entries."""
        return frozenset(x.genesis for x in self.lines if x.terms == terms and x.genesis)

    def check(self, study: Study) -> None:
        """Raises UserError unless the study is in the register, or fits in it."""
        self._require(study, Fraction(0) if self.has(study) else study.rho)

    def check_beginning(self, study: Study, genesis: str | None) -> None:
        """Raises UserError unless a beginning is in the register, or fits in it.

        genesis: the hash of the journal's first entry; None before the study begins.
        """
        begun = self.beginnings(study.terms_hash)
        if not begun:
            self.check(study)
        elif genesis not in begun:
            self._require(study, study.rho, again=True)

    def _require(self, study: Study, rho: Fraction, *, again: bool = False) -> None:
        """Raises UserError unless a further rho of a study fits."""
        declared = self.population
        for name, of_study, of_register in (
            ("unit", study.unit, declared.unit),
            ("neighbours", study.neighbours, declared.neighbours),
        ):
            if of_study != of_register:
                raise UserError(
                    f"register {self.path}: {name} of study {study.name} is '{of_study}', the"
                    f" register's is '{of_register}'; costs under different ones do not add up"
                )
        remaining = declared.rho - self.spent
        if rho > remaining and again:
            raise UserError(
                f"register {self.path}: study {study.name} has begun before, so that beginning"
                f" again costs its people a further rho {rho}, but {remaining} of {declared.rho} is"
                f" left for {declared.population}; go on with the logs of the first beginning"
            )
        if rho > remaining:
            raise UserError(
                f"register {self.path}: study {study.name} asks for rho {study.rho}, but"
                f" {remaining} of {declared.rho} is left for {declared.population}; lower it"
            )


def read_register(path: Path, head: str | None = None) -> StudyRegister:
    """Reads a register. Raises UserError without one; Inconsistent for damage.

    head: the hash of a line that was kept elsewhere; None for any.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES)
    except OSError as error:
        raise UserError(f"register {path}: cannot be read ({error.strerror})") from None
    first, *entries = data.splitlines(keepends=True) or [b""]
    hashes = [START, *(hashlib.sha256(line).hexdigest() for line in (first, *entries))]
    try:
        population = Registered.model_validate(_parsed(first))
        studies = tuple(RegisteredStudy.model_validate(_parsed(line)) for line in entries)
    except (ValidationError, ValueError, RecursionError):
        raise Inconsistent(f"register {path}: has a line that is damaged; restore it") from None
    chain = [population.previous, *(study.previous for study in studies)]
    if chain != hashes[:-1]:
        raise Inconsistent(f"register {path}: a line was changed (broken hash chain); restore it")
    if head is not None and head not in hashes[1:]:
        raise Inconsistent(f"register {path}: the head kept elsewhere is not in it; restore it")
    return StudyRegister(path, population, studies, hashes[-1])


def _parsed(line: bytes) -> Any:
    if not line.endswith(b"\n"):
        raise ValueError("half a line")
    return json.loads(line)


def begin_register(path: Path, population: Registered) -> StudyRegister:
    """Writes a new register. Raises UserError where there is a file already."""
    try:
        created = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        with os.fdopen(created, "wb") as file:
            file.write(_line(population))
            os.fsync(file.fileno())
    except FileExistsError:
        raise UserError(f"register {path}: is there already; add studies to it") from None
    except OSError as error:
        raise write_error(path, error) from None
    return read_register(path)


def add_study(path: Path, study: Study, genesis: str | None = None) -> StudyRegister:
    """Adds a study or its beginning, once.

    genesis: as in `RegisteredStudy`.

    Raises UserError unless it fits; the errors of `read_register`.
    """

    def is_in(register: StudyRegister) -> bool:
        if genesis is None:
            return register.has(study)
        return genesis in register.beginnings(study.terms_hash)

    register = read_register(path)
    if is_in(register):
        return register
    try:
        with path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # another process may have added one meanwhile
            register = read_register(path)
            if not is_in(register):
                if genesis is None:
                    register.check(study)
                else:
                    register.check_beginning(study, genesis)
                entry = RegisteredStudy(
                    study=study.name,
                    terms=study.terms_hash,
                    rho=study.rho,
                    genesis=genesis,
                    previous=register.head,
                )
                file.write(_line(entry))
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        raise write_error(path, error) from None
    return read_register(path)


def _line(entry: _Line) -> bytes:
    return canonical(entry.model_dump(mode="json", exclude_none=True)) + b"\n"
