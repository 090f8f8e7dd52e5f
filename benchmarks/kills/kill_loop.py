"""Kills releasers, workers and aggregators of all kinds of studies, and counts what went wrong.

    python benchmarks/kills/kill_loop.py [KILLS [SEED]]    200 kills from seed 0 by default

Every run of the loop takes one study and one engine, sends the study's whole input, and kills each
process at a random step or moment until enough died. Then all processes run undisturbed, without
an operator's hand, and the outcome is compared with a run that nothing interrupted. The printed
table has a row a study and engine; every column of faults must be 0. A run is repeated by its seed.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

import msgspec
import pytest
from kit.households import NEVER, HouseholdFolder, NotedNoise, dying
from kit.kill_studies import STUDIES, KillFolder, KillStudy
from kit.killed import in_memory
from kit.panels import fix_secrets
from kit.rejected_cells import reasons_of

from stream_dp.planning.plan import plan_study
from stream_dp.services.storage import journal, journal_checks
from stream_dp.study.topics import DEAD_LETTERS, RELEASES, REPORTS

FAULTS = ("lost", "double", "differing", "stuck")
MOST_SECONDS = 900  # of one child; a hung child is a stuck study
ROUNDS = 40  # of undisturbed runs of all roles before a study counts as stuck


@dataclass
class Outcome:
    """What happened to one study.

    kills: by role.
    faults: a sentence for each, by the word of FAULTS.
    """

    kills: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[str, str]] = field(default_factory=list)

    def expect(self, holds: bool, fault: str, sentence: str) -> None:
        if not holds:
            self.faults.append((fault, sentence))


def child(
    folder: KillFolder,
    role: str,
    *,
    call: int = NEVER,
    step: str | None = None,
    seconds: float | None = None,
) -> int:
    """Runs a role until it is idle in a forked process and returns the exit code.

    call, step: the process kills itself at that call (from 0) of the step, or of any step.
    seconds: the process is killed after that time.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads; no child uses the parent's
        process = os.fork()
    if process == 0:
        code = 99
        try:
            signal.alarm(MOST_SECONDS)
            trace = os.open(folder.trace_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            fix_secrets(pytest.MonkeyPatch())

            def note(line: str) -> None:
                os.write(trace, f"{role} {line}\n".encode())

            folder.live(role, NotedNoise(note), dying(call, step, note))
            code = 0
        except BaseException:
            folder.failure_file.write_text(traceback.format_exc())
        finally:
            os._exit(code)
    if seconds is not None:
        time.sleep(seconds)
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status)


def run_on(folder: KillFolder) -> str:
    """Runs every role in turn to the end of the horizon; returns why the study is stuck, or ''."""
    for _ in range(ROUNDS):
        for role in folder.roles:
            code = child(folder, role)
            if code:
                return f"{role} ended with {code}: {folder.failure()}"
        if folder.finished():
            return ""
    return "the horizon was not reached"


def decisions(folder: KillFolder) -> list[Any]:
    """What every close takes from the input, which noise does not touch."""
    decided = []
    for entry in journal.closes(folder.entries()):
        head = entry.message.head
        files = sorted(
            (j.release, sorted((k, f.sha256) for k, f in j.files.items())) for j in entry.jobs
        )
        cut, marks = entry.input.cut, entry.next_marks
        decided.append((entry.number, cut, marks, head.get("accounting"), entry.charges, files))
    return decided


def judge(folder: KillFolder, calm: list[Any], seen: list[Any], outcome: Outcome) -> None:
    """Compares a finished study with an undisturbed run, and its two logs with each other."""
    expect, study = outcome.expect, folder.setting.study
    entries = folder.entries()
    now = decisions(folder)
    expect([d[3] for d in now] == [d[3] for d in calm], "lost", "the accounting of cells differs")
    expect(now == calm, "differing", "decisions differ from those of the undisturbed run")
    cells = now[-1][3]
    rejected = sum(cells["rejected"].values())
    fates = cells["accepted"] + cells["superseded"] + cells["pending"] + rejected
    expect(cells["received"] == fates, "lost", "cells do not add up")
    with folder.log() as log:
        letters = log.read(DEAD_LETTERS, {0: 0}, 10**6, 0).records
        expect(dict(reasons_of(letters)) == cells["rejected"], "lost", "dead letters differ")
        ledger = journal_checks.check_journal(entries, plan_study(study), log.describe(REPORTS))
    plan, numbers = plan_study(study), range(1, study.periods.count + 1)
    planned = plan.ledger().charge(*(c for n in numbers for c in plan.charges(n)))
    expect(ledger == planned, "double", f"spent {ledger.spent} of {planned.spent} planned")
    begun = sorted(job.id for entry in entries for job in entry.jobs)
    ended = sorted(e.result_of for e in entries if e.result_of is not None)
    expect(not set(begun) - set(ended), "lost", "a job has no result")
    expect(len(ended) == len(set(ended)), "double", "a job has two results")
    expect(
        max(HouseholdFolder.written(folder).values(), default=1) == 1,
        "double",
        "a round was drawn twice",
    )
    rows = folder.rows(RELEASES)
    wanted = [
        (0, i, r.time, r.key, r.value, msgspec.msgpack.encode(r.headers))
        for i, r in enumerate(r for e in entries for r in e.public_records())
    ]
    expect(rows == wanted, "differing", "the public log is not the journal's records")
    expect(rows[: len(seen)] == seen, "differing", "what was published has changed")
    try:
        folder.public().verify()
    except Exception as error:
        outcome.faults.append(("differing", f"verify: {error}"))


def disturb(folder: KillFolder, kills: int, rng: random.Random, outcome: Outcome) -> list[Any]:
    """Kills the study's processes; returns the longest public log that was seen."""
    seen: list[Any] = []
    usual = dict.fromkeys(folder.roles, 0.3)
    for _ in range(8 * kills):
        if outcome.kills.total() >= kills or (outcome.kills and folder.finished()):
            break
        role = rng.choice(folder.roles)
        how: dict[str, Any] = {"call": rng.randrange(rng.choice((6, 12, 40)))}
        if rng.random() < 0.4:
            how = {"seconds": rng.uniform(0, usual[role])}
        start = time.monotonic()
        code = child(folder, role, **how)
        if code == -signal.SIGKILL:
            outcome.kills[role] += 1
            usual[role] *= 1.05
        elif code:
            outcome.faults.append(("stuck", f"{role} ended with {code}: {folder.failure()}"))
            break
        else:
            usual[role] = time.monotonic() - start
        rows = folder.rows(RELEASES) if folder.public_file.exists() else []
        outcome.expect(rows[: len(seen)] == seen, "differing", "what was published has changed")
        seen = rows if len(rows) >= len(seen) else seen
    return seen


def one(study: KillStudy, engine: str, folder: Path, calm: list[Any], seed: int) -> Outcome:
    """Kills the processes of one study as often as fits its length, and judges what is left."""
    rng, outcome = random.Random(seed), Outcome()
    place = KillFolder(folder, study, engine)
    seen = disturb(place, study.kills, rng, outcome)
    if not outcome.faults:
        stuck = run_on(place)
        outcome.expect(not stuck, "stuck", stuck)
    if not outcome.faults:
        judge(place, calm, seen, outcome)
    return outcome


def cases() -> Iterator[tuple[KillStudy, str]]:
    for study in STUDIES:
        for engine in study.engines:
            yield study, engine


def table(counts: dict[tuple[str, str], Counter[str]]) -> str:
    """The rows: study, engine, studies run, kills by role, faults by word."""
    columns = ("runs", "releaser", "worker", "aggregator", *FAULTS)
    lines = [f"{'study':<26}{'engine':<11}" + "".join(f"{c:>11}" for c in columns)]
    for (study, engine), row in counts.items():
        lines.append(f"{study:<26}{engine:<11}" + "".join(f"{row[c]:>11}" for c in columns))
    total: Counter[str] = sum(counts.values(), Counter())
    lines.append(f"{'all':<37}" + "".join(f"{total[c]:>11}" for c in columns))
    return "\n".join(lines)


def loop(kills: int, seed: int, say: Callable[[str], None] = print) -> bool:
    """Runs studies in turn until that many processes were killed; True without a fault."""
    counts: dict[tuple[str, str], Counter[str]] = {(s.name, e): Counter() for s, e in cases()}
    sound = True
    with in_memory() as memory:
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(memory / "compiled"))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        begun: dict[tuple[str, str], tuple[Path, list[Any]]] = {}
        for study, engine in cases():
            sent = KillFolder(memory / f"sent-{len(begun)}", study, engine)
            sent.prepare()
            calm = sent.copy(memory / f"calm-{len(begun)}")
            if stuck := run_on(calm):
                raise SystemExit(f"{study.name}, {engine}: without a kill: {stuck}")
            begun[study.name, engine] = (sent.folder, decisions(calm))
        number = seed
        while sum(c["releaser"] + c["worker"] + c["aggregator"] for c in counts.values()) < kills:
            for study, engine in cases():
                number += 1
                folder = memory / "now"
                sent_folder, calm_decisions = begun[study.name, engine]
                shutil.copytree(sent_folder, folder)
                outcome = one(study, engine, folder, calm_decisions, number)
                row = counts[study.name, engine]
                row.update(outcome.kills, runs=1)
                row.update(fault for fault, _ in outcome.faults)
                for fault, sentence in outcome.faults:
                    sound = False
                    say(f"seed {number}: {study.name}, {engine}: {fault}: {sentence}")
                shutil.rmtree(folder)
            say(f"seeds {seed + 1} to {number}\n{table(counts)}")
    return sound


if __name__ == "__main__":
    arguments = [int(text) for text in sys.argv[1:]] + [200, 0][len(sys.argv) - 1 :]
    sys.exit(0 if loop(*arguments) else 1)
