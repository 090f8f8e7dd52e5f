"""The pages of mechanisms: formulas and pictures."""

import re
from pathlib import Path

import architecture_picture
import formulas
import mechanism_pictures
import pytest
import sequence_pictures

FOLDER = Path(__file__).parents[2] / "docs" / "mechanisms"
PAGES = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.md")}


def test_a_formula_is_mathml_and_code_stays_as_it_is():
    page = "Costs `$HOME` and $\\rho = 1$.\n\n```\n$x$ $y$\n```\n\n$$a\n+ b$$\n"
    marked = formulas.marked(page)
    assert "`$HOME`" in marked
    assert "$x$ $y$" in marked
    html = formulas.drawn(marked)
    assert html.count("<math") == 2
    assert html.count('display="block"') == 1
    assert "\u27e6" not in html


@pytest.mark.parametrize("name", sorted(PAGES))
def test_every_formula_of_a_page_can_be_drawn(name):
    html = formulas.drawn(formulas.marked(PAGES[name]))
    assert not re.search(r"(?<!`)\$[^`]*\$(?!`)", re.sub(r"`[^`]*`", "", html))
    assert not re.findall(r"<mi>\\", html)


@pytest.mark.parametrize("name", sorted(mechanism_pictures.PICTURES))
def test_a_picture_is_drawn_and_on_a_page(name):
    assert mechanism_pictures.drawing(name).svg.count("<svg") == 1
    assert f"images/pictures/{name}.svg)" in PAGES[f"{name}.md"]


@pytest.mark.parametrize("name", sorted(PAGES.keys() - {"index.md", "sources.md"}))
def test_a_page_says_what_the_mechanism_does_badly(name):
    assert re.search(r"^## What (it does|they do) badly$", PAGES[name], re.MULTILINE)


def test_a_proof_is_cited_and_names_its_check():
    proofs = (FOLDER.parent / "proofs").glob("*.md")
    for path in proofs:
        text = path.read_text("utf-8")
        assert "**Claim.**" in text
        assert "**Proof.**" in text
        assert "**Checked by** `tests/" in text
        assert any(f"../proofs/{path.name}" in page for page in PAGES.values()), path.name


@pytest.mark.parametrize("name", sorted(sequence_pictures.SEQUENCES))
def test_a_sequence_is_drawn_and_on_a_page(name):
    assert sequence_pictures.drawing(name).svg.count("<svg") == 1
    docs = FOLDER.parent
    pages = [docs / "how-to" / "operations.md", docs / "explanation" / "architecture.md"]
    assert any(f"images/sequences/{name}.svg)" in page.read_text("utf-8") for page in pages)


def test_the_architecture_is_drawn_and_on_its_page():
    assert architecture_picture.drawing().svg.count("<svg") == 1
    page = FOLDER.parent / "explanation" / "architecture.md"
    assert "images/architecture/architecture.svg)" in page.read_text("utf-8")
