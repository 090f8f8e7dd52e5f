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
    "First period": "2021-01",
    "Number of periods": "1",
    "Patterns of": "1",
    "How precise": "10",
}


class Operator(io.StringIO):
    """Reads the questions on standard error, and answers on standard input."""

    def __init__(self, answers: dict[str, str]) -> None:
        super().__init__()
        self.answers, self._read = answers, 0

    def readline(self, size: int | None = -1, /) -> str:
        question, self._read = self.getvalue()[self._read :], self.tell()
        known = (answer for part, answer in self.answers.items() if part in question)
        return next(known, "") + "\n"


def begun(messy: MessyFile, file: Path, folder: Path) -> list[str]:
    """What `init` prints as the command that sends a file."""
    people = {"Number of persons": str(messy.people)}
    operator, out = Operator({**_USUAL, **people, **messy.answers}), io.StringIO()
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
