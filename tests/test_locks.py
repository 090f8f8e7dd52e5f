"""The locks: complete, with hashes, one version each on every Python; and what is released."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS = dict(PROJECT["project"]["optional-dependencies"])
BASE = ROOT / "requirements.lock"
PYTHONS = ("3.11.2", "3.11.14", "3.12.3", "3.13.5", "3.14.0")  # Debian 12's is the first
CUDA = "batch-cuda12"  # JAX for a GPU, which no extra installs
BENCHMARKS = "benchmarks"  # what programs in benchmarks/ need besides
SOURCES = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "requirements.lock")


def entries(path: Path) -> list[str]:
    """A lock's requirements with their hashes, those of the lock that it includes among them."""
    text = path.read_text("utf-8").replace("\\\n", " ")
    found: list[str] = []
    for line in text.splitlines():
        if line.startswith("-r "):
            found += entries(path.parent / line.removeprefix("-r "))
        else:
            found.append(line)
    return found


def requirement(entry: str) -> Requirement:
    return Requirement(entry.partition(" --hash=")[0])


def pins(path: Path, python: str) -> dict[str, str]:
    """Versions by name, as they are installed on Linux by a version of Python."""
    environment = dict(default_environment(), python_full_version=python, sys_platform="linux")
    environment["python_version"] = ".".join(python.split(".")[:2])
    chosen = [
        one
        for one in map(requirement, entries(path))
        if one.marker is None or one.marker.evaluate(environment)
    ]
    versions = {canonicalize_name(one.name): str(one.specifier) for one in chosen}
    assert len(versions) == len(chosen)
    assert all(re.fullmatch(r"==[^*]+", version) for version in versions.values())
    return {name: version.removeprefix("==") for name, version in versions.items()}


def lock_of(extra: str) -> Path:
    return ROOT / "requirements" / f"{extra}.lock"


def test_each_extra_has_a_lock() -> None:
    names = {path.stem for path in (ROOT / "requirements").glob("*.lock")}
    assert names == {*EXTRAS, CUDA, BENCHMARKS}
    for extra in names:
        assert lock_of(extra).read_text().startswith("-r ../requirements.lock\n")


def test_the_compiled_reader_has_the_version_of_the_package_and_a_lock() -> None:
    version, folder = PROJECT["project"]["version"], ROOT / "native"
    for name in ("Cargo.toml", "pyproject.toml"):
        described = tomllib.loads((folder / name).read_text("utf-8"))
        assert (described.get("package") or described["project"])["version"] == version
    crates = tomllib.loads((folder / "Cargo.lock").read_text("utf-8"))["package"]
    assert all("checksum" in crate for crate in crates if crate["name"] != "stream-dp-native")


@pytest.mark.parametrize(
    "path", [BASE, *map(lock_of, (*EXTRAS, CUDA, BENCHMARKS))], ids=lambda path: path.stem
)
def test_every_requirement_has_hashes(path: Path) -> None:
    for entry in entries(path):
        assert re.search(r"( +--hash=sha256:[0-9a-f]{64})+$", entry), entry


@pytest.mark.parametrize("python", PYTHONS)
def test_locks_have_what_the_project_requires(python: str) -> None:
    base = pins(BASE, python)
    always = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"]]
    for text in [*always, *EXTRAS["monitor"]]:
        assert base[canonicalize_name(Requirement(text).name)] in Requirement(text).specifier
    together = dict(base)
    for extra in (*EXTRAS, BENCHMARKS):
        own = pins(lock_of(extra), python)
        for text in EXTRAS.get(extra, ()):
            assert own[canonicalize_name(Requirement(text).name)] in Requirement(text).specifier
        # Extras can be installed together.
        assert all(together.setdefault(name, own[name]) == own[name] for name in own)


@pytest.mark.parametrize("python", PYTHONS)
def test_a_gpu_has_the_same_versions_and_its_own_libraries(python: str) -> None:
    gpu, processor = pins(lock_of(CUDA), python), pins(lock_of("batch"), python)
    assert gpu.items() >= processor.items()
    assert gpu["jax-cuda12-plugin"] == gpu["jax-cuda12-pjrt"] == processor["jaxlib"]
    added = set(gpu) - set(processor)
    assert all(name.startswith(("jax-cuda12", "nvidia-")) for name in added)


def test_commands_install_from_locks_with_hashes_alone() -> None:
    """Nothing is built with, or beside, what no lock names."""
    commands = [(ROOT / "tests" / "run").read_text(), (ROOT / "README.md").read_text()]
    for text in commands:
        assert "--require-hashes -r" in text
        assert re.search(r"(install|uv) (-q )?--no-deps --no-build-isolation", text)


def built(clone: Path, out: Path, **environment: str) -> dict[str, bytes]:
    command = [str(clone / ".ci" / "build"), str(out)]
    everything = {**os.environ, "PYTHON": sys.executable, **environment}
    done = subprocess.run(command, env=everything, capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    return {path.name: path.read_bytes() for path in out.iterdir()}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return built(ROOT, tmp_path_factory.mktemp("release"))


def test_a_release_is_the_same_wherever_and_whenever_it_is_built(
    release: dict[str, bytes], tmp_path: Path
) -> None:
    """Another folder, other times, other rights, what was built before, another time zone."""
    clone = tmp_path / "another" / "clone"
    clone.mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__")
    for name in SOURCES:
        shutil.copy(ROOT / name, clone)
    for name in ("deploy", "services", "stream_dp", ".ci"):
        shutil.copytree(ROOT / name, clone / name, symlinks=True, ignore=ignored)
    for i, path in enumerate(sorted(clone.rglob("*"))):
        if path.is_file() and not path.is_symlink():
            os.utime(path, (1e9 + i, 1e9 + i))
            path.chmod(0o700 if path.stat().st_mode & 0o100 else 0o600)
    (clone / "build" / "lib" / "stream_dp").mkdir(parents=True)
    (clone / "build" / "lib" / "stream_dp" / "stale.py").touch()
    (clone / "deploy" / "secrets").mkdir()
    (clone / "deploy" / "secrets" / "admin.txt").write_text("a password")
    assert built(clone, tmp_path / "out", TZ="Asia/Tokyo") == release


def test_the_bill_of_materials_is_valid_and_names_what_the_lock_names(
    release: dict[str, bytes],
) -> None:
    (name,) = (name for name in release if name.endswith(".cdx.json"))
    text = release[name].decode()
    # Imported here: grammars of the validator take seconds in every process that collects tests.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    assert bill["metadata"]["component"]["name"] == "stream-dp"
    assert bill["metadata"]["component"]["version"] == PROJECT["project"]["version"]
    named = {
        f"{one['name']}=={one['version']}": {
            found["content"]
            for reference in one["externalReferences"]
            for found in reference.get("hashes", [])
        }
        for one in bill["components"]
    }
    assert named == {
        f"{requirement(entry).name}{requirement(entry).specifier}": set(
            re.findall(r"sha256:([0-9a-f]{64})", entry)
        )
        for entry in entries(BASE)
    }
