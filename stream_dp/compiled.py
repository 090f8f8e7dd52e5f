"""The compiled reader of the extra `native`, which the library uses if it is installed."""

from __future__ import annotations

from typing import Any

_INTERFACE = 2  # raised with every change of what the compiled reader takes or gives


def compiled_reader() -> Any | None:
    """Returns the module `stream_dp_native`; None without this version of the module."""
    try:
        import stream_dp_native
    except ImportError:
        return None
    return stream_dp_native if stream_dp_native.INTERFACE == _INTERFACE else None
