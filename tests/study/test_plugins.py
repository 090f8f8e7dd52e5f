"""Mechanisms of other packages: an example runs, and a broken package is one line."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kit import fork_server

import stream_dp
from stream_dp.study import CounterKind, Kind, plugins

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_mechanism"
TABLES = {
    "homes.csv": "household,region\n1,north\n2,south\n",
    "members.csv": "household,person\n1,a\n1,b\n2,c\n2,d\n",
    "work.csv": "person,2026-01,2026-02\na,yes,no\nb,no,no\nc,yes,yes\nd,yes,no\n",
}
STUDY = {
    "study": {
        **{"name": "work", "unit": "person", "neighbours": "replace_one", "rho": 1},
        **{"delta": "1/1000000", "population": {"size": 2}},
        "periods": {"first": 1, "every": "step", "count": 2},
    },
    "attributes": {"work": {"values": ["no", "yes"], "missing": "no"}},
}
TOTALS = {"name": "totals", "kind": "cumulative", "attribute": "work", "event": ["yes"], "rho": 1}
RUN = """
import sys, warnings
warnings.simplefilter("error")
from stream_dp.services.commands.cli import main
for command in (
    "check homes.toml",
    "groups homes.toml homes.csv members.csv --group household --person person",
    "send homes.toml work.csv --attribute work",
    "close homes.toml 2026-02 --yes",
    "run homes.toml --until-idle",
    "verify homes.toml",
    "releases homes.toml --json",
):
    sys.argv = ["stream-dp", *command.split()]
    print("COMMAND")
    try:
        main()
    except SystemExit as end:
        assert not end.code, command
"""


def test_the_example_is_installed_checked_and_run(tmp_path):
    """A package of 60 lines adds a counter and a kind, which study files then name."""
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(EXAMPLE, source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    pip += ["--no-build-isolation", "--disable-pip-version-check", "--target", str(site)]
    subprocess.run([*pip, str(source)], check=True)
    shutil.copy(EXAMPLE / "homes.toml", tmp_path)
    for name, text in TABLES.items():
        (tmp_path / name).write_text(text, "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = fork_server.run("-c", RUN, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    _, check, *_, verify, releases = done.stdout.split("COMMAND\n")
    assert " ".join(check.split()).count("package own-mechanism, whose author answers for the") == 2
    assert "journal and public log agree" in verify
    assert [r["release"] for r in json.loads(releases)["releases"]] == ["months", "months", "homes"]
    # An analyst without the package is told what is missing.
    with pytest.raises(stream_dp.UserError, match="another package needs that package"):
        stream_dp.open(f"sqlite:{tmp_path / 'homes-public.db'}")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Adds a package with an entry point to the path."""

    def add(group, name, value, package="broken", code=""):
        folder = tmp_path / package
        info = folder / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {package}_code:{value}\n")
        (folder / f"{package}_code.py").write_text(code)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, f"{package}_code", raising=False)

    plugins.plugin.cache_clear()
    yield add
    plugins.plugin.cache_clear()
    for kinds in (Kind, CounterKind):
        for name in kinds._value2member_map_.keys() - {*kinds}:
            del kinds._value2member_map_[name]


def fault(**release):
    with pytest.raises(stream_dp.UserError) as refused:
        stream_dp.plan_study(stream_dp.parse_study({**STUDY, "releases": [TOTALS | release]}))
    (line,) = refused.value.lines
    return line


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise OSError('no\\nfile')", "cannot be loaded: OSError: no file; mend or uninstall it"),
        ("import no_such_module", "cannot be loaded: ModuleNotFoundError: "),
        ("", "cannot be loaded: AttributeError: "),
        ("VALUE = 3", "is of the type int, not {type}; mend or uninstall it"),
    ],
)
def test_a_broken_package_is_one_line(package, code, words):
    package(plugins.KINDS, "mine", "VALUE", "bad_kind", code)
    line = fault(kind="mine")
    assert line.startswith("releases[1].kind: 'mine' of the package bad_kind ")
    assert words.format(type="DataSetKind") in line
    package(plugins.COUNTERS, "plain", "VALUE", "bad_counter", code)
    line = fault(counter="plain")
    assert line.startswith("'plain' of the package bad_counter ")
    assert words.format(type="CounterMethod") in line


def test_a_name_has_one_package(package):
    for name in ("first", "second"):
        package(plugins.KINDS, "mine", "VALUE", name)
    assert "is of several packages: first, second; uninstall all but one" in fault(kind="mine")


def test_a_package_replaces_no_mechanism_of_this_one(package):
    package(plugins.KINDS, "window", "VALUE")
    package(plugins.COUNTERS, "tree", "VALUE", "other")
    assert Kind.named("window") is Kind.WINDOW
    assert CounterKind.named("tree") is CounterKind.TREE
    assert Kind.named("nobody") is CounterKind.named("nobody") is Kind.named(3) is None
    assert fault(kind="nobody").startswith("releases[1].kind: must be one of window, ")
