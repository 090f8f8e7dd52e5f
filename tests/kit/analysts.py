"""Everything that an analyst can ask of a public log, and what must hold of each answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.hostile import RELEASES
from stream_dp.services.commands.cli import main

ASKED = "release '", "query '", "share: ", "public log: nothing is published yet"


def commands(source: str, out: Path) -> Iterator[list[str]]:
    """Everything that an analyst can ask."""
    yield ["releases", source]
    yield ["releases", source, "--json"]
    yield ["verify", source]
    yield ["estimate", source]
    yield ["estimate", source, "pairs", "pattern full ?"]
    yield ["estimate", source, "months", "total at-least 2", "--count", "--json"]
    yield ["estimate", source, "both", "at-least 1 of last 2 full", "--period", "2021-03"]
    for name in RELEASES:
        yield ["export", source, name, str(out / "panel.csv")]
    yield ["export", source, "pairs", str(out / "panel.parquet"), "--period", "2021-02"]
    yield ["export", source, "homes", str(out / "homes")]
    yield ["export", source, "pairs", str(out / "pairs"), "--format", "csv"]
    yield ["export", source, "pairs", str(out / "noisy.csv"), "--measurements"]
    yield ["export", source, "pairs", str(out / "long.csv"), "--long"]
    yield ["estimate", source, "pairs", "pattern full", "--minus", "2021-02"]
    yield ["estimates", source, str(out / "all.csv")]
    yield ["page", source, str(out / "page.html")]


def judged(words: list[str], capsys: pytest.CaptureFixture[str]) -> int:
    """Run a command, which must end well or be refused in a line."""
    code = main(words)
    said = capsys.readouterr()
    assert all(c == "\n" or c.isprintable() for c in said.out + said.err), (words, said)
    if code == 0:
        assert said.err == "", (words, said)
        if "--json" in words:
            json.loads(said.out)
        return code
    (line,) = said.err.splitlines()
    assert said.out == "", words
    if "--json" in words:
        error = json.loads(line)
        assert error["code"] == code, (words, line)
        (line,) = (f"stream-dp: {fault}" for fault in error["lines"])
    if code == 2:  # what was asked for is not there
        assert line.startswith(tuple(f"stream-dp: {word}" for word in ASKED)), (words, line)
    else:
        assert code == 4, (words, code, line)
        assert line.startswith("stream-dp: public log: "), (words, line)
    return code
