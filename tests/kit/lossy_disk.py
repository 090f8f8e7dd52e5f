"""A disk that loses its power: what of files and names is there afterwards.

A file keeps the bytes that were synced, and a folder the names that were. Of what was not synced
survives nothing (`STRICT`, all that POSIX promises), half of the sectors and names (`HALF`), or all
names, as each sync of a journalling file system makes all of them durable (`JOURNALLED`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath

from .file_calls import Create, FileCall, MakeFolder, Name, Remove, Resize, Sync, Write

STRICT, HALF, JOURNALLED = MODES = ("strict", "half", "journalled")
_SECTOR = 512  # bytes that a disk writes whole
_Change = Write | Resize


class _File:
    def __init__(self, content: bytes = b"") -> None:
        self.now, self.synced = bytearray(content), bytes(content)
        self.unsynced: list[_Change] = []

    def change(self, change: _Change) -> None:
        _apply(self.now, change)
        self.unsynced.append(change)

    def sync(self) -> None:
        self.synced, self.unsynced = bytes(self.now), []

    def left(self, rng: random.Random | None) -> bytes:
        """The content after a loss. rng: takes half of what was not synced; None: nothing."""
        left = bytearray(self.synced)
        for change in self.unsynced if rng is not None else ():
            for sector in _sectors(change):
                if rng is not None and rng.random() < 0.5:
                    _apply(left, sector)
        return bytes(left)


class _Folder:
    def __init__(self) -> None:
        self.now: dict[str, _File | _Folder] = {}
        self.synced: dict[str, _File | _Folder] = {}
        self.unsynced: list[tuple[str, _File | _Folder | None]] = []

    def change(self, name: str, node: _File | _Folder | None) -> None:
        """Gives a name to a node. None: takes the name away."""
        _name(self.now, name, node)
        self.unsynced.append((name, node))

    def sync(self) -> None:
        self.synced, self.unsynced = dict(self.now), []


class LossyDisk:
    """The files below a folder, while calls change them.

    content: a folder with the files at the beginning.
    folder: the folder in the paths of the calls.
    ignored: whether a sync of a path has no effect, as on a disk that only says so.
    """

    def __init__(self, content: Path, folder: Path, ignored: Callable[[str], bool]) -> None:
        self._base, self._ignored = folder, ignored
        self._root = self._read(content)

    def _read(self, folder: Path) -> _Folder:
        node = _Folder()
        for path in folder.iterdir():
            node.now[path.name] = self._read(path) if path.is_dir() else _File(path.read_bytes())
        node.sync()
        return node

    def apply(self, call: FileCall, mode: str) -> None:
        """Changes the files as a call does. mode: of the loss to come."""
        if isinstance(call, Sync):
            if not self._ignored(call.path):
                self._sync(call.path, mode)
        elif isinstance(call, Name):
            node = self._find(call.path)
            if node is not None:
                if not call.keeps:
                    self._parent(call.path).change(PurePath(call.path).name, None)
                self._parent(call.new).change(PurePath(call.new).name, node)
        elif isinstance(call, Create | MakeFolder):
            if self._find(call.path) is None:
                made = _File() if isinstance(call, Create) else _Folder()
                self._parent(call.path).change(PurePath(call.path).name, made)
        elif isinstance(call, Remove):
            self._parent(call.path).change(PurePath(call.path).name, None)
        elif isinstance(file := self._find(call.path), _File):
            file.change(call)

    def _sync(self, path: str, mode: str) -> None:
        node = self._find(path)
        if node is not None:
            node.sync()
        if mode == JOURNALLED:
            for folder in self._folders(self._root):
                folder.sync()

    def _folders(self, folder: _Folder) -> Iterator[_Folder]:
        yield folder
        for node in folder.now.values():
            if isinstance(node, _Folder):
                yield from self._folders(node)

    def _find(self, path: str) -> _File | _Folder | None:
        node: _File | _Folder | None = self._root
        for name in PurePath(path).relative_to(self._base).parts:
            node = node.now.get(name) if isinstance(node, _Folder) else None
        return node

    def _parent(self, path: str) -> _Folder:
        parent = self._find(str(PurePath(path).parent))
        assert isinstance(parent, _Folder), path
        return parent

    def write_now(self, folder: Path) -> None:
        """Writes the files as every process sees them now."""
        self._write(self._root, folder, lambda node: node.now, lambda file: bytes(file.now))

    def write_left(self, folder: Path, mode: str, rng: random.Random) -> None:
        """Writes the files as they are after a loss of power now."""
        half = rng if mode == HALF else None

        def names(node: _Folder) -> dict[str, _File | _Folder]:
            left = dict(node.synced)
            for name, named in node.unsynced if half is not None else ():
                if half is not None and half.random() < 0.5:
                    _name(left, name, named)
            return left

        self._write(self._root, folder, names, lambda file: file.left(half))

    def _write(
        self,
        node: _Folder,
        folder: Path,
        names: Callable[[_Folder], dict[str, _File | _Folder]],
        content: Callable[[_File], bytes],
    ) -> None:
        folder.mkdir(mode=0o700)
        for name, inner in names(node).items():
            if isinstance(inner, _Folder):
                self._write(inner, folder / name, names, content)
            else:
                (folder / name).touch(0o600)
                (folder / name).write_bytes(content(inner))


def _name(names: dict[str, _File | _Folder], name: str, node: _File | _Folder | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _apply(content: bytearray, change: _Change) -> None:
    if isinstance(change, Resize):
        content[:] = content[: change.size].ljust(change.size, b"\0")
        return
    offset = len(content) if change.offset is None else change.offset
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(change.data)] = change.data


def _sectors(change: _Change) -> Iterator[_Change]:
    """A change in parts that a disk does whole."""
    if isinstance(change, Resize) or change.offset is None:
        yield change
        return
    for start in range(0, len(change.data), _SECTOR):
        yield Write(change.path, change.offset + start, change.data[start : start + _SECTOR])
