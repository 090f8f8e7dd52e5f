"""Who may import whom, read from the sources; and the library without its extras."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from stream_dp.services.commands import cli
from stream_dp.services.commands.cli import command_module

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "stream_dp"
SERVICES = ROOT / "services"


def sources():
    """Module names and files, services under the name that they are installed as."""
    for path in sorted(LIBRARY.rglob("*.py")):
        yield _name("stream_dp", path.relative_to(LIBRARY)), path
    for path in sorted(SERVICES.rglob("*.py")):
        yield _name("stream_dp.services", path.relative_to(SERVICES)), path


def _name(root, path):
    parts = [root, *path.with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = dict(sources())


def _package(name):
    return name if FILES[name].name == "__init__.py" else name.rpartition(".")[0]


def _is_typing_only(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


@cache
def imports(name, *, top=False):
    """What a module imports, anywhere in it, or at its top: full names of modules."""
    tree = ast.parse(FILES[name].read_text("utf-8"))
    names = set()
    if name == "stream_dp":  # imports its names when they are used: tests/test_front_door.py
        tree.body = [node for node in tree.body if not _is_typing_only(node)]
    for node in tree.body if top else ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                start = _package(name).split(".")
                start = start[: len(start) - (node.level - 1)]
                base = ".".join([*start, base]) if base else ".".join(start)
            names |= {f"{base}.{alias.name}" for alias in node.names} | {base}
    # `from x import name`: the name is a module or something in x.
    return frozenset(f for f in names if f in FILES or not f.startswith("stream_dp"))


def ours(name):
    return {f for f in imports(name) if f.startswith("stream_dp")} - {"stream_dp"}


def foreign(name):
    return {f.split(".")[0] for f in imports(name) if not f.startswith("stream_dp")}


def modules(prefix):
    return [name for name in FILES if name == prefix or name.startswith(f"{prefix}.")]


def allowed(name, *prefixes):
    """Whatever of ours a module imports and may not."""
    return {
        names
        for names in ours(name)
        if not any(names == p or names.startswith(f"{p}.") for p in prefixes)
    }


def reached(name, *, top=False):
    """Everything of ours that a module may load, or loads at once, itself included."""
    seen, todo = set(), [name]
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo += [f for f in imports(one, top=top) if f in FILES]
            todo += [one.rpartition(".")[0]] if one.rpartition(".")[0] in FILES else []
    return seen


# By folder or file: what of ours it may import, and whether it sees true values. What a longer
# name says holds for it alone. The documentation refers to this table.
FOLDERS = {
    "errors": ([], False),
    "json_object": ([], False),
    "notebook_html": ([], False),
    "compiled": ([], False),
    "privacy": (["privacy"], False),
    "panel": (["notebook_html"], False),
    "figures": (["figures", "errors"], False),
    "study": (
        [
            *("study", "errors", "json_object"),
            *("privacy.exact_numbers", "privacy.exact_tables", "privacy.ledger"),
        ],
        False,
    ),
    "studyfile": (["studyfile", "study", "errors", "batch", "json_object"], False),
    "log": (["log", "compiled", "errors", "json_object", "privacy.noise"], True),
    "population": (["population", "study", "errors", "compiled", "log.log", "log.records"], True),
    "continual": (["continual", "privacy", "study", "panel", "errors"], True),
    "batch": (
        [
            *("batch", "privacy", "population.arrow_tables", "population.celltext", "study"),
            *("panel", "errors"),
            *("answers.month_filters", "release.answer"),
        ],
        True,
    ),
    "release": (
        [
            *("release", "study", "continual", "panel", "privacy"),
            *("log.message", "log.signing", "errors", "notebook_html"),
        ],
        False,
    ),
    "release.answer": (["errors", "notebook_html"], False),
    "answers": (
        [
            *("answers", "study", "panel", "continual", "errors", "notebook_html"),
            *("release.answer", "release.published_panels"),
            "privacy.noise",
        ],
        False,
    ),
    "answers.answering": (["answers", "release", "study", "panel", "errors"], False),
    "answers.measurement_blocks": (["continual", "errors"], False),
    "answers.flat_answers": (["answers", "continual", "errors", "release", "study"], False),
    "answers.month_filters": ([], False),
    "answers.query": (["errors", "panel", "release.answer", "study"], False),
    "answers.linear_system": (["answers.measurement_blocks"], False),
    "planning": (
        [
            *("planning", "release", "answers", "study", "continual", "panel", "privacy"),
            *("batch.kinds", "batch.planned_phases", "errors", "figures", "json_object"),
            "notebook_html",
        ],
        False,
    ),
    "planning.plan": (
        [
            *("study", "errors", "json_object", "privacy", "continual", "batch.kinds", "release"),
            *("study.noisy_gate", "planning.plan", "notebook_html"),
        ],
        False,
    ),
    "client": (
        [
            *("release", "answers", "study", "panel", "log", "errors", "privacy"),
            "notebook_html",
        ],
        False,
    ),
}


def folder(name):
    """The row of the table that holds for a module."""
    own = name.removeprefix("stream_dp").removeprefix(".")
    rows = [row for row in FOLDERS if own == row or own.startswith(f"{row}.")]
    return max(rows, key=len, default=None)


# The services, and the module that runs their command line.
TOP = ("stream_dp.services", "stream_dp.__main__")
LIBRARY_MODULES = [n for n in FILES if n != "stream_dp" and not n.startswith(TOP)]


def test_every_module_imports_what_its_folder_may():
    for name in LIBRARY_MODULES:
        row = folder(name)
        assert row is not None, f"{name}: give it a row"
        assert allowed(name, *(f"stream_dp.{other}" for other in FOLDERS[row][0])) == set(), name


@pytest.mark.parametrize("path", [*LIBRARY.iterdir(), *SERVICES.iterdir()], ids=str)
def test_every_package_says_what_it_holds(path):
    """Contributors read the docstrings of packages as the map of the code."""
    file = path / "__init__.py" if path.is_dir() else path
    if file.is_file() and file.suffix == ".py" and file.stat().st_size:
        assert ast.get_docstring(ast.parse(file.read_text("utf-8"))), file


def test_the_graph_of_imports_has_no_circle():
    """At import time: what a function imports when it is called is no edge."""
    graph = {
        # A module's own package is there before the module.
        name: {f for f in imports(name, top=True) & FILES.keys() if not name.startswith(f)}
        for name in FILES
    }
    done, path = set(), []

    def visit(name):
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name not in done:
            path.append(name)
            for other in sorted(graph[name]):
                visit(other)
            done.add(path.pop())

    for name in FILES:
        visit(name)


def test_only_services_tie_things_together():
    for name in modules("stream_dp"):
        if not name.startswith(TOP):
            assert not [f for f in ours(name) if f.startswith("stream_dp.services")], name


def test_a_file_that_a_text_of_the_product_names_exists():
    texts = [*FILES.values(), *LIBRARY.rglob("*.md"), *(ROOT / "docs" / "mechanisms").glob("*.md")]
    names = {
        path.name
        for folder in (LIBRARY, SERVICES, ROOT / "benchmarks", ROOT / "deploy", ROOT / "tests")
        for path in folder.rglob("*.py")
    }
    for path in texts:
        named = re.findall(r"`(?:[\w-]+/)*(\w+\.py)`", path.read_text("utf-8"))
        assert set(named) <= names, path


def test_logs_know_bytes_not_studies():
    for name in modules("stream_dp.log"):
        assert "stream_dp.study" not in reached(name), name


def test_only_noise_touches_entropy():
    for name, path in FILES.items():
        if name == "stream_dp.privacy.noise":
            continue
        assert not foreign(name) & {"random", "secrets", "opendp"}, name
        assert "urandom" not in path.read_text("utf-8"), name


CONFIDENTIAL = {"stream_dp.services", "stream_dp.population", "stream_dp.batch"}


def test_the_client_needs_nothing_confidential():
    loaded = reached("stream_dp.client")
    assert not {n for n in loaded for c in CONFIDENTIAL if n == c or n.startswith(f"{c}.")}
    for name in loaded:
        assert not foreign(name) & {"jax", "optax", "resvg_py"}, name


def test_only_the_study_reads_the_declared_values_of_an_attribute():
    """Others read its symbols, so that a new type of column is one to them, too."""
    for name, path in FILES.items():
        if not name.startswith("stream_dp.study."):
            assert "declared_values" not in path.read_text("utf-8"), name


EXTRAS = {
    "matplotlib": ("stream_dp.services.desk.fitted_panel",),
    "confluent_kafka": (
        "stream_dp.log.kafka",
        "stream_dp.log.kafka_clients",
        "stream_dp.log.kafka_clients",
        "stream_dp.log.kafka_writer",
        "stream_dp.log.kafka_topics",
        "stream_dp.log.kafka_reader",
    ),
    "jax": ("stream_dp.batch", "stream_dp.services"),
    "optax": ("stream_dp.batch", "stream_dp.services"),
    "openpyxl": (
        "stream_dp.population.tables.spreadsheets",
        "stream_dp.services.portals.release_tables",
    ),
    "pyreadstat": ("stream_dp.population.tables.labelled_files",),
    "cryptography": (
        "stream_dp.log.signing",
        "stream_dp.log.sealing",
        "stream_dp.services.storage.file_stores",
    ),
    "fastavro": ("stream_dp.population.shapes.record_contents",),
    "resvg_py": ("stream_dp.figures.marks",),
    "fastapi": ("stream_dp.services.monitor",),
    "starlette": ("stream_dp.services.monitor",),
    "uvicorn": ("stream_dp.services.monitor",),
    "h11": ("stream_dp.services.monitor",),
}


def test_extras_are_imported_where_they_are_used():
    for name in FILES:
        for extra, homes in EXTRAS.items():
            if extra in foreign(name):
                assert name.startswith(homes), name


# services/commands/cli.py imports them when they are called.
COMMANDS = [command_module(name) for name in cli.COMMANDS]


def test_the_command_loads_no_extras_and_the_library_works_without_them():
    code = """
import importlib, sys
for name in {COMMANDS}:
    importlib.import_module(name)
print(*sorted(sys.modules))
class Refuse:
    def find_spec(self, name, path=None, target=None):
        extras = "resvg_py jax optax confluent_kafka fastavro openpyxl fastapi uvicorn starlette"
        extras += " cryptography pyreadstat"
        if name.split(".")[0] in extras.split():
            raise ImportError(f"{name} is not installed")
sys.meta_path.insert(0, Refuse())
for name in sys.argv[1:]:
    importlib.import_module(name)
importlib.import_module("stream_dp.services.commands.cli")._parser()
""".replace("{COMMANDS}", repr(COMMANDS))
    extra = {n for n in FILES if {f.split(".")[0] for f in imports(n, top=True)} & set(EXTRAS)}
    names = [
        n
        for n in FILES
        if not n.startswith("stream_dp.services") and not reached(n, top=True) & extra
    ]
    assert {"stream_dp.client", "stream_dp.population"} <= set(names)
    assert set(modules("stream_dp.privacy") + modules("stream_dp.continual")) <= set(names)
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "stream_dp.services.commands.run" in loaded
    assert not {n for n in loaded if n.split(".")[0] in EXTRAS}
    assert "stream_dp.services.evaluate.repeated_panels" not in loaded


# The rooms of the services, each above all that it imports.
CORE = ("process", "storage", "intake", "releaser", "contract")
RIM = ("parts", "audit", "portals", "monitor", "evaluate", "desk")
ROOMS = (*CORE, *RIM, "commands")
# Who imports a room of the rim, besides itself.
USERS_OF_RIM = {
    "evaluate": {"desk"},
    "monitor": {"desk", "evaluate"},
    "portals": {"commands", "monitor"},
}
SERVICE_MODULES = [name for name in FILES if name.startswith("stream_dp.services.")]


def room(name):
    return name.split(".")[2]


def test_every_room_of_the_services_has_its_floor():
    assert {room(name) for name in SERVICE_MODULES} == set(ROOMS)


@pytest.mark.parametrize("name", SERVICE_MODULES)
def test_a_room_imports_what_lies_below_it(name):
    for other in {room(f) for f in ours(name) if f.startswith("stream_dp.services.")}:
        assert ROOMS.index(other) <= ROOMS.index(room(name)), other
        if other in RIM and other != room(name):
            assert room(name) in USERS_OF_RIM.get(other, ()), other


# The rooms of the library, each above all that it imports.
LIBRARY_ROOMS = (
    *("errors", "json_object", "notebook_html", "compiled", "privacy", "figures", "panel"),
    *("study", "log", "population", "continual", "release", "answers", "batch", "planning"),
    *("studyfile", "client"),
)


@pytest.mark.parametrize("name", LIBRARY_MODULES)
def test_a_room_of_the_library_imports_what_lies_below_it(name):
    floor = LIBRARY_ROOMS.index(name.split(".")[1])
    for other in {f.split(".")[1] for f in ours(name)}:
        assert LIBRARY_ROOMS.index(other) <= floor, other


@pytest.mark.parametrize("module", ["public_front", "public_program"])
def test_the_public_monitor_can_open_no_confidential_log(module):
    """It has no module that knows where such a log is, or how to read it."""
    confidential = {f"stream_dp.{name}" for name in ("population", "batch")}
    confidential |= {f"stream_dp.services.{name}" for name in ("storage", "intake", "releaser")}
    for name in reached(f"stream_dp.services.monitor.{module}"):
        assert not {c for c in confidential if name == c or name.startswith(f"{c}.")}, name


def test_no_command_imports_another_or_the_command_line():
    for name in COMMANDS:
        assert not ours(name) & ({"stream_dp.services.commands.cli", *COMMANDS} - {name}), name


def test_a_command_that_writes_a_marker_loads_little():
    """`close` needs the study, its log and the journal; a preview also the population."""
    code = (
        "import sys, stream_dp.services.commands.close; print(*sys.modules)\n"
        "import stream_dp.services.releaser.close_preview; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for line, most in zip(done.stdout.splitlines(), (80, 105), strict=True):
        loaded = line.split()
        assert len([name for name in loaded if name.split(".")[0] == "stream_dp"]) <= most
        assert not {"fsspec", "opendp", "pyarrow.compute", "scipy", "tqdm"} & set(loaded)
