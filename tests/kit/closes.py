"""Scheduled closes of a study at times that a test chooses while real clocks go on."""

from __future__ import annotations

import time

PERIODS = 5
FAR = 4e9  # Unix seconds: later than any test


def close_now(closes: list[float], number: int) -> None:
    """Let the period of that number close now: what is sent later lies behind its cut.

    closes: by period, in Unix seconds; changed in place
    """
    time.sleep(0.03)
    closes[number - 1] = time.time()
    time.sleep(0.03)
