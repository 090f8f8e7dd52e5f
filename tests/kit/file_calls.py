"""What a process does to the files of a folder, call by call, recorded with strace."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

STRACE = shutil.which("strace")
_CALLS = (
    "open,openat,creat,write,pwrite64,writev,pwritev,pwritev2,ftruncate,truncate,fsync,fdatasync,"
    "rename,renameat,renameat2,unlink,unlinkat,rmdir,link,linkat,mkdir,mkdirat,lseek,fallocate,"
    "copy_file_range,sendfile,mmap,symlink,symlinkat"
)
_LINE = re.compile(r"(\d+) +(.*)")
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+|0x[0-9a-f]+)")
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)")
_FILE = re.compile(r"(?:\d+|AT_FDCWD)<((?:\\x[0-9a-f]{2})*)>")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_UNFINISHED = "<unfinished ...>"
_MEMORY = "-shm"  # ends the files that SQLite's processes share in memory, and make again


@dataclass(frozen=True)
class Create:
    """A file is opened, and made if it does not exist."""

    path: str


@dataclass(frozen=True)
class Write:
    """Bytes at an offset. offset: None for the end of the file."""

    path: str
    offset: int | None
    data: bytes


@dataclass(frozen=True)
class Resize:
    path: str
    size: int


@dataclass(frozen=True)
class Sync:
    """The content of a file, or the names in a folder, are made durable."""

    path: str


@dataclass(frozen=True)
class Name:
    """A file or folder gets another name. keeps: whether it keeps the first, too."""

    path: str
    new: str
    keeps: bool


@dataclass(frozen=True)
class Remove:
    path: str


@dataclass(frozen=True)
class MakeFolder:
    path: str


FileCall = Create | Write | Resize | Sync | Name | Remove | MakeFolder


def recorded(arguments: list[str], folder: Path, trace: Path) -> list[FileCall]:
    """Runs Python with arguments; returns its calls on files below `folder`, which is resolved.

    trace: a file for strace. Raises CalledProcessError for another end than 0.
    """
    assert STRACE is not None
    tests = str(Path(__file__).parents[1])
    options = ["-f", "--seccomp-bpf", "-y", "-xx", "-s", "99999999", "-qq", "-e", f"trace={_CALLS}"]
    subprocess.run(
        [STRACE, *options, "-e", "signal=none", "-o", str(trace), sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": tests, "PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    with trace.open(encoding="ascii", errors="replace") as lines:
        return list(_FileCalls(str(folder)).read(lines))


class _FileCalls:
    """Reads the lines of strace."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._at: dict[tuple[str, str], int | None] = {}  # the offset by path and descriptor
        self._unfinished: dict[str, str] = {}

    def read(self, lines: Iterable[str]) -> Iterator[FileCall]:
        for line in lines:
            found = _LINE.match(line.rstrip("\n"))
            if found is None:
                continue
            thread, body = found.groups()
            if body.endswith(_UNFINISHED):
                self._unfinished[thread] = body.removesuffix(_UNFINISHED).rstrip()
                continue
            if resumed := _RESUMED.match(body):
                body = self._unfinished.pop(thread, "") + resumed[1]
            call = _CALL.match(body)
            if call is not None and not call[3].startswith("-"):
                yield from self._calls(call[1], call[2], call[3])

    def _calls(self, call: str, arguments: str, result: str) -> Iterator[FileCall]:
        texts = [_bytes(text) for text in _TEXT.findall(arguments)]
        folders = [_bytes(path).decode() for path in _FILE.findall(arguments)]
        if call in ("open", "openat", "creat"):
            yield from self._open(_joined(folders, 0, texts[0]), arguments, result)
        elif call in ("rename", "renameat", "renameat2", "link", "linkat"):
            path, new = _joined(folders, 0, texts[0]), _joined(folders, -1, texts[1])
            if self._is_ours(path) or self._is_ours(new):
                yield Name(path, new, call.startswith("link"))
        elif call in ("unlink", "unlinkat", "rmdir"):
            if self._is_ours(path := _joined(folders, 0, texts[0])):
                yield Remove(path)
        elif call in ("mkdir", "mkdirat"):
            if self._is_ours(path := _joined(folders, 0, texts[0])):
                yield MakeFolder(path)
        elif folders and self._is_ours(folders[-1] if call == "mmap" else folders[0]):
            yield from self._on_open(call, arguments, folders, texts, int(result, 0))

    def _open(self, path: str, arguments: str, result: str) -> Iterator[FileCall]:
        if not self._is_ours(path):
            return
        self._at[path, result] = None if "O_APPEND" in arguments else 0
        if "O_CREAT" in arguments:
            yield Create(path)
        if "O_TRUNC" in arguments:
            yield Resize(path, 0)

    def _on_open(
        self, call: str, arguments: str, folders: list[str], texts: list[bytes], result: int
    ) -> Iterator[FileCall]:
        """A call on an open file."""
        path, key = folders[0], (folders[0], arguments.partition("<")[0])
        if call == "lseek":
            self._at[key] = result
        elif call == "write":
            offset = self._at.get(key, 0)
            yield Write(path, offset, texts[0][:result])
            self._at[key] = None if offset is None else offset + result
        elif call == "pwrite64":
            yield Write(path, int(arguments.rpartition(", ")[2], 0), texts[0][:result])
        elif call == "ftruncate":
            yield Resize(path, int(arguments.rpartition(", ")[2], 0))
        elif call in ("fsync", "fdatasync"):
            yield Sync(path)
        elif call == "mmap":
            if "MAP_SHARED" in arguments and "PROT_WRITE" in arguments:
                raise NotImplementedError(f"{folders[-1]} is written in memory")
        else:
            raise NotImplementedError(f"{call} of {path}")

    def _is_ours(self, path: str) -> bool:
        below = path == self._root or path.startswith(f"{self._root}/")
        return below and not path.endswith(_MEMORY)


def _bytes(text: str) -> bytes:
    return bytes(int(digits, 16) for digits in text.split("\\x")[1:])


def _joined(folders: list[str], which: int, path: bytes) -> str:
    """A path of a call. folders: those of its descriptors."""
    return os.path.normpath(Path(folders[which] if folders else "/", os.fsdecode(path)))
