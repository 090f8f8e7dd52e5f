"""A releaser on two files with simulated noise, for streams of any reports."""

import json

from hypothesis import strategies as st
from kit.arrivals import PERIODS, any_value, people, wild
from kit.events import lines_to

from stream_dp.log.sqlite import SqliteLog
from stream_dp.planning.plan import plan_study
from stream_dp.privacy.noise import SeededNoise
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.releaser.releaser import Releaser
from stream_dp.services.releaser.releaser_facts import Context
from stream_dp.services.storage.journal import read as read_journal
from stream_dp.services.storage.snapshots import Snapshots
from stream_dp.study.topics import DEAD_LETTERS, REPORTS

# The service.


class Service:
    """A releaser on two files, with simulated noise."""

    def __init__(self, folder, study, partitions=2):
        folder.mkdir()
        self.study, self.folder, self.partitions = study, folder, partitions
        self.log = SqliteLog(folder / "log.db", timed=(REPORTS,))
        self.public = SqliteLog(folder / "public.db", public=True)
        # Durability is not what is tested here.
        for log in (self.log, self.public):
            log._db.execute("PRAGMA synchronous = OFF")
        self.log.create({REPORTS: partitions})
        self.lines = []

    def close_logs(self):
        self.log.close()
        self.public.close()

    def mark(self, number):
        self.log.append(close_marker(number, p) for p in range(self.partitions))

    def run(self):
        return Releaser(
            plan=plan_study(self.study),
            log=self.log,
            public=self.public,
            snapshots=Snapshots("snapshots", self.folder),
            context=Context.of(self.study, tell=lines_to(self.lines)),
            partitions=self.partitions,
            source=SeededNoise(1),
        ).run(until_idle=True)

    def letters(self):
        letters, batch = [], None
        while batch is None or not batch.at_end:
            start = {0: 0} if batch is None else batch.next
            batch = self.log.read(DEAD_LETTERS, start, 100_000, 0)
            letters += batch.records
        return letters

    def accounting(self):
        return read_journal(self.log)[-1].message.head["accounting"]


def balanced(accounting):
    return accounting["received"] == (
        accounting["accepted"]
        + accounting["superseded"]
        + sum(accounting["rejected"].values())
        + accounting["pending"]
    )


SECRET = "Zq7secret"
secret_reports = st.fixed_dictionaries(
    {
        "person": people | st.just(SECRET) | wild,
        "period": st.sampled_from([*PERIODS, SECRET, 2001]) | wild,
        "values": st.dictionaries(
            st.sampled_from(["a", "b", "c", SECRET]), any_value | st.just(SECRET), max_size=3
        ),
    }
).map(lambda r: json.dumps(r).encode())
