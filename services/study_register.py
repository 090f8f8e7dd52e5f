"""The register of all studies that touch a population, which adds up what they cost its people.

A file of lines, each a JSON object with the hash of the line before: the first declares the
population and the most rho, the others are studies. Zero-concentrated differential privacy adds up
over studies of one unit under one relation of neighbours, so a register has one of each.
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
    """A study. terms: the hash of its declaration without the description and the curator."""

    study: Name
    terms: str
    rho: Rho


@dataclass(frozen=True)
class StudyRegister:
    """A register as it was read. head: the hash of the last line."""

    path: Path
    population: Registered
    studies: tuple[RegisteredStudy, ...]
    head: str

    @property
    def spent(self) -> Fraction:
        """The rho of all studies together."""
        return sum((study.rho for study in self.studies), Fraction(0))

    def has(self, study: Study) -> bool:
        return study.terms_hash in {one.terms for one in self.studies}

    def check(self, study: Study) -> None:
        """Raises UserError unless the study is in the register, or fits in it."""
        declared = self.population
        for name, own, theirs in (
            ("unit", study.unit, declared.unit),
            ("neighbours", study.neighbours, declared.neighbours),
        ):
            if own != theirs:
                raise UserError(
                    f"register {self.path}: {name} of study {study.name} is '{own}', the"
                    f" register's is '{theirs}'; costs under different ones do not add up"
                )
        left = declared.rho - self.spent
        if not self.has(study) and study.rho > left:
            raise UserError(
                f"register {self.path}: study {study.name} asks for rho {study.rho}, but {left} of"
                f" {declared.rho} is left for {declared.population}; lower it"
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
    first, *others = data.splitlines(keepends=True) or [b""]
    hashes = [START, *(hashlib.sha256(line).hexdigest() for line in (first, *others))]
    try:
        population = Registered.model_validate(_parsed(first))
        studies = tuple(RegisteredStudy.model_validate(_parsed(line)) for line in others)
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
        with path.open("xb") as file:
            file.write(_line(population))
            os.fsync(file.fileno())
    except FileExistsError:
        raise UserError(f"register {path}: is there already; add studies to it") from None
    except OSError as error:
        raise write_error(path, error) from None
    return read_register(path)


def add_study(path: Path, study: Study) -> StudyRegister:
    """Adds a study, once. Raises UserError unless it fits; the errors of `read_register`."""
    read_register(path)
    try:
        with path.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # another process may have added one meanwhile
            register = read_register(path)
            register.check(study)
            if not register.has(study):
                entry = RegisteredStudy(
                    study=study.name, terms=study.terms_hash, rho=study.rho, previous=register.head
                )
                file.write(_line(entry))
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        raise write_error(path, error) from None
    return read_register(path)


def _line(entry: _Line) -> bytes:
    return canonical(entry.model_dump(mode="json")) + b"\n"
