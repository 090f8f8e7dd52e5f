"""The releases of a panel: every release adds the next columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_dp.panel import Panel
from stream_dp.study import Study

from .public_reader import PublishedRelease
from .published_panels import read_panel


def checked_growth(study: Study, releases: list[PublishedRelease]) -> list[PublishedRelease]:
    """The releases with the same name, after a check that the panel only grows.

    Raises Inconsistent unless every release adds the columns of its next periods, and nothing else,
    to the rows of the release before it.
    """
    name = releases[0].certificate.release
    first, _ = study.span(study.release(name))
    labels, end = study.periods.labels, first - 1
    for release in releases:
        certificate = release.certificate
        start, end = end, end + len(certificate.columns)
        if certificate.rows != releases[0].certificate.rows:
            raise release.refusal("not the rows of the panel before it")
        if set(labels[first - 1 : start]) & set(certificate.columns):
            raise release.refusal("a period of the panel cannot be released again")
        if (certificate.columns, certificate.number) != (labels[start:end], end):
            raise release.refusal("not the columns of its periods")
    return releases


def joined_panel(releases: Sequence[PublishedRelease]) -> Panel:
    """The columns of all releases side by side."""
    periods = [label for r in releases for label in r.certificate.columns]
    certificate = releases[-1].certificate
    # Column by column, as they are read and written.
    symbols = np.empty((certificate.rows, len(periods)), np.uint8, order="F")
    columns = (column for r in releases for column in read_panel(r.message.parts).columns)
    for i, column in enumerate(columns):
        start = 0
        for chunk in column.chunks:
            symbols[start : start + len(chunk), i] = chunk
            start += len(chunk)
    return Panel(symbols, tuple(periods), certificate.values)
