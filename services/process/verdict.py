"""The verdict of `verify` as a file for the textfile collector of Prometheus' node exporter.

The file holds public facts alone; of the confidential side, only whether both sides agree.
"""

from __future__ import annotations

import time
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, Info, write_to_textfile

from stream_dp.client import PublicLog


def write_verdict(path: Path | None, code: int, public: PublicLog | None) -> None:
    """Writes the file whole, or leaves an existing file unchanged. Raises OSError with the path.

    path: the path of the file; None to write nothing
    code: the exit code of `verify`
    public: the log; None if unreadable
    """
    if path is None:
        return
    registry = CollectorRegistry()
    # The file's name tells checks apart where the log, and with it its study, cannot be read.
    check = {"check": path.stem}
    gauges = {
        "holds": ("1 where everything that was checked holds.", int(code == 0)),
        "exit_code": ("The exit code of the last check.", code),
        "timestamp_seconds": ("When it was checked last, Unix seconds.", time.time()),
    }
    if public is not None:
        gauges["messages"] = ("Messages of the public log.", len(public.messages))
        info = Info("stream_dp_verify", "What was checked.", list(check), registry=registry)
        info.labels(**check).info({"study": public.study.name, "head": public.head})
    for name, (help_text, value) in gauges.items():
        gauge = Gauge(f"stream_dp_verify_{name}", help_text, list(check), registry=registry)
        gauge.labels(**check).set(value)
    try:
        write_to_textfile(str(path), registry)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
