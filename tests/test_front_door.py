"""What `import stream_dp` gives: quick, lazy, documented, and no more than it says."""

import ast
import doctest
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import stream_dp

ROOT = Path(__file__).parents[1]
# Modules that must have examples, some of them without a public name.
WITH_EXAMPLES = {"continual.counters.stream_counters", "answers.query", "panel", "study.attribute"}
SOURCE = ast.parse((ROOT / "stream_dp" / "__init__.py").read_text("utf-8"))


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def loaded(code):
    return set(run(f"import sys, stream_dp\n{code}\nprint(*sys.modules)"))


def typed():
    """Names by module, as a type checker reads them."""
    (block,) = (node for node in SOURCE.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert all(alias.name == alias.asname for node in imports for alias in node.names)
    return {alias.name: node.module for node in imports for alias in node.names}


def test_the_package_imports_nothing_until_a_name_is_used():
    modules = loaded("")
    assert not {name for name in modules if name.startswith("stream_dp.")}
    assert not modules & {"numpy", "pyarrow", "pydantic", "opendp", "scipy"}


def test_opening_a_public_log_loads_nothing_confidential():
    modules = loaded("stream_dp.open; stream_dp.PublicLog")
    for name in ("services", "population", "batch", "evaluation"):
        assert not {m for m in modules if f"{m}.".startswith(f"stream_dp.{name}.")}


def test_a_type_checker_sees_the_names_that_there_are():
    assert typed() == stream_dp._HOMES
    assert stream_dp.__all__ == sorted(stream_dp._HOMES)


@pytest.mark.parametrize("name", stream_dp.__all__)
def test_a_public_name_is_there_and_has_words_of_its_own(name):
    value = getattr(stream_dp, name)
    assert value.__name__ == name
    assert value.__module__.startswith("stream_dp.")
    words = value.__dict__["__doc__"] if isinstance(value, type) else value.__doc__
    assert words
    assert not words.startswith(f"{name}("), "a dataclass without a docstring"
    assert name in dir(stream_dp)


def test_no_name_is_hidden_by_a_module():
    assert not [n for n in stream_dp.__all__ if (ROOT / "stream_dp" / f"{n}.py").exists()]
    assert not [n for n in stream_dp.__all__ if (ROOT / "stream_dp" / n).exists()]


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'panels'"):
        _ = stream_dp.panels


def test_the_pages_have_the_public_names_and_no_others(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "writer"))
    pages = import_module("python_api")
    names = [name for names in pages.NAMES.values() for name in names]
    assert sorted(names) == stream_dp.__all__
    for page, listed in pages.NAMES.items():
        assert [*re.findall(r"^## (\w+)$", pages.markdown(page), re.M)] == [*listed]


@pytest.mark.parametrize("module", sorted(stream_dp._MODULES.keys() | WITH_EXAMPLES))
def test_examples_in_docstrings_hold(module):
    results = doctest.testmod(import_module(f"stream_dp.{module}"))
    assert results.failed == 0
    assert results.attempted > 0 or module not in WITH_EXAMPLES
