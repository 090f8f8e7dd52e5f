"""Runs the contract of kinds of releases on copies of the product, each with a change of its own.

`python -m kit.kind_trial KIND FOLDER...` prints a line of JSON for each folder: its first fault, or
null. A folder has a package `stream_dp`. Libraries are loaded once, the
product anew for each folder.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

OWN = ("stream_dp", "kit", "study_keys")


def fault(kind: str, folder: str) -> tuple[str, str] | None:
    """The first fault of a kind in the product of a folder: a part, and what is wrong with it."""
    for name in list(sys.modules):
        if name.split(".")[0] in OWN:
            del sys.modules[name]
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        contract: Any = importlib.import_module("kit.kind_contract")
        assert contract.FOLDER.is_relative_to(folder)
        found: tuple[str, str] | None = contract.first_fault(contract.Kind(kind))
        return found
    except (AttributeError, TypeError) as error:  # of a table that lacks a part
        return "table", str(error)
    finally:
        sys.path.remove(folder)


if __name__ == "__main__":
    for each in sys.argv[2:]:
        print(json.dumps(fault(sys.argv[1], each)), flush=True)
