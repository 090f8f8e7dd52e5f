"""Every page is complete where it lies: nothing of it waits to be generated."""

import re
import sys
from pathlib import Path

import pytest
import written_parts

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))

import write  # noqa: E402


@pytest.fixture(scope="module")
def wanted():
    return dict(write.files())


def test_pages_and_drawings_are_as_the_code_and_the_tables_say(wanted):
    wrong = [str(path.relative_to(DOCS)) for path in write.stale(wanted)]
    assert wrong == [], "run: python docs/write.py"


def test_no_page_has_a_place_to_be_filled(wanted):
    pages = {path: text for path, text in wanted.items() if path.suffix == ".md"}
    assert len(pages) > 80
    for path, text in pages.items():
        assert not re.search(r"<!-- (?!written: |end )", re.sub(r"`[^`]*`", "", text)), path
        for part in re.findall(r"<!-- written: .*?<!-- end -->", text, re.DOTALL):
            assert part.count("\n") > 4, path


def test_rows_of_a_table_have_the_cells_of_its_head(wanted):
    """A `|` in a cell, which some readers of Markdown take for its end."""
    for path, text in wanted.items():
        head = None
        for line in re.sub(r"^```.*?^```", "", text, flags=re.M | re.S).splitlines():
            cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else None
            assert cells is None or head in (None, cells), f"{path}: {line}"
            head = cells


def test_a_number_is_written_again_from_its_table():
    page = '[9](data/coverage.json "add_remove: covered") of cases'
    written = written_parts.page(page).text
    assert re.fullmatch(
        r'\[[\d.]+ %\](\(data/coverage.json "add_remove: covered"\)) of cases', written
    )
    assert written_parts.page(written).text == written


def test_a_drawing_has_its_caption_and_is_readable_on_any_ground():
    page = written_parts.page("![](../images/figures/months.svg)")
    assert re.match(r"!\[\w", page.text)
    assert "fill: #ffffff" in page.drawings["figures", "months"]


def test_a_part_that_nothing_makes_is_an_error():
    with pytest.raises(KeyError):
        written_parts.page("<!-- written: no such part -->\n<!-- end -->")
