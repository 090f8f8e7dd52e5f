"""The readings of tables: shown before anything is sent, and held to the accepted reading.

The accepted reading of a file of `--reading` is the first one that was written there.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from stream_dp.errors import UserError
from stream_dp.population.arrow_tables import TableSource
from stream_dp.population.tables import TableLayout
from stream_dp.population.tables.reading import Reading
from stream_dp.population.tables.reading_facts import (
    Facts,
    accepted_layout,
    differences,
    facts_in,
    facts_of,
    facts_text,
    reading_lines,
)
from stream_dp.study import Study

from ..process.command_output import printable
from ..storage.atomic_files import write_new_file
from .options import check_mapped_values, layout

_LARGEST = 1 << 24  # bytes of a file of a reading


class AcceptedReading:
    """The reading that all tables of a command must have.

    path: of its file; None to accept any reading.
    quiet: whether the readings are not shown.

    Raises UserError if the file is no reading.
    """

    def __init__(self, path: Path | None, *, quiet: bool) -> None:
        self.facts: dict[TableSource, Facts] = {}
        self._path, self._quiet = path, quiet
        self._accepted: Facts | None = None
        if path is not None and path.exists():
            try:
                with path.open("rb") as file:
                    self._accepted = facts_in(file.read(_LARGEST).decode())
            except (UserError, UnicodeDecodeError) as error:
                raise UserError(f"{path}: {error}") from None
        self._written = self._accepted is not None

    def layout(self, study: Study, options: argparse.Namespace) -> TableLayout:
        """The layout of the options, and of the accepted reading where these say nothing."""
        chosen = layout(options)
        if self._accepted is not None:
            try:
                chosen = accepted_layout(self._accepted, chosen)
            except UserError as error:
                raise UserError(f"{self._path}: {error}") from None
        check_mapped_values(study, chosen)
        return chosen

    def add(self, reading: Reading) -> None:
        """Shows a table's reading. Raises UserError if it is not the accepted one."""
        facts = facts_of(reading)
        if not self._quiet:
            same = next((path for path, accepted in self.facts.items() if accepted == facts), None)
            read = "read as follows" if same is None else f"read like {same}"
            lines = [f"{reading.path}: {read}", *(reading_lines(reading) if same is None else [])]
            for line in lines:
                print(f"stream-dp: {printable(line)}", file=sys.stderr, flush=True)
        self.facts[reading.path] = facts
        if self._path is None:
            return
        if self._accepted is None:
            self._accepted = facts
        if lines := differences(self._accepted, facts):
            raise UserError(
                [
                    *(f"{reading.path}: {line}" for line in lines),
                    f"{reading.path}: is not read as {self._path} says; mend the file or its"
                    " options, or accept this reading with another FILE of --reading",
                ]
            )

    def keep(self) -> None:
        """Writes the accepted reading, if its file is not there. Raises UserError, OSError."""
        if self._path is not None and self._accepted is not None and not self._written:
            write_new_file(self._path, facts_text(self._accepted))
            self._written = True
