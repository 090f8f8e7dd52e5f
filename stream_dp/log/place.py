"""The identity of a file on its disk: a copy has another, a restart or a new name changes nothing.

The inode number and, where the file system has it, the time at which the file was created. `cp`,
with all its options, `tar`, `rsync` and a backup that is restored beside the original make another
file; `mv` inside a file system does not, nor do writing, a restart of the machine, or a device
that is mounted under another number (the device is no part of it for that reason). An extended
attribute would travel with `cp -a`. Not seen: a copy of the disk or its snapshot, and bytes
that are written over those of the same file (mark.py).
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
from pathlib import Path

_AT_FDCWD, _BTIME, _SIZE = -100, 0x800, 256


def file_place(path: Path) -> str:
    """INODE/NANOSECONDS, of the time at which the file was created; 0 where that is not known."""
    return f"{path.stat().st_ino}/{_born(path)}"


def is_file_place(place: str) -> bool:
    """Whether a place is one of a file."""
    return re.fullmatch(r"[0-9]+/[0-9]+", place) is not None


def same_place(first: str, second: str) -> bool:
    """Whether two places are of one file; a time that is not known agrees with any.

    Other places, such as a topic's identity, are compared as they are.
    """
    if not (is_file_place(first) and is_file_place(second)):
        return first == second
    (inode, born), (inode_too, born_too) = first.split("/"), second.split("/")
    return inode == inode_too and (born == born_too or "0" in {born, born_too})


def _born(path: Path) -> int:
    """Unix nanoseconds. Python has no statx: the C library's is called."""
    other_systems = getattr(path.stat(), "st_birthtime", None)
    if other_systems is not None:
        return round(float(other_systems) * 1e9)
    try:
        statx = ctypes.CDLL(None).statx
    except (OSError, AttributeError):
        return 0
    buffer = ctypes.create_string_buffer(_SIZE)
    if statx(_AT_FDCWD, os.fsencode(path), 0, _BTIME, buffer):
        return 0
    (mask,) = struct.unpack_from("I", buffer.raw)
    seconds, nanoseconds = struct.unpack_from("qI", buffer.raw, 80)
    return int(seconds * 10**9 + nanoseconds) if mask & _BTIME else 0
