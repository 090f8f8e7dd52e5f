"""Any record on the broker becomes at worst one rejected report."""

import json
import random
import time
import uuid

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from days import everything
from kit.brokers import foreign_producer
from kit.peak import run_peak
from kit.rejected_cells import reasons_of
from kit.studies import attribute, study_toml, window
from wire import CODECS, Raw, batch, produce

from stream_dp.errors import Inconsistent
from stream_dp.log.kafka import KafkaLog
from stream_dp.population.report_decoding import LARGEST_REPORT
from stream_dp.services.commands.cli import main
from stream_dp.services.intake.markers import close_marker
from stream_dp.services.releaser.job_board import JobBoard
from stream_dp.services.storage.journal import read as read_journal
from stream_dp.study.topics import DEAD_LETTERS, JOBS, JOURNAL, REPORTS, RESULTS, TRANSCRIPTS

GOOD = b'{"person":"p1","period":1,"values":{"a":1}}'


class Place:
    """A study on the broker, to whose topics other programs write."""

    def __init__(self, folder, server, partitions=1):
        self.server, self.prefix = server, f"hostile-{uuid.uuid4().hex}"
        self.partitions, self.path = partitions, folder / "study.toml"
        self.path.write_text(
            study_toml(
                name="hostile",
                periods={"first": 1, "every": "step", "count": 2, "close": "marker"},
                size=5,
                attributes={"a": attribute([0, 1], missing=0)},
                releases=[window("w", "a", width=1, rho=1)],
                run={
                    "log": f"kafka://{server}/{self.prefix}",
                    "public": "sqlite:public.db",
                    "partitions": partitions,
                    "replication": 1,
                    "insecure": True,
                },
            )
        )
        settings = {"bootstrap.servers": server}
        self.log = KafkaLog(self.prefix, settings, replication=1, timed=(REPORTS,))
        self.log.create({REPORTS: partitions})

    def send(self, records, codec="none", partition=0, topic=REPORTS):
        return produce(self.server, f"{self.prefix}.{topic}", partition, batch(records, codec))

    def enforce(self, codec):
        """Lets the broker compress every batch of reports with this codec."""
        change = ConfigEntry("compression.type", codec, incremental_operation=AlterConfigOpType.SET)
        topic = ConfigResource("topic", f"{self.prefix}.reports", incremental_configs=[change])
        admin = AdminClient({"bootstrap.servers": self.server})
        admin.incremental_alter_configs([topic])[topic].result(300)

    def mark(self, number):
        self.log.append(close_marker(number, p) for p in range(self.partitions))

    def run(self):
        return main(["run", str(self.path), "--until-idle"])

    def accounting(self):
        return read_journal(self.log)[-1].message.head["accounting"]

    def letters(self):
        return everything(self.log, DEAD_LETTERS)


@pytest.fixture
def place(tmp_path, kafka):
    places = []

    def create(**how):
        places.append(Place(tmp_path, kafka, **how))
        return places[-1]

    yield create
    for place in places:
        place.log.close()


HEADERS = [
    [(b"stream-dp-close", None)],
    [(b"stream-dp-close", b"\xff")],
    [(b"stream-dp-close", b"1" * 1000)],
    [(b"\xff\xfe", b"x")],
    [(b"\xff\xfe", None), (b"stream-dp-close", b"1")],
    [(b"", b"")],
    [(b"", None)],
    [(b"a", b"1"), (b"a", None), (b"a", b"1")],
    [(b"\xed\xa0\x80", b"surrogate")],
    [(b"h" * 70_000, b"")],
    [(b"h", b"v" * 70_000)],
    [(b"", b"")] * 20_000,
    [(b"stream-dp-source", b"\x1b[2J\xff" * 100)],
]


@pytest.mark.parametrize("headers", HEADERS, ids=range(len(HEADERS)))
@pytest.mark.parametrize("value", [None, GOOD], ids=["no value", "report"])
def test_strange_headers_do_not_end_the_service(place, headers, value, capsys):
    here = place()
    here.send([Raw(value, headers=headers), Raw(GOOD)])
    here.mark(1)
    assert here.run() == 0, capsys.readouterr().err
    accounting, letters = here.accounting(), here.letters()
    rejected = accounting["rejected"].get("unreadable", 0)
    assert accounting["received"] == 2
    assert reasons_of(letters) == accounting["rejected"]
    text = all(_is_text(name) for name, _ in headers)
    small = sum(len(n) + len(v or b"") + 100 for n, v in headers) + len(GOOD) <= LARGEST_REPORT
    assert rejected == len(letters) == (0 if value and text and small else 1)
    assert main(["rejected", str(here.path)]) == 0
    assert "\x1b" not in capsys.readouterr().out


def _is_text(name):
    try:
        return name.decode() is not None
    except UnicodeDecodeError:
        return False


def raws(rng):
    """A random record of another program."""
    sizes = [0, 1, 40, 300, 300, 300, LARGEST_REPORT, 100_000]

    def some(most=8):
        return rng.choice([None, rng.randbytes(rng.choice(sizes[:most])), b"\0" * 400])

    names = [b"stream-dp-close", b"stream-dp-source", b"", b"\xff", b"h", rng.randbytes(9)]
    count = rng.choice([0, 0, 0, 1, 2, 700])
    headers = [(rng.choice(names), some(6)) for _ in range(count)]
    headers = [(n, b"x" if n == b"stream-dp-close" and (v or b"").isdigit() else v)
               for n, v in headers]  # fmt: skip
    times = [0, -1, -5, -(2**60), 2**40, 2**60, 1_700_000_000_000]
    value = rng.choice([some(), some(), GOOD, b"[" * 60_000])
    return Raw(value, rng.choice([None, b"", b"\xff", some()]), headers, rng.choice(times))


@pytest.mark.parametrize("codec", CODECS)
def test_random_records_are_all_accounted_for(place, codec, capsys):
    here, rng = place(partitions=2), random.Random(codec)
    count = 0
    for number in (1, 2):
        for _ in range(12):
            records = [raws(rng) for _ in range(rng.randint(1, 4))]
            here.send(records, codec, partition=rng.randrange(2))
            count += len(records)
        here.mark(number)
        assert here.run() == 0, capsys.readouterr().err
        accounting = here.accounting()
        assert accounting["received"] == count
        assert reasons_of(here.letters()) == accounting["rejected"]
        sent = {f"reports/{r.partition}/{r.offset}" for r in everything(here.log, REPORTS)}
        assert {x.key.decode() for x in here.letters()} <= sent
    topics = {x.header("__connect.errors.topic") for x in here.letters()}
    assert topics == {f"{here.prefix}.reports".encode()}
    capsys.readouterr()
    assert main(["rejected", str(here.path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["rejected"] == accounting["rejected"]
    assert sum(line["cells"] for line in shown["cells"]) == sum(shown["rejected"].values())


@pytest.mark.parametrize("codec", ["gzip", "zstd", "lz4", "snappy"])
def test_an_aborted_producer_and_its_codec(place, kafka, codec, capsys):
    here = place()
    stranger = foreign_producer(kafka, **{"compression.type": codec})
    for end in (stranger.abort_transaction, stranger.commit_transaction):
        stranger.begin_transaction()
        for value in (b"junk" * 100, GOOD):
            stranger.produce(f"{here.prefix}.reports", value, headers=[("stream-dp-close", None)])
        stranger.flush(300)
        end(300)
    here.mark(1)
    assert here.run() == 0, capsys.readouterr().err
    accounting = here.accounting()
    assert (accounting["received"], accounting["rejected"]) == (2, {"unreadable": 1})


@pytest.mark.parametrize("time_", [-(2**62), -1, 0, 2**62])
def test_the_times_of_senders_do_not_matter(place, time_):
    here = place()
    before = time.time()
    here.send([Raw(GOOD, time=time_)])
    time.sleep(0.05)
    after = time.time() + 0.05
    time.sleep(0.1)
    here.send([Raw(b"later", time=time_)])
    assert here.log.cut(REPORTS, before - 1) == {0: 0}
    assert here.log.cut(REPORTS, after) == {0: 1}
    times = [r.time / 1000 for r in everything(here.log, REPORTS)]
    assert [before - 60 < t < time.time() + 60 for t in times] == [True, True]


@pytest.mark.parametrize(("count", "size"), [(1, 80_000_000), (80, 1_000_000)])
def test_a_batch_that_expands_beyond_reading(place, count, size, capsys):
    """The client always refuses the batch: its records are skipped and each is rejected."""
    here = place()
    here.send([Raw(GOOD)])
    here.send([Raw(b"\0" * size)] * count, "zstd")
    here.send([Raw(b"\0" * size)] * count, "zstd")
    here.send([Raw(GOOD)])
    here.mark(1)
    assert here.run() == 0, capsys.readouterr().err
    accounting = here.accounting()
    assert accounting["received"] == 2 * count + 2
    assert accounting["rejected"] == {"unreadable": 2 * count}
    places = [x.header("__connect.errors.offset") for x in here.letters()]
    assert places == [b"%d" % i for i in range(1, 2 * count + 1)]


@pytest.mark.parametrize(
    ("codec", "enforced", "count", "size", "most"),
    [
        ("zstd", "producer", 500, 1_000_000, 400),
        ("zstd", "producer", 3000, 225_000, 600),
        ("lz4", "lz4", 400, 1_000_000, 330),
    ],
)
def test_memory_is_bounded_by_bytes(place, codec, enforced, count, size, most):
    """Hundreds of records of a megabyte each, in zstd, are a sixth of a megabyte.

    Those of 225,000 bytes are the largest that a quick fetch takes.
    most: MiB, fewer than all records have.
    """
    here = place()
    here.enforce(enforced)
    megabyte = batch([Raw(b"\0" * size)], codec)
    for _ in range(count):
        produce(here.server, f"{here.prefix}.reports", 0, megabyte)
    here.mark(1)
    peak = run_peak(here.path, timeout=1500)
    assert here.accounting()["rejected"] == {"unreadable": count}
    assert peak < most


def test_a_close_behind_an_open_transaction(place, kafka, capsys):
    here = place()
    stranger = foreign_producer(kafka)
    stranger.begin_transaction()
    stranger.produce(f"{here.prefix}.reports", GOOD)
    stranger.flush(300)
    here.mark(1)
    assert here.run() == 0
    out = capsys.readouterr().out
    assert "1 waits for a sender's open transaction" in out
    assert "waits for: stream-dp close" not in out
    assert main(["status", str(here.path)]) == 0
    assert ", unless that was given among what is not read yet" in capsys.readouterr().out
    stranger.commit_transaction(300)
    assert main(["status", str(here.path)]) == 0
    assert "the close was given, and is not read yet" in capsys.readouterr().out
    assert here.run() == 0
    assert "2 waits for: stream-dp close" in capsys.readouterr().out


ODD = [
    *[Raw(b"x", headers=headers) for headers in HEADERS],
    *[Raw(value, key) for key in (None, b"\xff/1", b"job") for value in (
        None, b"\xff", b"[]", b"[" * 200_000, b'{"type":"retry","id":[]}',
        b'{"attempt":1e999,"parts":[]}', b'{"type":"job","id":[],"period":{}}',
        b'{"job":"j","done":1e999,"rounds":1,"error":1,"left":1}',
    )],
]  # fmt: skip


def test_strange_records_about_jobs_decide_nothing(place):
    here = place()
    here.log.create({JOBS: 1, RESULTS: 1, TRANSCRIPTS: 1})
    parts = [b"manifest", b"failure", b"part"]
    for topic in (JOBS, RESULTS, TRANSCRIPTS):
        for odd in ODD:
            here.send([odd], topic=topic)
            for name in parts:
                headers = [(b"stream-dp-part", name), (b"stream-dp-progress", None)]
                here.send([Raw(odd.value, odd.key, headers, 2**62)], topic=topic)
    board = JobBoard(here.log, keep_parts=True)
    board.refresh(rounds=True)
    assert not board.jobs


@pytest.mark.parametrize("odd", [Raw(b"x", headers=HEADERS[3]), Raw(b"[" * 100_000), Raw(None)])
def test_a_strange_record_in_the_journal_is_refused_in_a_line(place, odd, capsys):
    here = place()
    assert here.run() == 0
    for name in (b"manifest", b"\xff"):
        here.send([Raw(odd.value, None, [*odd.headers, (b"stream-dp-part", name)])], topic=JOURNAL)
    capsys.readouterr()
    with pytest.raises(Inconsistent):
        read_journal(here.log)
    for command in ("run", "status"):
        assert main([command, str(here.path)]) == 4
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("stream-dp: journal: ")
