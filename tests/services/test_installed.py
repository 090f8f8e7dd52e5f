"""A plain install, run from the folder of a clone and from one with modules of hostile names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import venv
from pathlib import Path

import pytest
from kit import fork_server
from kit.events import lines_to
from kit.households import TEXT, HouseholdFolder

from stream_dp.services.releaser.batch_jobs import last_line

ROOT = Path(__file__).parents[2]
HOSTILE = ("random", "json", "numpy", "stream_dp", "tempfile", "pickle")
BITES = "from pathlib import Path\nPath({!r}).touch()\nraise SystemExit('bitten')\n"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is needed of the sources, as a clone has them."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("stream_dp", "services", "deploy"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def program(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of `stream-dp`, installed in an environment that shares the dependencies.

    It does not share the editable install, whose finder is no path.
    """
    home = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    (site,) = home.glob("lib/python*/site-packages")
    shared = [path for path in sys.path if path.endswith("site-packages")]
    (site / "shared.pth").write_text("\n".join(shared))
    source = shutil.copytree(clone, home / "source")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--ignore-installed")
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install"]
    subprocess.run([*pip, "--disable-pip-version-check", *options, str(source)], check=True)
    program = home / "bin" / "stream-dp"
    python = [str(home / "bin" / "python"), "-P", "-c"]
    code = "import stream_dp.services as s; print(s.__file__)"
    result = subprocess.run([*python, code], capture_output=True, text=True, check=True)
    assert Path(result.stdout.strip()).is_relative_to(site)
    return program


def run(program: Path, where: Path, *words: object) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("STREAM_DP", "PYTHON"))}
    command = [str(program), *map(str, words)]
    return subprocess.run(command, cwd=where, env=kept, capture_output=True, text=True, timeout=600)


def finished(program: Path, homes: HouseholdFolder, where: Path) -> None:
    homes.prepare()
    done = run(program, where, "run", homes.file, "--until-idle")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.endswith("the horizon is reached: every period is released\n")
    jobs = ("-m", "stream_dp.services.commands.cli", "jobs", homes.file, "--json")
    (job,) = json.loads(fork_server.run(*jobs).stdout)["jobs"]
    assert job["state"] == "done"


def test_a_plain_install_runs_beside_the_packages_of_a_clone(program: Path, clone: Path) -> None:
    """Data sets are made among modules of hostile names, of which one is `stream_dp`."""
    shutil.copy(HouseholdFolder(clone / "study").file, clone / "homes.toml")
    done = run(program, clone, "check", "homes.toml")
    assert done.returncode == 0


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with modules that must not be imported from it."""
    for name in HOSTILE:
        (tmp_path / f"{name}.py").write_text(BITES.format(str(tmp_path / "bitten")))
    return tmp_path


def test_modules_beside_the_study_are_never_run(program: Path, hostile: Path) -> None:
    finished(program, HouseholdFolder(hostile), hostile)
    assert not (hostile / "bitten").exists()


def test_modules_beside_the_truth_are_never_run(program: Path, hostile: Path) -> None:
    """`evaluate` starts processes of its own."""
    released = TEXT.index('[[releases]]\nname = "households"')
    text = TEXT[:released] + TEXT[TEXT.index("[run]") :]
    text = text.replace(TEXT[TEXT.index("[groups]") : TEXT.index("[[releases]]")], "")
    (hostile / "homes.toml").write_text(text)
    rows = [f"p{i},2021-0{t},{i * t % 2}" for i in range(40) for t in (1, 2, 3)]
    (hostile / "truth.csv").write_text("\n".join(["person,period,work", *rows]) + "\n")
    words = ("evaluate", "homes.toml", "truth.csv", "--repetitions", 4, "--quiet")
    done = run(program, hostile, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert not (hostile / "bitten").exists()


def test_a_worker_s_last_words_are_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    homes = HouseholdFolder(tmp_path).prepare()
    says = "import sys; print('first\\nstream-dp: no\\x1b place', file=sys.stderr); sys.exit(2)"
    assert not homes.run(worker=["-c", says])
    done = fork_server.run("-m", "stream_dp.services.commands.cli", "jobs", homes.file)
    assert done.stdout.endswith("failed: the worker ended with exit code 2: no? place\n")


def test_a_worker_that_starts_again_says_why(tmp_path: Path) -> None:
    homes = HouseholdFolder(tmp_path).prepare()
    says = "import sys; print('stream-dp: homes.db: no room', file=sys.stderr); sys.exit(5)"
    lines: list[str] = []
    with homes.releaser(worker=["-c", says], tell=lines_to(lines)) as releaser:
        thread = threading.Thread(target=releaser.run)
        thread.start()
        again = "the worker ended with exit code 5: homes.db: no room; it is started again, every"
        deadline = time.monotonic() + 120
        while not any(line.startswith(again) for line in lines) and time.monotonic() < deadline:
            time.sleep(0.1)
        releaser.context.stop.set()
        thread.join(300)
    assert sum(line.startswith(again) for line in lines) == 1


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("", ""),
        ("\n  \n", ""),
        ("a warning\nstream-dp: groups: send them\n\n", "groups: send them"),
        ("/bin/python: No module named x.y\n", "/bin/python: No module named x.y"),
        ('Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f(7)\n'
         "ValueError: person 4711\nis ill\n", "ValueError"),
        ('  File "a.py", line 1\n    f(7)\n    ^^^^\nKeyboardInterrupt\n', "KeyboardInterrupt"),
        ('  File "a.py", line 1\n    f(7)\n', ""),
        ("secret\n" * 20_000, ""),
        ("x" * 300, "x" * 200 + "..."),
        ("\x1b[31mred\x07", "?[31mred?"),
    ],
)  # fmt: skip
def test_the_last_line_of_what_was_said(said: str, line: str) -> None:
    assert last_line(said.encode()[-65_536:]) == line
