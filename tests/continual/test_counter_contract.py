"""Every stream counter keeps the contract, and a part that is left out is named."""

import shutil
from pathlib import Path

import pytest
from kit import counter_contract
from kit.counter_contract import CHECKS
from kit.product_trial import first_faults

import stream_dp
from stream_dp.continual.counters.methods import module_name
from stream_dp.study import CounterKind


@pytest.mark.parametrize("part", list(CHECKS))
@pytest.mark.parametrize("kind", list(CounterKind))
def test_a_counter_keeps_the_contract(kind, part):
    CHECKS[part](kind)


def test_every_module_with_a_method_has_a_kind():
    assert counter_contract.nameless() is None
    assert counter_contract.modules() == {module_name(kind) for kind in CounterKind}


# A new counter, in the two files that docs/how-to/add-a-kind.md names.
KIND = '    SLOPED = "sloped", "A counter for a trial."\n'
MODULE = '''"""A counter for a trial: a Toeplitz matrix whose rows weigh early entries more."""

import numpy as np

from .methods import CounterMethod
from .stream_counters import BITS, Counter, TriangularCounter
from .toeplitz import power_coefficients, toeplitz


def sloped(n: int) -> Counter:
    column = np.rint(power_coefficients(0.6, n) * (1 << BITS))
    return TriangularCounter(toeplitz(column).astype(np.int64))


METHOD = CounterMethod(
    title="sloped counters (a trial)",
    of_length=sloped,
)
'''
# By the part that a check is to name: what stands in a file of the new counter, and in its place.
LEFT_OUT = {
    "nothing": ("", ""),
    "module": (MODULE, ""),
    "METHOD": (MODULE[MODULE.index("METHOD") :], ""),
    "title": ("sloped counters (a trial)", ""),
    "factorization": ("astype(np.int64))", "astype(np.int64), lambda: np.tril(np.ones((n, n))))"),
    "error": ("(0.6, n)", "(3.0, n)"),
    "whole_matrices": ("of_length=sloped", "of_length=sloped, whole_matrices=True"),
    "whole_sums": ("of_length=sloped", "of_length=sloped, whole_sums=True"),
    "shorter": ("* (1 << BITS)", "* ((1 << BITS) - n)"),
    "endless_column2": ("of_length=sloped", "of_length=sloped, endless_column2=lambda: 1"),
    # In the table, with which the product is loaded anew.
    "CounterKind": (KIND, ""),
    "about": ("A counter for a trial.", ""),
}


def product_with(folder, replaced, by):
    """A copy of the product with the new counter, in which one text is another."""
    package = folder / "stream_dp"
    package.mkdir(parents=True)
    source = Path(stream_dp.__file__).parent
    for path in source.iterdir():
        if path.name not in ("study", "continual"):
            (package / path.name).symlink_to(path)
    for name in ("study", "continual"):
        shutil.copytree(source / name, package / name)  # with what Python has compiled
    families = package / "study" / "families.py"
    before, members, after = families.read_text("utf-8").partition('    TREE = "tree"')
    assert members
    families.write_text(before + KIND.replace(replaced, by) + members + after, "utf-8")
    if module := MODULE.replace(replaced, by):
        (package / "continual" / "counters" / "sloped.py").write_text(module, "utf-8")
    return folder


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """By part that was left out, the first fault that the contract finds."""
    base = tmp_path_factory.mktemp("trial")
    folders = [product_with(base / part, replaced, by) for part, (replaced, by) in LEFT_OUT.items()]
    return dict(
        zip(LEFT_OUT, first_faults(counter_contract.__name__, "sloped", folders), strict=True)
    )


def test_a_counter_touches_two_files(trial):
    assert trial["nothing"] is None


@pytest.mark.parametrize("part", [part for part in LEFT_OUT if part != "nothing"])
def test_a_part_that_is_left_out_is_named(trial, part):
    named, _ = trial[part]
    assert named == part
