"""Topics of which each partition keeps its last record, on the embedded log."""

from contextlib import closing
from pathlib import Path

from stream_dp.log.log import Record
from stream_dp.log.sqlite import SqliteLog


def test_a_partition_of_a_latest_topic_keeps_its_last_record_alone(tmp_path: Path) -> None:
    with closing(SqliteLog(tmp_path / "log.db", latest=["beats"])) as log:
        log.create({"beats": 2, "others": 1})
        for number in range(3):
            beats = [Record("beats", b"%d/%d" % (p, number), partition=p) for p in range(2)]
            log.append([*beats, Record("others", b"%d" % number)])
        first = log.describe("beats").first
        assert first == {0: 2, 1: 2}
        batch = log.read("beats", first, 10, 0)
        assert [r.value for r in batch.records] == [b"0/2", b"1/2"]
        assert [r.value for r in log.read("others", {0: 0}, 10, 0).records] == [b"0", b"1", b"2"]
        log.append([Record("beats", b"next", partition=0)])
        assert [r.value for r in log.read("beats", batch.next, 10, 0).records] == [b"next"]
