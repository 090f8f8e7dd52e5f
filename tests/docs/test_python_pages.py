"""The examples of the Python reference run, and print what their pages say."""

import re
import runpy
from pathlib import Path

import pytest
import python_api

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
_CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OUTPUT = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def opening(tmp_path_factory):
    """The names that the lines of the page Python define."""
    (code,) = _CODE.findall((REFERENCE / "python.md").read_text("utf-8"))
    script = tmp_path_factory.mktemp("opening") / "opening.py"
    script.write_text(code, "utf-8")
    return runpy.run_path(str(script))


@pytest.mark.parametrize("page", sorted(python_api.NAMES))
def test_the_example_of_a_page_prints_the_text_below_it(page, opening, tmp_path, capsys):
    text = (REFERENCE / "python" / f"{page}.md").read_text("utf-8").partition("<!-- written")[0]
    (code,), (output,) = _CODE.findall(text), _OUTPUT.findall(text)
    script = tmp_path / f"{page}.py"
    script.write_text(code, "utf-8")
    runpy.run_path(str(script), init_globals=opening)
    assert capsys.readouterr().out == output


def test_every_page_is_listed():
    index = (REFERENCE / "python.md").read_text("utf-8")
    for page in python_api.NAMES:
        assert f"(python/{page}.md)" in index


def test_every_public_name_has_words():
    """A field may have them in the docstring of its class."""
    silent = []
    for name in (name for names in python_api.NAMES.values() for name in names):
        item = python_api.found(name)
        members = item.members.values() if item.is_class else ()
        public = [m for m in members if not m.is_alias and not m.name.startswith("_")]
        about = python_api.words(item)
        silent += [] if about else [name]
        silent += [
            f"{name}.{member.name}"
            for member in public
            if not python_api.words(member) and not re.search(rf"\b{member.name}\b", about)
        ]
    assert silent == []
