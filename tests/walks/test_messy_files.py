"""From a messy file to a figure: `init`, the command that it prints, and a published month."""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
from pathlib import Path

import pytest
from agency import command
from messy_files import MESSY, MessyFile

from stream_dp.services.commands import cli

_USUAL = {
    "First period": "2021-01, 1",
    "Column of the period": "=",
}


class Operator(io.StringIO):
    """Reads the questions on standard error, and answers on standard input.

    changes: what is answered to any question at first, as KEY = ANSWER.
    """

    def __init__(self, answers: dict[str, str], changes: list[str]) -> None:
        super().__init__()
        self.answers, self.changes, self._read = answers, changes, 0

    def readline(self, size: int | None = -1, /) -> str:
        question, self._read = self.getvalue()[self._read :], self.tell()
        if self.changes:
            return f"{self.changes.pop()}\n"
        last = question.rstrip().rpartition("\n")[2]
        known = (answer for part, answer in self.answers.items() if part in last)
        return next(known, "") + "\n"


def begun(messy: MessyFile, file: Path, folder: Path) -> list[str]:
    """What `init` prints as the command that sends a file."""
    people = {"Number of persons": str(messy.people)}
    changes = ["width = 1", *reversed(messy.changes)]
    operator, out = Operator({**_USUAL, **people, **messy.answers}, changes), io.StringIO()
    with contextlib.redirect_stderr(operator), contextlib.redirect_stdout(out):
        stdin, sys.stdin = sys.stdin, operator
        try:
            code = cli.main(["init", str(file), "--out", str(folder / "made.toml")])
        finally:
            sys.stdin = stdin
    assert code == 0, operator.getvalue()
    (printed,) = [n for n in out.getvalue().splitlines() if n.startswith("to send it: ")]
    return shlex.split(printed.removeprefix("to send it: stream-dp "))


@pytest.mark.parametrize("name", MESSY)
def test_a_messy_file_becomes_a_figure_with_two_commands(name: str, tmp_path: Path) -> None:
    messy = MESSY[name]
    if "SPSS" in name or "Stata" in name:
        pytest.importorskip("pyreadstat")
    file = messy.write(tmp_path)
    if not file.is_file():
        pytest.skip(f"{file.name} is not there")
    sent = command(*begun(messy, file, tmp_path))
    assert set(sent["faulty_cells"].values()) == {0}
    study = tmp_path / "made.toml"
    command("close", study, "2021-01", "--yes")
    assert cli.main(["run", str(study), "--until-idle"]) == 0
    (release,) = command("releases", study)["releases"]
    answer = command("estimate", study, release["release"], messy.query)
    assert 0.05 < answer["value"] < 0.95
    command("page", study, tmp_path / "page.html")
