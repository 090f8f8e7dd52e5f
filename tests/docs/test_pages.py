"""Pages that are not built point to what is there, and say what the package says."""

import ast
import re
from importlib.metadata import version
from pathlib import Path

import pytest
import site_pages
import yaml

ROOT = Path(__file__).parents[2]
OUTSIDE = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "examples/README.md"]
HOUSE = ROOT / "docs" / "explanation" / "architecture.md"


@pytest.mark.parametrize("name", OUTSIDE)
def test_links_lead_to_files(name):
    """MkDocs checks those of `docs/`."""
    path = ROOT / name
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text("utf-8")):
        assert "://" not in link
        assert (path.parent / link).is_file(), link


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120


def test_the_first_page_leads_to_every_how_to():
    first = (ROOT / "docs" / "index.md").read_text("utf-8")
    for path in (ROOT / "docs" / "how-to").glob("*.md"):
        assert f"(how-to/{path.name})" in first, path.name


def test_contributing_is_read_in_a_minute():
    assert len((ROOT / "CONTRIBUTING.md").read_text("utf-8").splitlines()) <= 40


def test_the_architecture_names_what_is_there():
    paths = set(re.findall(r"`((?:stream_dp|services|deploy|tests)/[\w./]*)`", HOUSE.read_text()))
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_twelve_questions_have_an_answer():
    rows = HOUSE.read_text("utf-8").partition("| question | file |\n|---|---|\n")[2].splitlines()
    assert len([row for row in rows if row.startswith("| ")]) == 12


def test_the_citation_is_of_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert str(cited["version"]) == version("stream-dp")
    assert cited["authors"] == [{"name": "The stream-dp authors"}]


def test_options_in_a_sentence_stay_on_one_line():
    block = "<pre><code>run --seeds 3</code></pre>"
    html = rf"<p>Run <code>run --seeds 3\|4</code>, not-code</p>{block}"
    whole = '<p>Run <code>run <span class="word">--seeds</span> 3|4</code>, not-code</p>'
    assert site_pages.on_page_content(html) == whole + block


def test_a_page_that_loads_from_another_host_is_refused():
    class Page:
        class file:
            src_uri = "index.md"

    site_pages.on_post_page('<a href="https://a.example">x</a><script src="assets/a.js">', Page)
    for line in ('<script src="https://a.example/a.js">', "<link rel=x href=//a.example/a.css>"):
        with pytest.raises(ValueError, match="another host"):
            site_pages.on_post_page(line, Page)


def test_python_in_pages_parses():
    for path in (ROOT / "docs").rglob("*.md"):
        for code in re.findall(
            r"^```python[^\n]*\n(.*?)^```", path.read_text("utf-8"), re.M | re.S
        ):
            ast.parse(code)


def test_the_guarantee_names_tests_that_exist():
    text = (ROOT / "docs" / "guarantee.md").read_text("utf-8")
    rows = [row for row in text.splitlines() if row.startswith("| ") and row.endswith("` |")]
    assert len(rows) > 35
    paths = re.findall(r"`((?:\w+/)*test_\w+\.py|services/releaser/refusals/)`", text)
    assert [path for path in paths if not (ROOT / "tests" / path).exists()] == []
