"""The report of faulty cells, a file beside the sent table. CONFIDENTIAL."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TextIO

from stream_dp.population.rejection_reasons import Reason
from stream_dp.study.formulas import is_formula

from ..process.output import visible
from ..storage.atomic_files import adopt_draft, open_draft

SUFFIX = ".faults.txt"  # no table's, so that who sends all tables of a folder does not send it


class FaultReport:
    """A line for each faulty cell, with tabs: row from 1 below the header, column, reason and text.

    A text that a spreadsheet would take for a formula has a ' in front.

    It stands beside the table, readable for its owner alone, in the place of an earlier one. A
    folder where nothing can be written holds no table back: `problem` says why there is none.
    """

    def __init__(self, table: Path) -> None:
        self.path: Path | None = None
        self.problem: str | None = None
        self._target = table.with_name(table.name + SUFFIX)
        self._draft: Path | None = None
        self._file: TextIO | None = None

    def close(self) -> None:
        """Removes the draft of an abandoned report."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        if self._draft is not None:
            with suppress(OSError):
                self._draft.unlink(missing_ok=True)

    def add(self, row: int, column: str, reason: Reason, text: str) -> None:
        """Adds a faulty cell after the cells of earlier rows."""
        if self.problem is not None:
            return
        try:
            if self._file is None:
                self._draft, self._file = open_draft(self._target)
                self._file.write("row\tcolumn\treason\ttext\n")
            cells = ("'" * is_formula(cell) + visible(cell) for cell in (column, reason, text))
            self._file.write("\t".join([str(row), *cells]) + "\n")
        except OSError as error:
            self._give_up(error)

    def keep(self) -> None:
        """Puts the report in its place, if a cell is faulty."""
        if self._file is None or self._draft is None or self.problem is not None:
            return
        try:
            self._file.close()
            adopt_draft(self._draft, self._target)
            self.path = self._target
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self.problem = f"{self._target}: cannot be written: {error.strerror}"
