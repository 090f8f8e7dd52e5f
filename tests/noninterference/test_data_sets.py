"""Batch releases: equal noisy answers give equal public bytes and equal messages."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from kit.events import lines_to
from kit.households import LABELS, PERIODS, TEXT, HouseholdFolder, report, reports, roster
from kit.panels import fix_secrets

from stream_dp.batch.synthesizer import FORMAT
from stream_dp.log.log import Record
from stream_dp.log.sqlite import SqliteLog
from stream_dp.services.commands.cli import main
from stream_dp.services.intake.group_tables import send_table
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.process.heartbeats import new_heartbeat
from stream_dp.services.releaser.fit_transcript import Lease, lease_record
from stream_dp.study.topics import TRANSCRIPTS

ALONE = TEXT[: TEXT.index('[[releases]]\nname = "pairs"')] + TEXT[
    TEXT.index('[[releases]]\nname = "households"') :
].replace('at = ["2021-02"]', "every = 1")
ANSWERS = [[9, 2], [3, 4, 3, 2], [13, 14, 1], [15, 16]]  # noisy counts, in every run the same
X = "p07"

CHANGES = {
    "other values": [report(X, n, income="low", work=1) for n in range(1, PERIODS + 1)],
    "cleared": [report(X, n, income=None, work=None) for n in range(1, PERIODS + 1)],
    "unknown": [report(X, n, income="rich", work=7) for n in range(1, PERIODS + 1)],
    "flood": [report(X, 1 + i % PERIODS, work=i % 2) for i in range(500)],
}


def run(path: Path, more: list[Record]) -> dict[str, bytes | str]:
    """Everything that an analyst sees, and what the releaser and the worker tell."""
    homes, messages = HouseholdFolder(path, ALONE), list[str]()
    with pytest.MonkeyPatch.context() as patch:
        fix_secrets(patch)
        patch.setattr("stream_dp.log.sqlite.clock_module.time", lambda: 1e9)
        patch.setattr("stream_dp.log.sqlite.identity_of_file", lambda path: "1/0")
        send_table(homes.setting, roster())
        for number in range(1, PERIODS + 1):
            own = [r for r in more if f'"{LABELS[number - 1]}"'.encode() in (r.value or b"")]
            others = [r for r in reports(number) if f'"{X}"'.encode() not in (r.value or b"")]
            homes.send([*others, *(own or []), close_marker(number, 0)])
        homes.run(tell=lines_to(messages))
        answers = [np.array(c, "<i8").tobytes() for c in ANSWERS]
        with homes.log() as log:
            jobs = [job for entry in homes.entries() for job in entry.jobs]
            for job in jobs:
                write(log, job.id, [b"seed" * 8 + FORMAT, msgspec.msgpack.encode(answers)])
        homes.work(tell=lines_to(messages))
        assert homes.run(tell=lines_to(messages))
        seen: dict[str, bytes | str] = {"messages": "\n".join(messages)}
        seen["file"] = (path / "homes-public.db").read_bytes()
        out = path / "out"
        assert main(["export", f"sqlite:{path / 'homes-public.db'}", "households", str(out)]) == 0
    return seen | {file.name: file.read_bytes() for file in out.iterdir()}


def write(log: SqliteLog, job: str, rounds: list[bytes]) -> None:
    """Rounds that were decided before: no noise is drawn."""
    lease = Lease(job, "w", "", new_heartbeat("worker", service=False))
    log.append([lease_record(lease)])
    log.append(
        Record(
            topic=TRANSCRIPTS,
            value=data,
            key=f"{job}/{n}".encode(),
            headers=(("stream-dp-chunk", b"w/0/1"),),
            partition=0,
        )
        for n, data in enumerate(rounds)
    )
    log.append([lease_record(msgspec.structs.replace(lease, after="w", released=True))])


@pytest.mark.parametrize("change", CHANGES)
def test_the_public_side_does_not_tell_inputs_apart(folder: Path, change: str) -> None:
    a, b = run(folder / "a", []), run(folder / "b", CHANGES[change])
    assert (folder / "a" / "homes.db").read_bytes() != (folder / "b" / "homes.db").read_bytes()
    assert a == b
    assert {"groups.parquet", "people.parquet", "file"} <= set(a)


def test_other_answers_are_seen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail."""
    a = run(folder / "a", [])
    monkeypatch.setitem(globals(), "ANSWERS", [*ANSWERS[:3], [16, 15]])
    b = run(folder / "b", [])
    assert a["messages"] == b["messages"]
    assert a["file"] != b["file"]
