"""The commands of a page, in their order, with what the page shows of their output."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = re.compile(r"^<!-- written: .*?<!-- end -->", re.M | re.S)
FENCE = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"# needs (.+)$")
# Installations belong to the tests of locks, wheels and lines of apt.
INSTALLS = re.compile(r"(?:[\w./]*/)?(?:pip (?:install|wheel)|apt-get|R CMD INSTALL|adduser)\b")
# First words that an indented block may not have: such a block would not be found here.
PROGRAMS = re.compile(
    r"^ {4}(?: {4})?(?:\$ )?(?:stream-dp|\.venv/bin/|python3? |pip |openssl|kubectl|helm |docker |"
    r"export |kafka-|kcat |curl |sqlite3 )",
    re.MULTILINE,
)
_NUMBER = r"-?\d+(?:\.\d+)?"
# What depends on noise in a line of output; every other number is compared.
NOISE = (
    (re.compile(rf"(?<=  estimate) +{_NUMBER}"), rf" +{_NUMBER}"),
    (re.compile(rf"(?<=, standard error ){_NUMBER}"), _NUMBER),  # answers' weights depend on noise
    (
        re.compile(rf"(?<=  95% interval) +{_NUMBER}(%?) to {_NUMBER}"),
        rf" +{_NUMBER}%? to {_NUMBER}",
    ),
    (re.compile(r"\b[0-9a-f]{64}\b"), "[0-9a-f]{64}"),
    (re.compile(rf"(?<=rows moved by repairs: ){_NUMBER}"), _NUMBER),
)


@dataclass(frozen=True)
class File:
    """A file that the page shows, by its title."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """line: of a shell; shown: its output on the page, None if not shown; needs: what it needs."""

    line: str
    shown: str | None = None
    needs: str = ""

    @property
    def pattern(self) -> str:
        """What the output must match; a line `...` stands for any lines."""
        lines = (self.shown or "").splitlines()
        return "".join(r"(?:.*\n)*?" if x == "..." else _blurred(x) + r"\n" for x in lines)


def _blurred(line: str) -> str:
    """The line as a pattern, in which numbers that depend on noise may differ."""
    spans = sorted(
        (m.start(), m.end(), pattern) for mark, pattern in NOISE for m in mark.finditer(line)
    )
    text, at = "", 0
    for start, end, pattern in spans:
        text += re.escape(line[at:start]) + pattern
        at = end
    return text + re.escape(line[at:])


def steps(text: str) -> Iterator[File | Command]:
    """Files and commands of a page in their order; the parts that the code writes are left out."""
    for indent, head, body in FENCE.findall(GENERATED.sub("", text)):
        body = re.sub(f"^{indent}", "", body, flags=re.M)
        if title := re.search(r'title="([^"]+)"', head):
            yield File(title[1], body)
        elif "console" in head:
            for command in re.split(r"^\$ ", body, flags=re.M)[1:]:
                line, _, shown = command.partition("\n")
                yield _command(line, shown)
        elif re.match(r"(?:sh|bash)\b", head):
            needs = ""
            for line in re.split(r"(?<!\\)\n", body.strip()):
                if line.startswith("#"):
                    needs = mark[1] if (mark := NEEDS.match(line)) else needs
                elif line.strip():
                    yield _command(line, None, needs)


def _command(line: str, shown: str | None, needs: str = "") -> Command:
    mark = NEEDS.search(line)
    if mark or not needs:
        needs = mark[1] if mark else "an installation" if INSTALLS.match(line) else ""
    return Command(line, shown, needs)


def pages() -> dict[str, str]:
    """The texts of all pages with commands of their own, by their paths in the project."""
    paths = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    paths += [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "deploy").rglob("*.md")]
    texts = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in sorted(paths)}
    return {name: text for name, text in texts.items() if [*steps(text)]}
