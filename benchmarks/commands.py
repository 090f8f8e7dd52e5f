"""What whole commands cost, as they are typed, on what the README installs.

    python benchmarks/commands.py [--people N]

Each command is a new process, with its imports. Packages that the README does not install are
hidden from the commands: pandas, JAX and the compiled reader. A person with pandas pays its import
beside these figures. Everybody reports once; the log is SQLite. The `run` beside `send` reads all
reports and closes nothing. The row of pyarrow counts the same reports in a Parquet file, without
ids, order or noise: it shows the distance to the hardware. Figures of the monitor are of the server
and its forks. Tables are fitted by `worker`, with JAX. A round of `hpd-fixed` is 50 steps on
queries of whole marginals, or on random cells, without imports and compilation: 1,000 rows, groups
of up to 6 with 8 attributes of members, as in `batch.py`.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import latency
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from result_file import record

HIDDEN = ("pandas", "jax", "stream_dp_native")
BAD = 100_000  # reports with a value that is not declared
TWIN = """
[[releases]]
name = "{name}"
kind = "window"
attribute = "poor"
width = {width}
rho = "1/100"
"""
TABLE = """
[[releases]]
name = "people"
kind = "{kind}"
attributes = {attributes}
every = 1
rho = "1/2"
"""
FITTED, COLUMNS = 20_000, 10
STATES = 20
MODULES = "import atexit, runpy, sys; atexit.register(lambda: print(sum(m.startswith('stream_dp')\
 for m in sys.modules), file=sys.stderr)); sys.argv[0] = 'stream-dp';\
 runpy.run_module('stream_dp', run_name='__main__')"


@dataclass
class Commands:
    """Runs commands in a folder. hidden: a folder with modules that cannot be imported."""

    folder: Path
    hidden: Path
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        for name in HIDDEN:
            (self.hidden / f"{name}.py").write_text(f"raise ImportError({name!r})\n")
        root = str(Path(__file__).parents[1])
        paths = {"PYTHONPATH": f"{self.hidden}{os.pathsep}{root}"}
        # An installed package has its bytecode.
        bytecode = {"PYTHONPYCACHEPREFIX": str(self.hidden / "bytecode")}
        self.environment = {**os.environ, **paths, **bytecode}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            check=True,
            text=True,
        )

    def seconds(self, *words: str, times: int = 1) -> float:
        """The least CPU seconds of a command."""
        least = float("inf")
        for _ in range(times):
            before = children_seconds()
            self.run("-m", "stream_dp", *words)
            least = min(least, children_seconds() - before)
        return least

    def modules(self, *words: str) -> int:
        """The number of stream-dp's modules that a command imports."""
        return int(self.run("-c", MODULES, *words).stderr.splitlines()[-1])


def children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def show(work: str, unit: str, aim: float | None, now: float) -> None:
    missed = "" if aim is None else "yes" if now > aim else "no"
    record("commands", work, unit, aim, now, missed)
    print(f"{work:<54}{unit:<24}{aim or '':>8}{now:>10.4g}  {missed}", flush=True)


def study(folder: Path, name: str, people: int, releases: str = "") -> str:
    logs = latency.SQLITE.replace("latency", name)
    text = latency.STUDY.format(people=people, periods=12, partitions=1, logs=logs)
    if releases:
        begin, end = text.index("[[releases]]"), text.index("[run]")
        text = text[:begin] + releases.lstrip() + text[end:]
    (folder / f"{name}.toml").write_text(text)
    return f"{name}.toml"


def table(folder: Path, name: str, people: int, value: int | None = None) -> str:
    """A CSV file and a Parquet file of everybody's reports. value: of everybody."""
    ids = np.arange(people)
    values = ids % 7 == 0 if value is None else np.full(people, value)
    columns = {"person": np.char.mod("p%08d", ids), "period": ["1"] * people}
    reports = pa.table(columns | {"poor": values.astype(np.int64)})
    pyarrow.csv.write_csv(reports, folder / f"{name}.csv")
    pyarrow.parquet.write_table(reports, folder / f"{name}.parquet")
    return f"{name}.csv"


def stored(folder: Path, name: str) -> int:
    """Bytes of the confidential log's file, with everything in it."""
    import sqlite3

    with closing(sqlite3.connect(folder / f"{name}.db")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return (folder / f"{name}.db").stat().st_size


def counted(path: Path) -> float:
    """CPU seconds to count the values of a Parquet file."""
    start = time.process_time()
    pyarrow.parquet.read_table(path, columns=["period", "poor"]).group_by(
        ["period", "poor"]
    ).aggregate([([], "count_all")])
    return time.process_time() - start


def measure_reports(commands: Commands, people: int) -> None:
    folder, reports = commands.folder, table(commands.folder, "reports", people)
    file = study(folder, "good", people)
    sent = commands.seconds("send", file, reports)
    size = stored(folder, "good")
    read = commands.seconds("run", file, "--until-idle")
    commands.seconds("close", file, "1")
    published = commands.seconds("run", file, "--until-idle")
    million = f"{people:,} people"
    show(f"`send` and `run`, SQLite, {million}", "CPU us a report", 5, 1e6 * (sent + read) / people)
    show("a sent report, SQLite", "bytes", 100, size / people)
    parquet = 1e6 * counted(folder / "reports.parquet") / people
    show("pyarrow, the same counts from Parquet", "CPU us a report", None, parquet)
    show("`run` that reads, closes and publishes them", "CPU s", None, published)
    empty = "close", file, "2", "--check"
    seconds = commands.seconds(*empty, times=3)
    show(f"`close --check`, empty month, {million}", "CPU s", 0.6, seconds)
    show("`close --check`", "modules", 120, commands.modules(*empty))
    for words in (("close", file, "1"), ("status", file), ("estimate", file, "pairs"), ("--help",)):
        show(f"`{words[0]}`", "CPU s", None, commands.seconds(*words, times=2))
    for name, value in (("sound", None), ("faulty", 7)):
        _ = table(folder, name, BAD, value)
    costs = [flood(folder, name) for name in ("sound", "faulty")]
    (good, good_bytes, _), (bad, _, letter_bytes) = costs
    show("a dead letter, beside a good report", "CPU us more", 5, bad - good)
    show("a dead letter on disk", "of a good report", 2, letter_bytes / good_bytes)


def flood(folder: Path, name: str) -> tuple[float, float, float]:
    """CPU us of `run` a report, bytes of a sent report, and bytes that `run` adds to each.

    The reports are written by a client, because `send` leaves faulty ones out.
    """
    from stream_dp.log.records import RecordColumns
    from stream_dp.services.storage.deployment import Deployment

    commands = Commands(folder, folder / "hidden")
    file = study(folder, name, BAD)
    commands.run("-m", "stream_dp", "topics", file)
    commands.seconds("run", file, "--until-idle")
    idle = commands.seconds("run", file, "--until-idle")
    before, value = stored(folder, name), 7 if name == "faulty" else 1
    text = b'{"person":"p%%08d","period":"1","values":{"poor":%d}}' % value
    with closing(Deployment.load(folder / file).log()) as log:
        keys, values = [b"p%08d" % i for i in range(BAD)], [text % i for i in range(BAD)]
        log.append(RecordColumns("reports", keys, values))
    sent = stored(folder, name)
    seconds = commands.seconds("run", file, "--until-idle") - idle
    return 1e6 * seconds / BAD, (sent - before) / BAD, (stored(folder, name) - sent) / BAD


def measure_checks(commands: Commands) -> None:
    one = study(commands.folder, "one", 1000, TWIN.format(name="a", width=1))
    pairs = [TWIN.format(name=f"r{i}", width=1 + i // 2 % 10) for i in range(20)]
    twins = study(commands.folder, "twins", 1000, "".join(pairs))
    imports = commands.seconds("check", one, times=2)
    beyond = commands.seconds("check", twins, times=2) - imports
    show("`check`, 20 releases in equal pairs, beyond one", "CPU s", 1.5, beyond)
    states = study(commands.folder, "states", 1000, TWIN.format(name="a", width=3))
    text = (commands.folder / states).read_text()
    (commands.folder / states).write_text(text.replace("[0, 1]", str([*range(STATES)])))
    seconds = commands.seconds("check", states, times=2)
    show(f"`check`, {STATES} states, windows of 3", "CPU s", 11, seconds)


def table_study(folder: Path, kind: str) -> str:
    """A study of two months with a table each, and its reports: ten attributes that depend."""
    rng = np.random.default_rng(1)
    base = rng.integers(0, 4, FITTED)
    lines = ["person,period," + ",".join(f"a{c}" for c in range(COLUMNS))]
    for month in (1, 2):
        same = rng.random((COLUMNS, FITTED)) < 0.4
        codes = np.where(same, base, rng.integers(0, 4, (COLUMNS, FITTED)))
        lines += [f"p{i},{month}," + ",".join(map(str, row)) for i, row in enumerate(codes.T)]
    (folder / "tables.csv").write_text("\n".join(lines))
    names = [f"a{c}" for c in range(COLUMNS)]
    text = latency.STUDY.format(people=FITTED, periods=2, partitions=1, logs="worker = false")
    begin, end = text.index("[attributes"), text.index("[run]")
    attributes = [f'[attributes.{n}]\nvalues = [0, 1, 2, 3]\nmissing = "absent"' for n in names]
    release = TABLE.format(kind=kind, attributes=names).replace("'", '"')
    text = text[:begin] + "\n".join(attributes) + release + text[end:]
    logs = latency.SQLITE.replace("latency", kind)
    (folder / f"{kind}.toml").write_text(text.replace('"latency"', f'"{kind}"') + logs)
    return f"{kind}.toml"


def measure_tables(commands: Commands) -> None:
    """The second month's table in a new process, with other noise than the first."""
    for kind, aims in (("mixture", (None, 2.3)), ("table", (None, None))):
        file = table_study(commands.folder, kind)
        commands.run("-m", "stream_dp", "send", file, "tables.csv")
        for month, aim in enumerate(aims, 1):
            commands.run("-m", "stream_dp", "close", file, str(month), "--yes")
            commands.run("-m", "stream_dp", "run", file, "--until-idle")
            seconds = commands.seconds("worker", file, "--until-idle")
            show(f"`worker`, `{kind}`, month {month}", "CPU s", aim, seconds)


def whole_marginals(pool: Sequence[Any], most: int) -> Any:
    """The queries of random marginals, nearly `most`."""
    from stream_dp.batch.groups.workload.queries import Queries

    rng, queries, total = np.random.default_rng(1), [], 0
    for i in rng.permutation(len(pool)):
        if total + pool[i].size <= most:
            queries.append(pool[i].queries())
            total += pool[i].size
        if total > 0.97 * most:
            break
    return Queries.joined(queries)


def measure_rounds() -> None:
    import batch

    from stream_dp.batch.groups.hpd.adam import AdamSettings
    from stream_dp.batch.groups.hpd.product_mixture import HPD, MeasuredQueries
    from stream_dp.batch.groups.workload.queries import all_marginals

    model = HPD(batch.domain("alike"), 10**5, 25 * 10**4)
    pool = [m for k in (2, 3, 4) for m in all_marginals(model.domain, k, range(2))]
    start, truth = model.init(2), model.init(3)
    for most, aim in ((1024, 2), (4096, 6)):
        cells = batch.sampled_queries(pool, most, np.random.default_rng(1))
        for name, queries in (("marginals", whole_marginals(pool, most)), ("cells", cells)):
            encoded = model.encode(queries)
            values = model.answers(truth, encoded)
            measured = MeasuredQueries(encoded, values, np.ones(len(values)))
            model.fit(start, measured, AdamSettings(1, 0.03, 0.1))  # compiles
            least = float("inf")
            for _ in range(2):
                before = time.process_time()
                model.fit(start, measured, AdamSettings(50, 0.03, 0.1))
                least = min(least, time.process_time() - before)
            show(f"a round of `hpd-fixed`, {most:,} queries, {name}", "CPU s", aim, least)


def tree_seconds(pid: int) -> float:
    """CPU seconds of a process and its children, ended ones too."""
    total, stats = 0, dict[int, list[str]]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            stats[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
    tree = [pid]
    for member in tree:
        tree += [child for child, stat in stats.items() if int(stat[1]) == member]
        total += sum(map(int, stats[member][11:15] if member in stats else []))
    return total / os.sysconf("SC_CLK_TCK")


def measure_monitor() -> None:
    import monitor as load
    from kit.monitors import monitor, publish
    from kit.public_logs import published

    from stream_dp.privacy.noise import SeededNoise

    rows, periods = 20_000, 24
    truth = (np.random.default_rng(1).random((rows, periods)) < 0.1).astype(np.uint8)
    texts = [f"{a}+{b}+{c}" for a in "01?" for b in "01?" for c in "01?"][:-1]
    months = [f"202{y}-{m:02d}" for y in (1, 2) for m in range(3, 12)]
    questions = [f"/release/windows?q=pattern+{t}&period={m}" for m in months for t in texts]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "load.db"
        publish(path, published(load.study(rows, periods), {"poverty": truth}, SeededNoise(2)))
        with monitor(f"sqlite:{path}") as server:

            def cost(paths: Sequence[str]) -> float:
                before = tree_seconds(server.process.pid)
                for question in paths:
                    load.get(server.port, question)
                return 1000 * (tree_seconds(server.process.pid) - before) / len(paths)

            cost(questions[:10])
            show("monitor, a new question", "CPU ms", 30, cost(questions[10:60]))
            strange = [f"{questions[10]}&fbclid={i}" for i in range(100)]
            show("monitor, a known question, unknown fields", "CPU ms", 2, cost(strange))

            def ask(question: str) -> float:
                """Seconds until the answer, with new tries while the monitor is busy."""
                began = time.perf_counter()
                while True:
                    with suppress(AssertionError):
                        load.get(server.port, question)
                        return time.perf_counter() - began
                    time.sleep(0.2)

            with ThreadPoolExecutor(50) as clients:
                times = list(clients.map(ask, questions[60:160]))
            late = float(np.quantile(times, 0.99))
            show("monitor, 50 clients, distinct questions, p99", "s", 3, late)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--people", type=int, default=1_000_000)
    options = parser.parse_args()
    print(f"{'work':<54}{'unit':<24}{'aim':>8}{'now':>10}  missed")
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "hidden").mkdir()
        commands = Commands(folder, folder / "hidden")
        commands.run("-m", "stream_dp", "--help")
        measure_checks(commands)
        measure_reports(commands, options.people)
        hidden = folder / "hidden"
        (hidden / "jax.py").unlink()
        (hidden / "pandas.py").unlink()
        measure_tables(commands)
    measure_rounds()
    measure_monitor()


if __name__ == "__main__":
    main()
