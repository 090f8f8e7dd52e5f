"""A verified state of a public log, with computed pages and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from stream_dp.client import PublicLog
from stream_dp.log.log import Batch, Log, Positions, TopicInfo
from stream_dp.planning.expected_errors import GroupError
from stream_dp.release.public_reader import AnyCertificate
from stream_dp.release.signatures import AuditStatement, read_audit_statement
from stream_dp.study import Study
from stream_dp.study.topics import RELEASES

from ..portals.description import published_facts
from .follower import End, sha256
from .group_chart import published_group_errors
from .groups_figures import DataSetFigures, any_figures
from .record_rows import Label, privacy_label
from .region_map import Outlines, read_outlines
from .release_figures import ReleaseFigures, release_figures


@dataclass(frozen=True)
class State:
    """A public log up to its head.

    end: the end of the log.
    verified: a line for each checked property.
    url: where the study's pages are public, such as https://poverty.example.org; of several studies
        its path is that of the study's pages; empty if nobody said.
    audits: the signed statements of audits.
    outlines: of regions, for maps of sizes; empty without a file of them.
    pages: by path, pages computed in advance.
    """

    public: PublicLog
    end: End
    verified: tuple[str, ...]
    url: str = ""
    audits: tuple[AuditStatement, ...] = ()
    outlines: Outlines = field(default_factory=dict)
    pages: dict[str, bytes] = field(default_factory=dict)
    _figures: dict[str, ReleaseFigures] = field(default_factory=dict)
    _data_sets: dict[tuple[str, str | None], DataSetFigures] = field(default_factory=dict)

    def figures(self, name: str) -> ReleaseFigures:
        """The figures of a release, computed once. Raises UserError."""
        figures = self._figures.get(name)
        if figures is None:
            figures = self._figures[name] = release_figures(self.public, name)
        return figures

    def data_set_figures(self, name: str, period: str | None) -> DataSetFigures:
        """The figures of a data set, computed once. period: None for the last. Raises UserError."""
        figures = self._data_sets.get((name, period))
        if figures is None:
            figures = any_figures(self.public, name, period)
            self._data_sets[name, period] = figures
        return figures

    @cached_property
    def groups(self) -> tuple[GroupError, ...]:
        """The relative errors of groups of people by their size, computed once."""
        return published_group_errors(self.public)

    @property
    def simulated(self) -> bool:
        """Whether the noise is seeded, so that nothing is private."""
        return published_facts(self.public).simulated

    @property
    def label(self) -> Label:
        """The privacy label."""
        return privacy_label(self.public, self.audits)

    @property
    def head(self) -> str:
        return self.public.head

    @property
    def root(self) -> str:
        """The path that all links of the study's pages begin with."""
        return urlsplit(self.url).path


class _Followed:
    """A log that notes the last record read and the next offset."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.next = 0
        self.last: bytes | None = None

    def describe(self, topic: str) -> TopicInfo:
        return self._log.describe(topic)

    def read(self, topic: str, positions: Positions, limit: int, timeout: float) -> Batch:
        batch = self._log.read(topic, positions, limit, timeout)
        if batch.records:
            self.last = batch.records[-1].value
            self.next = batch.records[-1].offset + 1
        return batch


def keep_all_but_panels(study: Study, certificate: AnyCertificate, table: str) -> bool:
    """Whether to keep a table: all but panels, the only tables that grow with the rows."""
    return table != "panel"


def read_state(
    log: Log, url: str = "", statements: Sequence[str] = (), outlines: str = ""
) -> State:
    """Reads and checks a public log, files of signed statements, and a file of outlines.

    url: see `State`.
    outlines: a file of GeoJSON; empty for none.

    Raises UserError, Inconsistent, LogError.
    """
    followed = _Followed(log)
    public = PublicLog(followed, keep_all_but_panels, count_panels=True)  # type: ignore[arg-type]
    verified = tuple(public.verify())
    end = End(log.describe(RELEASES).identity, followed.next, sha256(followed.last))
    keys = public.signatures.keys
    audits = tuple(read_audit_statement(Path(file), public.study, keys) for file in statements)
    shapes = read_outlines(Path(outlines)) if outlines else {}
    return State(public, end, verified, url, audits, shapes)
