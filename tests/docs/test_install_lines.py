"""Lines that install: of the README from any Debian 12, of all pages never from an index."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.tools import needs

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = re.findall(r"^    (apt-get update.*)$", README, re.M)


def packages(command: str) -> list[str]:
    """The names that a command gives to apt."""
    (words,) = re.findall(r"apt-get install ([^&;|]*)", command)
    return [word for word in words.split() if not word.startswith("-")]


def installed(name: str, version: str, **fields: str) -> str:
    """A package in dpkg's words, as it stands on a machine that has it."""
    entry = {
        "Package": name,
        "Status": "install ok installed",
        "Maintainer": "another vendor",
        "Architecture": "all",
        "Version": version,
        **fields,
        "Description": name,
    }
    return "".join(f"{key}: {value}\n" for key, value in entry.items()) + "\n"


REPLACED = "nodejs-dev, nodejs-legacy, npm"
NODE = installed("nodejs", "99.1-1nodesource1", Provides=REPLACED, Conflicts=REPLACED)
JAVA = installed(
    "vendor-25-jdk",
    "25.0.1",
    Provides="java-sdk, java-runtime, java-runtime-headless, java7-runtime-headless, java25-sdk",
)
R = installed("r-base-core", "99.5.1-1~bookwormcran.0", Provides="r-api-4.0")
CHROME = installed("google-chrome-stable", "150.0", Provides="www-browser")
EXCLUDING = installed("another", "1.0", Conflicts="tree")
# The project's names belong to nobody in an index of packages: who registers them runs code on the
# machines of those who follow such a line. A path or a wheel's file name asks no index.
FROM_INDEX = re.compile(
    r"\b(?:pip[\d.]*|pipx|uvx?|poetry|conda|mamba|pixi|pdm)\s[^\n;&|#`]*?"
    r"\b(?:install|add|download|wheel|run)\s+[^\n;&|#`]*?"
    r"(?<![\w./-])stream[-_.]?dp(?:-native)?(?![\w.-]*\.(?:whl|tar\.gz))(?=[\s'\"`\[=<>~,;]|$)"
    r"|\buvx\s+stream-dp"
    r"|install\.packages\([^)]*[\"']stream"
)
TEXTS = {".md", ".py", ".toml", ".txt", ".html", ".yaml", ".yml", ".sh", ".service", ".conf", ".R"}
TEXTS |= {".Rd", ".ipynb", ".cfg", ".lock", ".tpl", ""}
PLACES = ("benchmarks", "deploy", "docs", "examples", "native", "r", "requirements", "services")
MACHINES = {"bare": "", "of other vendors": NODE + JAVA + R + CHROME}


def simulated(machine: str, names: list[str], read: Path) -> subprocess.CompletedProcess[str]:
    """What apt would fetch for a machine that has nothing but these packages; it removes none.

    read: a file for what apt has read of its lists; the machine is described beside it.

    It resolves the packages and does not put them in order, which takes longer than that.
    """
    status = read.with_name("status")
    status.write_text(machine)
    command = ["apt-get", "--print-uris", "--yes", "--no-remove", "--no-install-recommends"]
    command += ["-o", f"Dir::State::status={status}", "-o", f"Dir::Cache::srcpkgcache={read}"]
    command += ["install", *names]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def bookworm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """On Debian 12 the file of what apt has read of its lists, which it then reads once."""
    system = Path("/etc/os-release")
    if not system.exists() or "VERSION_CODENAME=bookworm" not in system.read_text():
        pytest.skip("this is no Debian 12")
    read = tmp_path_factory.mktemp("apt") / "read"
    words = ["apt-cache", "-o", f"Dir::Cache::srcpkgcache={read}", "show", "maven"]
    if subprocess.run(words, capture_output=True, timeout=600).returncode:
        pytest.skip("apt has no lists of packages: apt-get update")
    return read


def test_both_commands_install_with_apt() -> None:
    assert len(COMMANDS) == 2
    assert all("python3-venv" in packages(command) for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_asked_for_that_another_vendors_package_excludes(command: str) -> None:
    assert not {"npm", "nodejs"} & set(packages(command))


def pages() -> Iterator[Path]:
    """The texts of the project but its tests: pages, messages of programs, scripts, metadata."""
    yield from (path for path in ROOT.glob("*") if path.is_file() and path.suffix in TEXTS)
    for place in (*PLACES, "stream_dp"):
        for path in (ROOT / place).rglob("*"):
            inside = {"target", "node_modules", "__pycache__"} & set(path.parts)
            if path.is_file() and path.suffix in TEXTS and not inside:
                yield path


def test_no_page_or_message_installs_stream_dp_from_an_index() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in pages()
        for match in FROM_INDEX.finditer(path.read_text("utf-8", "replace"))
    }
    assert not found


@pytest.mark.parametrize(
    "line",
    [
        "pip install stream-dp",
        "pip install 'stream-dp[batch,s3]'",
        "needs JAX: pip install\n'stream-dp[batch]'.",
        "python -m pip install -U stream-dp==1.0.0",
        "uv pip install stream_dp",
        "uv add stream-dp",
        "uvx stream-dp demo",
        "pipx install stream-dp",
        "pip install .[native] stream-dp-native",
        "install.packages('streamdp')",
    ],
)
def test_a_line_that_asks_an_index_is_seen(line: str) -> None:
    assert FROM_INDEX.search(line)


@pytest.mark.parametrize(
    "line",
    [
        "in a clone of stream-dp: pip install '.[batch]'",
        "pip install ./native '.[spark]'",
        "pip install ./stream_dp-1.0.0-py3-none-any.whl",
        "pip install -q --no-deps . && .venv/bin/stream-dp demo",
        "pip install -r requirements/batch.lock\n    stream-dp worker STUDY.toml",
    ],
)
def test_a_line_that_asks_no_index_is_not_seen(line: str) -> None:
    assert not FROM_INDEX.search(line)


@needs("apt-get")
@pytest.mark.parametrize("machine", MACHINES)
def test_apt_would_install_all_of_it(machine: str, bookworm: Path) -> None:
    """That of the tests, which asks for all that the demo asks for."""
    demo, tests = map(packages, COMMANDS)
    assert set(demo) <= set(tests)
    done = simulated(MACHINES[machine], tests, bookworm)
    assert done.returncode == 0, done.stderr
    assert all(f"/{name}_" in done.stdout for name in ("maven", "chromium", "r-cran-jsonlite"))


@needs("apt-get")
def test_apt_would_refuse_what_a_package_excludes(bookworm: Path) -> None:
    """The simulation sees a conflict where there is one."""
    assert simulated("", ["tree"], bookworm).returncode == 0
    assert simulated(EXCLUDING, ["tree"], bookworm).returncode == 100


def test_an_archive_of_the_sources_has_what_the_commands_need() -> None:
    lines = (ROOT / "MANIFEST.in").read_text("utf-8").splitlines()
    taken = {name for line in lines for name in line.split()[1:]}
    folders = "benchmarks deploy docs examples native r requirements services tests"
    assert taken >= {*folders.split(), ".ci", "requirements.lock", "mkdocs.yml"}
