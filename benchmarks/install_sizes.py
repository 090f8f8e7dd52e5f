"""Megabytes on the disk of a plain install and of each extra, from the installed files.

    python benchmarks/install_sizes.py

Every extra must be installed. An extra counts the packages that a plain install does not have, with
all that they require. The files are those that the packages list; compiled `.pyc` files count where
they are listed.
"""

from __future__ import annotations

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from result_file import record

PRODUCT = "stream-dp"
EXTRAS = ("batch", "monitor", "tables", "avro", "trust", "s3", "spark")


def required(package: Distribution, extra: str) -> set[str]:
    """The packages that a package requires, with an extra or without one ("")."""
    names = set()
    for line in package.requires or ():
        condition = re.search(r"extra\s*==\s*['\"]([^'\"]+)", line)
        if (condition[1] if condition else "") == extra:
            names.add(re.split(r"[^A-Za-z0-9._-]", line)[0].lower())
    return names


def closure(names: set[str]) -> set[str]:
    """These packages and all that they require, where they are installed."""
    found, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop().replace("_", "-")
        if name in found:
            continue
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue  # for other systems or versions
        found.add(name)
        waiting += required(package, "")
    return found


def megabytes(names: set[str]) -> float:
    total = 0
    for name in names:
        for file in distribution(name).files or ():
            path = file.locate()
            total += path.stat().st_size if path.is_file() else 0  # type: ignore[attr-defined]
    return total / 1e6


def main() -> None:
    product = distribution(PRODUCT)
    plain = closure(required(product, ""))
    rows = {"plain": plain} | {extra: closure(required(product, extra)) - plain for extra in EXTRAS}
    for row, names in rows.items():
        large = sorted(names, key=lambda name: -megabytes({name}))[:3]
        text = ", ".join(f"{name} {megabytes({name}):,.0f}" for name in large)
        record("install-sizes", row, megabytes(names), len(names), text)
        print(f"{row:<10}{megabytes(names):>8,.0f} MB{len(names):>4}  {text}", flush=True)


if __name__ == "__main__":
    main()
