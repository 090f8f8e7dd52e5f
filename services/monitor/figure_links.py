"""The addresses of a figure that can be taken away, and how it is cited."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from .public_state import State
from .record_rows import citation


@dataclass(frozen=True)
class FigureLinks:
    """The addresses of a figure.

    kind: one of `figure_files.FIGURES`.
    fields: the query of the address, as on the figure's page.
    """

    kind: str
    name: str
    fields: str

    def file(self, form: str) -> str:
        """The address of the figure in a format."""
        return f"/figure/{self.kind}/{quote(self.name, safe='')}.{form}{self._query}"

    @property
    def embed(self) -> str:
        """The address of the figure for a frame of another page."""
        return f"/embed/{self.kind}/{quote(self.name, safe='')}{self._query}"

    @property
    def page(self) -> str:
        """The address of the page that shows the figure."""
        kind = {"totals": "release", "map": "data", "series": "data"}.get(self.kind, self.kind)
        return f"/{kind}/{quote(self.name, safe='')}{self._query}"

    @property
    def _query(self) -> str:
        return f"?{self.fields}" if self.fields else ""


def figure_citation(state: State, title: str, address: str) -> str:
    """A sentence to cite a figure. address: the path of its page."""
    return f"\u201c{title}\u201d, in {citation(state.public)}; {state.url}{address}"
