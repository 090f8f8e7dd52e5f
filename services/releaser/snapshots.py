"""Snapshots of the population in a confidential folder, or under an fsspec URL.

Written whole, synced and renamed; their hashes are in the journal, and two are kept.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import fsspec

from stream_dp.errors import Inconsistent
from stream_dp.population import Population


class Snapshots:
    """The folder at `place`: a path relative to `base`, or a URL that fsspec knows."""

    def __init__(self, place: str, base: Path) -> None:
        place = place.removeprefix("file://")
        self._fs = fsspec.filesystem(place.split("://")[0]) if "://" in place else None
        self._root = place if self._fs else str(base / place)

    def write(self, population: Population) -> tuple[str, str]:
        """Name and SHA-256 of the new snapshot. It is durable when this returns."""
        stem = f"period-{population.period:05d}"
        if self._fs is None:
            return self._write_local(population, stem)
        with self._fs.open(f"{self._root}/{stem}.tmp", "wb") as file:
            population.save(file)
        with self._fs.open(f"{self._root}/{stem}.tmp", "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        name = f"{stem}-{digest[:16]}.npz"
        self._fs.mv(f"{self._root}/{stem}.tmp", f"{self._root}/{name}")
        return name, digest

    def _write_local(self, population: Population, stem: str) -> tuple[str, str]:
        root = Path(self._root)
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = root / f"{stem}.tmp"
        temporary.unlink(missing_ok=True)
        temporary.touch(mode=0o600)
        with temporary.open("r+b") as file:
            population.save(file)
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        name = f"{stem}-{digest[:16]}.npz"
        temporary.rename(root / name)
        folder = os.open(root, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return name, digest

    def read(self, name: str, digest: str) -> bytes | None:
        """A snapshot's bytes, None where it is gone. Raises Inconsistent if they have changed."""
        try:
            if self._fs is None:
                data = (Path(self._root) / name).read_bytes()
            else:
                data = self._fs.cat_file(f"{self._root}/{name}")
        except FileNotFoundError:
            return None
        if hashlib.sha256(data).hexdigest() != digest:
            raise Inconsistent(
                f"snapshot {name}: not the bytes that the journal names; remove it, and the input"
                " is replayed instead"
            )
        return data

    def keep(self, names: set[str]) -> None:
        """Remove every other snapshot."""
        if self._fs is None:
            for path in Path(self._root).glob("period-*"):
                if path.name not in names:
                    path.unlink()
            return
        for found in self._fs.glob(f"{self._root}/period-*"):
            if found.rsplit("/", 1)[-1] not in names:
                self._fs.rm_file(found)
