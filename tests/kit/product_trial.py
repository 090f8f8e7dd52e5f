"""Runs a contract on copies of the product, each with a change of its own.

`python -m kit.product_trial CONTRACT KIND FOLDER...` prints a line of JSON for each folder: the
first fault that the module CONTRACT finds in the kind, or null. A folder has a package `stream_dp`.
Libraries are loaded once. The product is loaded anew for a copy in which a loaded module is another
one. Each contract runs in a fork, which loads the copy's other modules.
"""

from __future__ import annotations

import filecmp
import importlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from . import fork_server, run_results

OWN = ("stream_dp", "kit", "study_keys")
ROOT = Path(__file__).parents[2]
Fault = tuple[str, str] | None


def first_faults(contract: str, kind: str, folders: Sequence[Path]) -> list[Fault]:
    """The first fault of a kind in each product: a part, and what is wrong with it."""
    paths = [ROOT / "tests", ROOT / "docs" / "writer"]
    done = fork_server.run(
        *("-m", __name__, contract, kind, *folders),
        # No results of the product itself.
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            run_results.FOLDER: "",
        },
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _loaded(contract: str, folder: str) -> ModuleType:
    """The contract, with the product of a folder."""
    for name in list(sys.modules):
        if name.split(".")[0] in OWN:
            del sys.modules[name]
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(contract)
    finally:
        sys.path.remove(folder)


def _files() -> list[str]:
    """The files of the product's loaded modules."""
    modules = [module for name, module in sys.modules.items() if name.split(".")[0] == "stream_dp"]
    return [str(module.__file__) for module in modules]


def _is_loaded(before: str, folder: str) -> bool:
    """Whether a copy has all modules that were loaded from another copy."""
    copies = [(file, file.replace(before, folder)) for file in _files()]
    return all(Path(copy).exists() and filecmp.cmp(file, copy) for file, copy in copies)


def _move(contract: Any, before: str, folder: str) -> None:
    """Other modules are those of another copy."""
    for name, module in sys.modules.items():
        if name.split(".")[0] == "stream_dp" and hasattr(module, "__path__"):
            module.__path__ = [path.replace(before, folder) for path in module.__path__]
    contract.FOLDER = Path(str(contract.FOLDER).replace(before, folder))
    importlib.invalidate_caches()
    assert contract.FOLDER.is_relative_to(folder)


def _print_faults(name: str, kind: str, folders: Sequence[str]) -> None:
    contract: Any = None
    before = ""
    for folder in folders:
        if contract is None or not _is_loaded(before, folder):
            contract, before = None, folder
            try:
                contract = _loaded(name, folder)
            except (AttributeError, TypeError) as error:  # of a table that lacks a part
                print(json.dumps(("table", str(error))), flush=True)
                continue
            assert all(file.startswith(folder) for file in _files())
        child = os.fork()
        if not child:
            _move(contract, before, folder)
            print(json.dumps(contract.first_fault_of(kind)), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, folder


if __name__ == "__main__":
    sys.dont_write_bytecode = True  # a copy has links to the product's folders
    _print_faults(sys.argv[1], sys.argv[2], sys.argv[3:])
