"""Pages that are not built point to what is there, and say what the package says."""

import ast
import re
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest
import site_pages
import yaml

ROOT = Path(__file__).parents[2]
OUTSIDE = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "examples/README.md"]


@cache
def anchors(path):
    """The anchors of a page's headings, as GitHub makes them, and its own."""
    text = re.sub(r"^( *)```.*?^\1```", "", path.read_text("utf-8"), flags=re.M | re.S)
    titles = (re.sub(r"\]\([^)]*\)", "", title) for title in re.findall(r"^#+ (.*)$", text, re.M))
    slugs = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    return slugs | set(re.findall(r'<a id="([^"]+)"', text))


def links(path):
    """The targets of a page's links: file and anchor."""
    text = re.sub(r"^( *)```.*?^\1```", "", path.read_text("utf-8"), flags=re.M | re.S)
    return re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)[^)]*\)", re.sub(r"`[^`]*`|\$[^$\n]*\$", "", text))


def test_links_lead_to_files_and_headings():
    """Also on GitHub, which marks no dead anchor."""
    paths = [*map(ROOT.joinpath, OUTSIDE), *(ROOT / "docs").rglob("*.md")]
    found = [(path, link) for path in paths for link in links(path)]
    assert len(found) > 500
    for path, (name, anchor) in found:
        if "://" in name:
            assert path.name not in OUTSIDE, name
            continue
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), f"{path}: {name}"
        assert not anchor or anchor in anchors(target), f"{path}: {name}#{anchor}"


def test_newcomers_questions_lead_to_pages():
    first = (ROOT / "docs" / "index.md").read_text("utf-8")
    rows = first.partition("\n## Questions\n")[2].partition("\n\n<!--")[0].splitlines()[3:]
    assert len(rows) > 12
    assert [row for row in rows if not re.search(r"\?.*\| .*\]\([^)]+\) \|$", row)] == []


def test_every_term_is_a_word_of_another_page():
    terms = (ROOT / "docs" / "reference" / "terms.md").read_text("utf-8")
    rows = re.findall(r"^\| (?!in |---)(?:[^|]+) \| ([^|]+) \|", terms, re.M)
    assert len(rows) > 25
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.name != "terms.md"]
    text = " ".join(re.sub(r"\s+", " ", path.read_text("utf-8")) for path in pages)
    words = [word for row in rows for word in row.split(", ")]
    assert [word for word in words if not re.search(rf"(?i)\b{word}", text)] == []


@pytest.mark.parametrize(
    ("term", "names"),
    [
        (
            "cumulative quer",
            "mechanisms/totals mechanisms/joint mechanisms/index reference/queries",
        ),
        ("cumulative quer", "results/totals results/joint reference/study-file"),
        ("linear threshold quer", "how-to/synthetic-people mechanisms/tables reference/queries"),
        ("linear threshold quer", "reference/study-file results/papers results/tables"),
        ("count of counts", "how-to/group-sizes mechanisms/sizes results/sizes reference/queries"),
    ],
)
def test_a_page_with_a_word_of_ours_names_the_term_of_the_field(term, names):
    for name in names.split():
        text = (ROOT / "docs" / f"{name}.md").read_text("utf-8")
        assert term in re.sub(r"\s+", " ", text), name


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 110


def test_the_first_page_leads_to_every_how_to():
    first = (ROOT / "docs" / "index.md").read_text("utf-8")
    for path in (ROOT / "docs" / "how-to").glob("*.md"):
        assert f"(how-to/{path.name})" in first, path.name


def test_contributing_is_read_in_a_minute():
    assert len((ROOT / "CONTRIBUTING.md").read_text("utf-8").splitlines()) <= 40


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
    paths = re.findall(r"`((?:\w+/)*test_\w+\.py|services/releaser/refusals/)`", text)
    assert len(paths) > 75
    assert [path for path in paths if not (ROOT / "tests" / path).exists()] == []
