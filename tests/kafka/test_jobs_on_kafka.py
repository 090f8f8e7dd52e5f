"""Batch jobs on a real broker: two workers beside the releaser, one data set for each job."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from kit.households import EVERY, PERIODS, NotedNoise, reports, roster, use_fit_in_rounds
from kit.panels import made_releaser
from kit.studies import on_kafka

from stream_dp.client import PublicLog
from stream_dp.errors import UserError
from stream_dp.log.log import Fenced, following
from stream_dp.planning.plan import Plan
from stream_dp.services.intake.group_tables import Roster, read_table, send_table
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.releaser.worker import Worker
from stream_dp.services.storage import journal
from stream_dp.services.storage.deployment import Deployment
from stream_dp.study.topics import REPORTS, TRANSCRIPTS


@pytest.fixture
def setting(kafka: str, tmp_path: Path) -> Deployment:
    prefix, file = f"homes-{uuid.uuid4().hex[:8]}", tmp_path / "homes.toml"
    file.write_text(on_kafka(EVERY, f"kafka://{kafka}/{prefix}"))
    return Deployment.load(file)


def send(setting: Deployment) -> None:
    with closing(setting.log()) as log:
        log.create({REPORTS: 1})
        for number in range(1, PERIODS + 1):
            log.append([*reports(number), close_marker(number, 0)])


def released(setting: Deployment) -> bool:
    with closing(setting.log()) as log, closing(setting.public()) as public:
        process = made_releaser(Plan(setting.study), log, public, setting.snapshots)
        return process.run(until_idle=True)


def work(setting: Deployment) -> None:
    with closing(setting.log()) as log:
        Worker(setting.study, log, setting.snapshots, source=NotedNoise()).run(until_idle=True)


def test_two_workers_and_one_data_set_for_each_job(
    setting: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fit_in_rounds(monkeypatch)
    send(setting)
    work(setting)  # before the releaser's first start: there is nothing to do
    with pytest.raises(UserError, match="no table of groups was sent"):
        released(setting)
    assert send_table(setting, roster())
    assert not send_table(setting, roster())
    assert not released(setting)
    workers = [threading.Thread(target=work, args=(setting,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(600)
    assert released(setting)
    assert released(setting)
    with closing(setting.log()) as log:
        entries = journal.read(log)
        first = dict(log.describe(TRANSCRIPTS).first)
        transcripts = list(following(log, TRANSCRIPTS, first))
        written = Counter(record.key for record in transcripts if record.key is not None)
    assert sum(entry.result_of is not None for entry in entries) == PERIODS
    assert max(written.values()) == 1  # who has no lease draws nothing
    with closing(setting.public(readonly=True)) as log:
        public = PublicLog(log)
    assert len(public.published) == PERIODS + 2
    public.verify()


def test_two_tables_of_groups_at_once_leave_a_sound_chain(setting: Deployment) -> None:
    for attempt in range(4):
        ended: list[type] = []

        def send_roster(seed: int, ended: list[type] = ended) -> None:
            try:
                send_table(setting, roster(seed=seed))
                ended.append(bool)
            except Fenced:
                ended.append(Fenced)

        seeds = (2 * attempt, 2 * attempt + 1)
        threads = [threading.Thread(target=send_roster, args=(seed,)) for seed in seeds]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(600)
        assert len(ended) == 2
        assert bool in ended
        with closing(setting.log()) as log:
            last = read_table(Roster, log)
        assert last is not None
        assert last.hash in {roster(seed=seed).hash for seed in seeds}
