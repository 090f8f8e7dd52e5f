"""Logs that 1.0.0 wrote are read, verified and continued; see docs/reference/public-format.md."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

from kit.frozen_logs import CLOSED, FROZEN, go_on, unpacked

from stream_dp.client import PublicLog
from stream_dp.services.commands.cli import main
from stream_dp.services.storage.deployment import Deployment
from stream_dp.services.storage.journal import closes, read

VERSION = "1.0.0"


def published(file: Path) -> PublicLog:
    with closing(Deployment.load(file).public()) as log:
        return PublicLog(log)


def test_frozen_logs_are_read_and_verified(tmp_path: Path) -> None:
    file = unpacked(tmp_path)
    public = published(file)
    assert {r.certificate.code_version for r in public.releases} == {VERSION}
    with closing(Deployment.load(file).log(readonly=True)) as log:
        entries = read(log)
    assert [entry.number for entry in closes(entries)] == list(range(CLOSED + 1))
    assert main(["verify", str(file), "--head", public.head]) == 0
    assert main(["status", str(file)]) == 0
    assert main(["estimate", str(file), "pairs", "pattern 1 ?"]) == 0


def test_frozen_logs_are_continued_as_if_today_had_begun_them(tmp_path: Path) -> None:
    """The last periods are those of a study that was run by today's code alone."""
    today = tmp_path / "today"
    today.mkdir()
    file, anew = unpacked(tmp_path), Path(shutil.copy(FROZEN / "study.toml", today))
    before = published(file).messages
    count = Deployment.load(file).study.periods.count
    for number in range(CLOSED + 1, count + 1):
        go_on(file, number, moved=number == CLOSED + 1)
    for number in range(1, count + 1):
        go_on(anew, number, moved=False)
    ours, theirs = published(file), published(anew)
    assert [m.hash for m in ours.messages[: len(before)]] == [m.hash for m in before]
    for one, other in zip(ours.releases, theirs.releases, strict=True):
        assert one.message.parts == other.message.parts
    assert main(["verify", str(file)]) == 0
