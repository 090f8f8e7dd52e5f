"""Writes the generated parts of the pages and their drawings, from the code and the measured
tables.

    python docs/write.py            writes
    python docs/write.py --check    names what is not as it should be, and changes nothing
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "writer"))

import written_parts  # noqa: E402


def files() -> Iterator[tuple[Path, str]]:
    """Every page and every drawing as it should be. Raises ValueError for a part that no page asks
    for."""
    asked: set[str] = set()
    drawings: dict[tuple[str, str], str] = {}
    for path in sorted(DOCS.rglob("*.md")):
        page = written_parts.page(path.read_text("utf-8"))
        asked |= page.parts
        drawings |= page.drawings
        yield path, page.text
    if unused := written_parts.MAKERS.keys() - asked:
        raise ValueError(f"no page asks for {', '.join(sorted(unused))}")
    for (folder, name), svg in drawings.items():
        yield DOCS / "images" / folder / f"{name}.svg", svg


def stale(wanted: dict[Path, str]) -> list[Path]:
    """The pages and drawings that are not as they should be, and drawings that no page has."""
    here = {path for path in wanted if path.is_file()}
    wrong = [p for p, text in wanted.items() if p not in here or p.read_text("utf-8") != text]
    return wrong + sorted(set((DOCS / "images").rglob("*.svg")) - wanted.keys())


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the generated parts of the pages.")
    parser.add_argument("--check", action="store_true", help="change nothing, name what is stale")
    check = parser.parse_args().check
    wanted = dict(files())
    wrong = stale(wanted)
    for path in wrong:
        print(path.relative_to(DOCS))
        if check:
            continue
        if path not in wanted:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], "utf-8")
    return int(check and bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
