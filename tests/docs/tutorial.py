"""The tutorial as a script: the files that it shows, its commands, and what they print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = r"-?\d+(?:\.\d+)?"
_HASH = r"[0-9a-f]{64}"


@dataclass(frozen=True)
class File:
    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """words: of the shell; shown: what the page shows of the output; noise: digits may differ."""

    words: str
    shown: str
    noise: bool

    @property
    def pattern(self) -> str:
        """What the output must match; a line `...` stands for any lines."""
        return "".join(self._line(line) for line in self.shown.splitlines())

    def _line(self, line: str) -> str:
        if line == "...":
            return r"(?:.*\n)*?"
        if not self.noise:
            return re.escape(line) + r"\n"
        parts = re.split(f"({_HASH}|{_NUMBER}| +)", line)
        return "".join(self._loose(part) for part in parts) + r"\n"

    @staticmethod
    def _loose(part: str) -> str:
        if re.fullmatch(" +", part):
            return " +"
        for kind in (_HASH, _NUMBER):
            if re.fullmatch(kind, part):
                return kind
        return re.escape(part)


def steps(text: str) -> Iterator[File | Command]:
    """What the page does, in its order."""
    for head, body in _BLOCK.findall(text):
        if title := re.search(r'title="([^"]+)"', head):
            yield File(title[1], body)
        elif "console" in head:
            for command in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                words, _, shown = command.partition("\n")
                yield Command(words, shown, ".noise" in head)
