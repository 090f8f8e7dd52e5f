"""The identity of a file on its disk. A copy has a different identity; a restart or a rename keeps
it.

The identity is the inode number and, if the file system stores it, the file's creation time. `cp`
with any options, `tar`, `rsync` and a backup restored beside the original make a new file. These
keep the identity: `mv` inside a file system, writing, a restart of the machine, and a device
mounted under another number (so the device is not part of the identity). An extended
attribute would not do: `cp -a` copies it. Two events stay unseen: a copy of the disk or its
snapshot, and bytes written over those of the same file (file_mark.py).
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
from pathlib import Path

_AT_FDCWD, _BTIME, _SIZE = -100, 0x800, 256


def identity_of_file(path: Path) -> str:
    """Returns INODE/NANOSECONDS. The time is the file's creation, 0 if unknown."""
    return f"{path.stat().st_ino}/{_born(path)}"


def is_file_identity(identity: str) -> bool:
    """Tells whether a text is the identity of a file."""
    return re.fullmatch(r"[0-9]+/[0-9]+", identity) is not None


def same_identity(first: str, second: str) -> bool:
    """Tells whether two identities belong to the same file. An unknown creation time agrees with
    any.

    Other identities, such as a topic's, are compared as text.
    """
    if not (is_file_identity(first) and is_file_identity(second)):
        return first == second
    (inode, born), (inode_too, born_too) = first.split("/"), second.split("/")
    return inode == inode_too and (born == born_too or "0" in {born, born_too})


def _born(path: Path) -> int:
    """Returns the creation time in Unix nanoseconds, 0 if unknown.

    Python has no statx: the function of the C library is called.
    """
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
