"""What the answers about a release need to know of a public log."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from stream_dp.panel import Panel
from stream_dp.release.public_reader import PublishedRelease
from stream_dp.release.published_sizes import PublishedSizes
from stream_dp.release.published_tables import DataSet
from stream_dp.study import Study

from .panel_counts import PanelCounts


class PublishedLog(Protocol):
    """A public log that was read and checked; `stream_dp.client.PublicLog` is one.

    cache: a folder for what takes long to compute, None for none
    """

    study: Study
    cache: Path | None

    @property
    def head(self) -> str: ...

    def periods_of(self, name: str) -> list[str]:
        """The periods at which something of that name is published, in that order."""

    def releases_of(self, name: str) -> list[PublishedRelease]: ...
    def release_at(self, name: str, period: str | None) -> PublishedRelease: ...
    def grown_releases(self, name: str) -> list[PublishedRelease]: ...
    def counted_panel(self, name: str, period: str) -> Panel | PanelCounts: ...
    def data_set(self, name: str, period: str | None = None) -> DataSet: ...
    def sizes(self, name: str, period: str | None = None) -> PublishedSizes: ...
