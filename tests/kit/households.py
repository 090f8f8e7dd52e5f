"""A small study of households, ways to run it, and what must hold when it is over."""

from __future__ import annotations

import gc
import json
import os
import signal
import sqlite3
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from kit.panels import fix_secrets, made_releaser, rows
from kit.studies import MARKER, MONTHS, attribute, study_toml, window
from stream_dp.batch.groups.independent import Independent
from stream_dp.batch.groups.workload.candidates import one_way_marginals
from stream_dp.batch.synthesizer import FitContext
from stream_dp.client import PublicLog
from stream_dp.log.log import Log, Record
from stream_dp.planning.plan import Plan, plan_study
from stream_dp.privacy.noise import Draw, Measurements, SystemNoise, system_entropy
from stream_dp.services.intake.group_tables import Roster, send_table
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.releaser import household_jobs
from stream_dp.services.releaser.releaser import Releaser
from stream_dp.services.releaser.worker import Worker
from stream_dp.services.storage import journal, journal_checks
from stream_dp.services.storage.deployment import Deployment
from stream_dp.services.storage.journal import Entry
from stream_dp.study.topics import JOURNAL, RELEASES, REPORTS, RESULTS, TRANSCRIPTS

PERIODS = 3
LABELS = [f"2021-{month:02d}" for month in range(1, PERIODS + 1)]
ROUNDS = 4  # of the synthesizer below, after the seed
MOST_SECONDS = 60

TEXT = study_toml(
    name="homes",
    neighbours="replace_in_place",
    rho=0.6,
    periods={**MONTHS, **MARKER},
    size=40,
    attributes={
        "income": attribute(["low", "high"], missing="absent"),
        "work": attribute([0, 1], missing=0),
    },
    groups={
        "unit": "household",
        "most": 4,
        "attributes": {"region": {"values": ["north", "south"]}},
    },
    releases=[
        window("pairs", "work", width=2, rho=0.2),
        {
            **{"name": "households", "kind": "independent", "attributes": ["income", "work"]},
            **{"at": ["2021-02"], "rho": 0.1},
        },
    ],
    run={"log": "sqlite:homes.db", "public": "sqlite:homes-public.db"},
)
EVERY = TEXT.replace('at = ["2021-02"]', "every = 1")


def roster(groups: int = 12, seed: int = 5) -> Roster:
    """Groups of 1 to 4 members."""
    rng = np.random.default_rng(seed)
    group_of = np.repeat(np.arange(groups), rng.integers(1, 5, groups))
    regions = [["north", "south"][i] for i in rng.integers(2, size=groups)]
    return Roster({"region": regions}, [f"p{i:02d}" for i in range(len(group_of))], group_of)


def report(person: str, number: int, **values: Any) -> Record:
    content = {"person": person, "period": LABELS[number - 1], "values": values}
    return Record(
        topic=REPORTS, value=json.dumps(content).encode(), key=None, headers=(), partition=0
    )


def reports(number: int) -> list[Record]:
    """Of all members, and of one person who is in no group."""
    rng = np.random.default_rng(number)
    return [
        report(p, number, income=["low", "high"][int(rng.integers(2))], work=int(rng.integers(2)))
        for p in [*roster().persons, "outside"]
    ]


class NotedNoise:
    """The system's noise; every draw of a job's round is passed to `note`."""

    simulated = False

    def __init__(self, note: Callable[[str], None] = lambda line: None) -> None:
        self._note, self._system = note, SystemNoise()

    def draw(self, demand: Sequence[tuple[Fraction, int]]) -> Draw:
        self._note("draw")
        return self._system.draw(demand)

    def top(self, scores: NDArray[np.int64], picks: int, variance: Fraction) -> NDArray[np.int64]:
        self._note("pick")
        return self._system.top(scores, picks, variance)


class InRounds(Independent):
    """What ROUNDS rounds say together; each round's noisy answers are measurements."""

    @property
    def measurements(self) -> Measurements:
        cells = sum(m.size for m in one_way_marginals(self.domain))
        values = np.concatenate(self.counts)
        texts = tuple(f"{i // cells}: {i % cells}" for i in range(len(values)))
        return Measurements(texts, values, (self.variance,) * len(values))

    @property
    def notes(self) -> Mapping[str, int | float | str]:
        return {}


def fit_in_rounds(hierarchy: Any, release: Any, context: FitContext) -> InRounds:
    """A synthesizer of several rounds: the same marginals each time, at a part of rho."""
    domain, transcript = hierarchy.domain, context.transcript
    done = transcript.rounds()
    if not done:
        done.append(transcript.record(0, system_entropy(32)))
    noise = Fraction(len(one_way_marginals(domain)) * ROUNDS) / release.rho
    columns = [*hierarchy.groups.T, *hierarchy.people.T]
    values = (*domain.group_values, *domain.person_values)
    while len(done) <= ROUNDS:
        draws = context.source.draw([(noise, v) for v in values]).noise
        true = [np.bincount(c, minlength=v) for c, v in zip(columns, values, strict=True)]
        noisy = np.concatenate([a + b for a, b in zip(true, draws, strict=True)])
        done.append(transcript.record(len(done), noisy.astype("<i8").tobytes()))
        context.progress(len(done) - 1, ROUNDS, 1.0)
    counts = tuple(np.frombuffer(data, "<i8").astype(np.int64) for data in done[1:])
    split = np.cumsum(values)[:-1]
    totals = tuple(np.split(np.sum(counts, axis=0), split))
    title = release.data_set.mechanism
    fit = InRounds(title, domain, hierarchy.G, counts, noise)
    object.__setattr__(fit, "sample", Independent("", domain, hierarchy.G, totals, noise).sample)
    return fit


def use_fit_in_rounds(patch: Any) -> None:
    patch.setattr(household_jobs, "load_synthesizer", lambda kind: fit_in_rounds)


@dataclass
class HouseholdFolder:
    """A folder with the study of households, run in this process or in ones that can be killed."""

    folder: Path
    text: str = TEXT
    kills: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file.write_text(self.text)

    @property
    def file(self) -> Path:
        return self.folder / "homes.toml"

    @property
    def setting(self) -> Deployment:
        return Deployment.load(self.file)

    def prepare(self, periods: int = PERIODS) -> HouseholdFolder:
        send_table(self.setting, roster())
        for number in range(1, periods + 1):
            self.send([*reports(number), close_marker(number, 0)])
        return self

    def log(self) -> closing[Log]:
        return closing(self.setting.log())

    def send(self, records: Sequence[Record]) -> None:
        with self.log() as log:
            log.create({REPORTS: 1})
            log.append(records)

    @contextmanager
    def releaser(self, **how: Any) -> Iterator[Releaser]:
        setting = self.setting
        with closing(setting.log()) as log, closing(setting.public()) as public:
            plan = Plan(setting.study)
            yield made_releaser(plan, log, public, setting.snapshots, **{"file": "F", **how})

    def run(self, **how: Any) -> bool:
        with self.releaser(**how) as releaser:
            return releaser.run(until_idle=True)

    @contextmanager
    def worker(self, **how: Any) -> Iterator[Worker]:
        setting = self.setting
        with closing(setting.log()) as log:
            yield Worker(setting.study, log, setting.snapshots, **{"source": NotedNoise(), **how})

    def work(self, **how: Any) -> None:
        with self.worker(**how) as worker:
            worker.run(until_idle=True)

    def entries(self) -> list[Entry]:
        with self.log() as log:
            log.create({JOURNAL: 1})
            return journal.read(log)

    def public(self) -> PublicLog:
        with closing(self.setting.public(readonly=True)) as log:
            return PublicLog(log)

    def rows(self, topic: str) -> list[tuple[Any, ...]]:
        db = "homes-public.db" if topic == RELEASES else "homes.db"
        return rows(self.folder / db, topic)

    def rounds(self) -> dict[str, bytes]:
        """By job and round, the first record in the transcripts."""
        values: dict[str, bytes] = {}
        for _, _, _, key, value, _ in self.rows(TRANSCRIPTS):
            if key is not None:
                values.setdefault(key.decode(), value)
        return values

    def written(self) -> Counter[str]:
        """How often each round of a job was appended; what workers tell of theirs has no key."""
        return Counter(row[3].decode() for row in self.rows(TRANSCRIPTS) if row[3] is not None)

    # Children that can be killed

    def child(
        self, live: Callable[[Callable[[str], None]], None], seconds: float | None = None
    ) -> bool:
        """Run `live` in a child, given what notes a line; True where it came to its end.

        seconds: after which it is killed, wherever it is.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of threads, JAX's too: no child uses them
            child = os.fork()
        if child == 0:
            gc.disable()  # what it inherits is not looked through, nor copied
            try:
                signal.alarm(MOST_SECONDS)
                patch = pytest.MonkeyPatch()
                use_fit_in_rounds(patch)
                trace = os.open(self.folder / "trace", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                live(lambda line: os.write(trace, f"{line}\n".encode()) and None)
                os._exit(0)
            except BaseException:
                (self.folder / "failure").write_text(traceback.format_exc())
                os._exit(1)
        if seconds is not None:
            time.sleep(seconds)
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code not in (0, -signal.SIGKILL):
            pytest.fail((self.folder / "failure").read_text())
        self.kills += code != 0
        return code == 0

    def releases_to(self, call: int, name: str | None = None) -> bool:
        """Run the releaser to the call of that number (from 0) of a step, and die there."""

        def live(note: Callable[[str], None]) -> None:
            fix_secrets(pytest.MonkeyPatch())
            self.run(at=dying(call, name, note))

        return self.child(live)

    def works_to(self, call: int, name: str | None = None) -> bool:
        """The same for the worker, whose steps and draws are noted."""

        def live(note: Callable[[str], None]) -> None:
            note("worker")
            self.work(source=NotedNoise(note), at=dying(call, name, note))

        return self.child(live)

    def trace(self) -> list[str]:
        file = self.folder / "trace"
        return file.read_text().split("\n")[:-1] if file.exists() else []


def dying(call: int, name: str | None, note: Callable[[str], None]) -> Callable[[str], None]:
    calls = 0

    def at(step: str) -> None:
        nonlocal calls
        note(step)
        if name in (None, step):
            if calls == call:
                os.kill(os.getpid(), signal.SIGKILL)
            calls += 1

    return at


NEVER = 10**9


def finish(homes: HouseholdFolder) -> None:
    """Let everything come to its end, in as many lives as that takes."""
    for _ in range(4):
        assert homes.releases_to(NEVER)
        entries = homes.entries()
        jobs = {job.id for entry in entries for job in entry.jobs}
        if len(journal.closes(entries)) > PERIODS and jobs == {e.result_of for e in entries} - {
            None
        }:
            return
        assert homes.works_to(NEVER)


def check(homes: HouseholdFolder, snapshots: int = 2) -> None:
    """The study is over, with one data set for each job, from rounds that were decided once.

    snapshots: how many files of populations are left.
    """
    entries = homes.entries()
    jobs = [job for entry in entries for job in entry.jobs]
    results = [entry for entry in entries if entry.result_of is not None]
    assert sorted(e.result_of or "" for e in results) == sorted(job.id for job in jobs)
    assert [e.number for e in journal.closes(entries)] == list(range(PERIODS + 1))
    study = homes.setting.study
    with homes.log() as log:
        ledger = journal_checks.check_journal(entries, plan_study(study), log.describe(REPORTS))
    charged = [c for number in range(1, PERIODS + 1) for c in plan_study(study).charges(number)]
    assert ledger.spent == sum(c.rho for c in charged)
    # The public log is the journal's records, in its order.
    to_publish = [record for entry in entries for record in entry.public_records()]
    assert homes.rows(RELEASES) == [
        (0, i, r.time, r.key, r.value, msgspec.msgpack.encode(r.headers))
        for i, r in enumerate(to_publish)
    ]
    public = homes.public()
    public.verify()
    first = homes.rounds()
    for job in jobs:
        data_set = public.data_set(job.release, LABELS[job.period - 1])
        decided = [first[f"{job.id}/{n}"] for n in range(ROUNDS + 1)]
        answers = np.concatenate([np.frombuffer(data, "<i8") for data in decided[1:]])
        assert data_set.measurements["value"].to_pylist() == answers.tolist()
    left = [path.name for path in (homes.folder / "homes-snapshots").iterdir()]
    assert len(left) == snapshots
    assert not any("-job-" in name for name in left)


def handed_in(homes: HouseholdFolder) -> int:
    """How many results there are in the topic, by their manifests."""
    return sum(b"manifest" in (headers or b"") for *_, headers in homes.rows(RESULTS))


def results(homes: HouseholdFolder) -> list[list[bytes]]:
    """The parts of every result in the topic, by the worker that wrote them."""
    by_writer: dict[bytes, list[bytes]] = {}
    for *_, value, raw in homes.rows(RESULTS):
        headers = dict(msgspec.msgpack.decode(raw))
        if headers["stream-dp-part"] != b"manifest":
            by_writer.setdefault(headers["stream-dp-writer"], []).append(value)
    return list(by_writer.values())


def edit(homes: HouseholdFolder, statement: str, *values: Any) -> None:
    """Change the confidential file behind its back."""
    with closing(sqlite3.connect(homes.folder / "homes.db")) as db, db:
        assert db.execute(statement, values).rowcount
