"""Whether the tests find faults: plants one mutation at a time and runs the tests that must fail.

`mutations.toml` lists the mutations. Each replaces a text that occurs exactly once in a file of the
product, in a copy of the tree. The table says which test found a mutation, and the CPU seconds of
its tests up to there. The exit code is 1 if a mutation survives. With --control the tests also run
without any mutation, and have to pass. STREAM_DP_TEST_KAFKA names a broker for the tests of the log
on Kafka, as for `tests/run`.

python benchmarks/mutations.py [NAME ...]         the named mutations or areas, or all of them
python benchmarks/mutations.py --check            only finds the texts and the tests
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = (
    *("stream_dp", "services", "tests", "deploy", "docs", "examples", "benchmarks"),
    *("pyproject.toml", "README.md"),
)
_FAILED = re.compile(r"^(?:FAILED|ERROR) tests/(\S+)", re.MULTILINE)
_clock = itertools.count(1_000_000_000, 2)  # of written files: each differs from its compiled one


@dataclass(frozen=True)
class Mutation:
    """A planted fault.

    file: of the product, from the root.
    old, new: the text, and what takes its place.
    tests: files or functions below tests/, of which one must fail.
    """

    area: str
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def fault(self, root: Path) -> str | None:
        """Returns why the mutation cannot be planted or found in a tree; None if it can."""
        path = root / self.file
        count = path.read_text().count(self.old) if path.is_file() else 0
        if count != 1:
            return f"{self.name}: its text occurs {count} times in {self.file}, not once"
        for test in self.tests:
            name, _, function = test.partition("::")
            path = root / "tests" / name
            if not path.exists():
                return f"{self.name}: there is no tests/{name}"
            if function and not _runs_by_default(path.read_text(), function):
                return f"{self.name}: tests/{name} has no {function}, or it is slow"
        return None


def _runs_by_default(text: str, function: str) -> bool:
    """Tells whether a test file has a test that is not marked slow."""
    found = re.search(rf"((?:^@.*\n(?:^[ )\]].*\n)*)*)^def {function}\(", text, re.MULTILINE)
    return found is not None and "mark.slow\n" not in found[1]


def read_mutations() -> list[Mutation]:
    """Reads the list of mutations."""
    rows = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["mutation"]
    return [Mutation(**{**row, "tests": tuple(row["tests"])}) for row in rows]


def failing_test(root: Path, tests: tuple[str, ...]) -> str | None:
    """Runs tests in the copy up to the first that fails, and returns its name.

    Ends the program if the tests cannot be run.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += ["-m", "not slow", *(f"tests/{test}" for test in tests)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(root),
        "OPENBLAS_NUM_THREADS": "1",
        "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".jax-cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
        "COLUMNS": "300",
    }
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    found = _FAILED.search(done.stdout)
    if done.returncode != 1 or found is None:
        sys.exit(f"{' '.join(command)}:\n{done.stdout[-3000:]}{done.stderr[-2000:]}")
    return found[1]


def written(path: Path, text: str) -> None:
    """Writes a file with a time of its own, so that no compiled file of another text is read."""
    path.write_text(text)
    moment = next(_clock)
    os.utime(path, (moment, moment))


def found_by(root: Path, mutation: Mutation) -> str | None:
    """Plants a mutation in the copy, runs its tests, and takes it back.

    Returns the first failing test; None if the mutation survives.
    """
    path = root / mutation.file
    text = path.read_text()
    written(path, text.replace(mutation.old, mutation.new))
    try:
        return failing_test(root, mutation.tests)
    finally:
        written(path, text)


def copied_tree(root: Path) -> None:
    """Copies what the tests need."""
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, symlinks=True, ignore=ignore)
        else:
            shutil.copy(ROOT / name, root / name)
    for name in (".kafka", ".tools"):
        (root / name).symlink_to(ROOT / name)


def cpu_seconds() -> float:
    """Returns the CPU seconds of all finished processes of this program."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--control", action="store_true")
    options = parser.parse_args()
    mutations = read_mutations()
    if unknown := {*options.names} - {n for m in mutations for n in (m.name, m.area)}:
        sys.exit(f"no such mutation: {min(unknown)}")
    chosen = [m for m in mutations if not options.names or {m.name, m.area} & {*options.names}]
    for mutation in chosen:
        if (fault := mutation.fault(ROOT)) is not None:
            sys.exit(f"mutation {fault}")
    print(f"{len(chosen)} mutations, each at one place")
    if options.check:
        return
    with tempfile.TemporaryDirectory(prefix="stream-dp-") as folder:
        root = Path(folder)
        copied_tree(root)
        if options.control:
            tests = tuple(dict.fromkeys(test for m in chosen for test in m.tests))
            if (failed := failing_test(root, tests)) is not None:
                sys.exit(f"a test fails without a mutation: {failed}")
        survivors = 0
        print(f"{'area':<10} {'mutation':<34} {'CPU s':>6}  found by")
        for mutation in chosen:
            before = cpu_seconds()
            found = found_by(root, mutation)
            survivors += found is None
            print(
                f"{mutation.area:<10} {mutation.name:<34} {cpu_seconds() - before:>6.1f} "
                f" {found or 'NO TEST: IT SURVIVES'}",
                flush=True,
            )
    print(f"{len(chosen) - survivors} of {len(chosen)} found")
    sys.exit(survivors > 0)


if __name__ == "__main__":
    main()
