"""The interface of a public log for answers about its releases."""

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
    """A public log after reading and checking, such as `stream_dp.client.PublicLog`.

    cache: a folder for factors that take long to compute, None for no cache
    """

    study: Study
    cache: Path | None

    @property
    def head(self) -> str: ...

    def periods_of(self, name: str) -> list[str]:
        """The periods with a published release of a name, in order of publication."""

    def releases_of(self, name: str) -> list[PublishedRelease]: ...
    def release_at(self, name: str, period: str | None) -> PublishedRelease: ...
    def grown_releases(self, name: str) -> list[PublishedRelease]: ...
    def counted_panel(self, name: str, period: str) -> Panel | PanelCounts: ...
    def data_set(self, name: str, period: str | None = None) -> DataSet: ...
    def sizes(self, name: str, period: str | None = None) -> PublishedSizes: ...
