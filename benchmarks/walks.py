"""How many files of the product a flow of data enters: what a reader who follows it must open.

    python benchmarks/walks.py [--files]

A small study of two panels and a table of people runs in this process. A file counts for a flow if
one of its functions is called meanwhile; what a module does when it is imported does not count.
"""

from __future__ import annotations

import io
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

import stream_dp
from stream_dp.client import open as open_public
from stream_dp.planning.plan import Plan
from stream_dp.privacy.noise import SystemNoise
from stream_dp.services.commands.cli import main as command
from stream_dp.services.releaser.releaser import Releaser
from stream_dp.services.releaser.releaser_facts import Context
from stream_dp.services.releaser.worker import Worker
from stream_dp.services.storage.deployment import Deployment
from stream_dp.studyfile import load_study

HERE = Path(stream_dp.__file__).parent
STUDY = """
[study]
name = "walks"
unit = "person"
neighbours = "replace_one"
rho = 3
delta = 1e-6
[study.periods]
first = "2021-01"
every = "month"
count = 3
[study.population]
size = 40
[attributes.work]
values = ["no", "yes"]
missing = "no"
[attributes.income]
values = ["low", "middle", "high"]
missing = "low"
[[releases]]
name = "quarters"
kind = "window"
attribute = "work"
width = 2
rho = 1
[[releases]]
name = "months"
kind = "cumulative"
attribute = "work"
event = ["yes"]
rho = 1
[[releases]]
name = "people"
kind = "mixture"
attributes = ["work", "income"]
at = ["2021-02"]
rho = 1
[run]
log = "sqlite:walks.db"
public = "sqlite:walks-public.db"
"""


def _imports(frame: FrameType | None) -> bool:
    """Whether a call belongs to the import of a module: the body of a class, or a decorator."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and "stream_dp" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


@contextmanager
def walked() -> Iterator[set[str]]:
    """The files whose functions are called within it."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and "stream_dp" in file and file not in files and not _imports(frame):
            files.add(file)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        for file in [file for file in files if not Path(file).is_relative_to(HERE)]:
            files.remove(file)


def walks(folder: Path) -> dict[str, set[str]]:
    file = folder / "walks.toml"
    file.write_text(STUDY, "utf-8")
    found: dict[str, set[str]] = {}
    with walked() as found["study text to study"]:
        study, _ = load_study(file)
    with walked() as found["study to plan"]:
        plan = Plan(study)
        plan.charges(1)
    table = folder / "walks.csv"
    cells = [
        f"p{i:02d},{period},{'yes' if i % 3 else 'no'},{('low', 'middle', 'high')[i % 3]}"
        for period in study.periods.labels
        for i in range(40)
    ]
    table.write_text("\n".join(["person,period,work,income", *cells, ""]), "utf-8")
    with walked() as found["table to log (send)"]:
        assert command(["send", str(file), str(table), "--json"]) == 0
    with walked() as found["marker to log (close)"]:
        assert command(["close", str(file), "2021-01", "--json"]) == 0
    setting = Deployment.load(file)
    with closing(setting.log()) as log, closing(setting.public()) as public:

        def run() -> None:
            context = Context.of(study, file=str(file))
            releaser = Releaser(plan, log, public, setting.snapshots, context)
            releaser.run(until_idle=True)

        run()
        assert command(["close", str(file), "2021-02", "--json"]) == 0
        with walked() as found["close to published, two panels and a job begun"]:
            run()
        with walked() as found["worker: due to result"]:
            Worker(study, log, setting.snapshots, source=SystemNoise()).run(until_idle=True)
        with walked() as found["result to published"]:
            run()
    reader = open_public(f"sqlite:{folder / 'walks-public.db'}")
    with walked() as found["query to answer, panel"]:
        reader.answer("quarters", "at-least 1 of last 2 work=yes")
    with walked() as found["query to answer, table"]:
        reader.answer("people", "work=yes, income=high")
    return found


def main() -> None:
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(said), redirect_stderr(said):
        found = walks(Path(folder))
    for flow, files in found.items():
        print(f"{flow:<50}{len(files):>4}")
        if "--files" in sys.argv:
            names = sorted(Path(file).relative_to(HERE).as_posix() for file in files)
            print("".join(f"    {name}\n" for name in names))


if __name__ == "__main__":
    main()
