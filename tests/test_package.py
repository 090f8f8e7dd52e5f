"""The wheel and the sdist: whole, of the same contents, and with metadata that an index takes."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata

ROOT = Path(__file__).parents[1]
BUILD = "from setuptools import build_meta; import sys; build_meta.{}(sys.argv[1])"
PARTS = ["pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "deploy", "services", "stream_dp"]


def build(kind, source, out):
    """The one file of that kind that is built from a folder."""
    code = BUILD.format(f"build_{kind}")
    done = subprocess.run(
        [sys.executable, "-c", code, str(out)], cwd=source, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (path,) = out.iterdir()
    return path


def contents(wheel):
    with zipfile.ZipFile(wheel) as file:
        return {name: file.read(name) for name in file.namelist()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The sources with their links, as a clone has them, and nothing that was built before."""
    folder = tmp_path_factory.mktemp("package") / "clone"
    folder.mkdir()
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, symlinks=True, ignore=ignore)
        else:
            shutil.copy(source, folder)
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=ignore)
    return folder


@pytest.fixture(scope="module")
def wheel(folder, tmp_path_factory):
    return contents(build("wheel", folder, tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="module")
def sdist(folder, tmp_path_factory):
    """The folder that the sdist unpacks to."""
    out = tmp_path_factory.mktemp("sdist")
    path = build("sdist", folder, out)
    with tarfile.open(path) as file:
        file.extractall(out, filter="data")
    return out / path.name.removesuffix(".tar.gz")


def version(wheel):
    (name,) = (name for name in wheel if name.endswith(".dist-info/METADATA"))
    return name.removeprefix("stream_dp-").removesuffix(".dist-info/METADATA")


def files(folder, skip=()):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not {"__pycache__", *skip} & set(path.parts)
    }


def test_the_wheel_has_every_file_of_the_library_and_no_other(wheel):
    names = {n: data for n, data in wheel.items() if n.startswith("stream_dp/")}
    library = {f"stream_dp/{n}": data for n, data in files(ROOT / "stream_dp").items()}
    library = {n: d for n, d in library.items() if not n.startswith("stream_dp/services/")}
    services = {f"stream_dp/services/{n}": d for n, d in files(ROOT / "services").items()}
    assert names == library | services
    assert "stream_dp/py.typed" in names
    roots = {name.split("/")[0] for name in wheel}
    own = f"stream_dp-{version(wheel)}"
    assert roots == {"stream_dp", f"{own}.dist-info", f"{own}.data"}


def test_the_wheel_has_what_runs_the_service_on_a_machine(wheel):
    shared = f"stream_dp-{version(wheel)}.data/data/share/stream-dp/deploy/"
    names = {n.removeprefix(shared): data for n, data in wheel.items() if n.startswith(shared)}
    assert names == files(ROOT / "deploy")


def test_the_sdist_has_its_tests_and_builds_the_same_wheel(wheel, sdist, tmp_path):
    assert (sdist / "tests" / "run").is_file()
    assert (sdist / "stream_dp" / "services").is_dir()
    other = contents(build("wheel", sdist, tmp_path))
    differing = {n for n in wheel.keys() | other.keys() if wheel.get(n) != other.get(n)}
    assert {name for name in differing if not name.endswith("/RECORD")} == set()


def test_metadata_are_valid_and_complete(wheel):
    data = wheel[f"stream_dp-{version(wheel)}.dist-info/METADATA"]
    metadata = Metadata.from_email(data, validate=True)
    assert metadata.description_content_type == "text/markdown"
    assert metadata.description == (ROOT / "README.md").read_text("utf-8")
    assert metadata.license_expression == "MIT AND Bitstream-Vera"
    assert metadata.keywords
    assert "Typing :: Typed" in (metadata.classifiers or [])
    assert not metadata.project_urls
