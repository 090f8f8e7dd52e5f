"""Signal handlers that are put back."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def restored_handlers() -> Iterator[None]:
    """Restores the signal handlers that `stream-dp run` replaces."""
    handlers = {name: signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for name, handler in handlers.items():
            signal.signal(name, handler)
