"""The folder in which JAX keeps compiled programs, so that a later process need not compile them.

The shapes of programs follow from noisy counts, so the folder lies on the confidential side. JAX
ignores a program that cannot be read, and compiles it: several workers may share the folder.
"""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
from contextlib import suppress
from pathlib import Path

from stream_dp.log.file_identity import make_folder

_FOLDER = "JAX_COMPILATION_CACHE_DIR"
_MOST = 256 << 20  # bytes


def keep_compiled_programs(folder: Path, most: int = _MOST) -> None:
    """Lets JAX, which must not be imported yet, keep its programs in `folder`.

    A kind of processor has a folder of its own there, because programs hold its instructions.
    The programs that were written first are removed as soon as all take more than `most` bytes.
    Without a folder that can be written JAX keeps no programs. A folder that the environment names
    stays.
    """
    if _FOLDER in os.environ:
        return
    place = folder / f"compiled-{_processor()}"
    try:
        make_folder(place)
        with tempfile.TemporaryFile(dir=place):
            pass
        _remove_oldest(place, most)
    except OSError:
        return
    os.environ[_FOLDER] = str(place.absolute())
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")


def _processor() -> str:
    """A hash of the processor's kind and instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    kept = {line for line in lines if line.startswith(("flags", "Features", "model name"))}
    words = "\n".join([platform.machine(), platform.processor(), *sorted(kept)])
    return hashlib.sha256(words.encode()).hexdigest()[:12]


def _remove_oldest(folder: Path, most: int) -> None:
    """Removes files until the others take at most `most` bytes."""
    stats = list[tuple[os.stat_result, Path]]()
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another worker removes as well
            if path.is_file():
                stats.append((path.stat(), path))
    total = sum(stat.st_size for stat, _ in stats)
    for stat, path in sorted(stats, key=lambda pair: (pair[0].st_mtime, pair[1])):
        if total <= most:
            return
        path.unlink(missing_ok=True)
        total -= stat.st_size
