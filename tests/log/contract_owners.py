"""What every log must do: commits by the owner of a role."""

import uuid

import pytest
from contents import by_partition, drain, sent, values

from stream_dp.log.log import Busy, Fenced, LogError, Record


class OwnersContract:
    """Tests of `own` and `commit`; the fixtures are those of `LogContract`."""

    def seen(self, log, topic, count):
        """The values of a topic after commits of so many."""
        return values(log, topic)

    def test_a_commit_is_seen_by_others_when_it_returns(self, opener, log, topic):
        name, other = topic(), opener()
        with log.own(f"{name}-owner") as writer:
            writer.commit(sent(name, b"1"))
            assert self.seen(other, name, 1) == [b"1"]
            writer.commit(sent(name, b"2", b"3"))
            assert self.seen(other, name, 3) == [b"1", b"2", b"3"]
        assert values(opener(), name) == [b"1", b"2", b"3"]

    def test_a_commit_of_several_topics(self, opener, log, topic):
        first, second = topic(2), topic()
        with log.own(f"{first}-owner") as writer:
            writer.commit(
                [
                    Record(first, b"a", partition=0, headers=(("h", b"1"),), time=5),
                    Record(second, b"b", b"key"),
                    Record(first, b"c", partition=1),
                ]
            )
        records, _ = drain(opener(), first)
        assert by_partition(records) == {0: [b"a"], 1: [b"c"]}
        assert [(r.headers, r.time) for r in records if r.partition == 0] == [((("h", b"1"),), 5)]
        assert [(r.key, r.value) for r in drain(log, second)[0]] == [(b"key", b"b")]

    def test_a_commit_of_nothing_is_harmless(self, log, topic):
        name = topic()
        with log.own(f"{name}-owner") as writer:
            writer.commit([])
            writer.commit(sent(name, b"1"))
        assert values(log, name) == [b"1"]

    def test_a_commit_that_fails_leaves_nothing(self, log, topic):
        first, second = topic(), topic()

        def breaking():
            yield Record(first, b"a")
            yield Record(second, b"b")
            raise ZeroDivisionError

        with log.own(f"{first}-owner") as writer, pytest.raises(ZeroDivisionError):
            writer.commit(breaking())
        with log.own(f"{first}-owner") as writer:
            with pytest.raises(LogError):
                writer.commit([Record(first, b"a"), Record(f"none-{uuid.uuid4().hex}", b"b")])
        assert values(log, first) == values(log, second) == []
        with log.own(f"{first}-owner") as writer:
            writer.commit(sent(first, b"later"))
        assert values(log, first) == [b"later"]

    def test_at_most_one_owner_can_commit(self, opener, log, topic):
        name, other = topic(), opener()
        with log.own(f"{name}-owner") as first:
            first.commit(sent(name, b"first"))
            try:
                with other.own(f"{name}-owner") as second:
                    second.commit(sent(name, b"second"))
                    with pytest.raises(Fenced):
                        first.commit(sent(name, b"fenced"))
                    expected = [b"first", b"second"]
            except Busy:
                first.commit(sent(name, b"still the first"))
                expected = [b"first", b"still the first"]
        assert values(opener(), name) == expected

    def test_roles_do_not_disturb_each_other_nor_appends(self, opener, log, topic):
        name, other = topic(), opener()
        with log.own(f"{name}-one") as first, other.own(f"{name}-two") as second:
            first.commit(sent(name, b"1"))
            second.commit(sent(name, b"2"))
            other.append(sent(name, b"3"))
            first.commit(sent(name, b"4"))
        assert values(log, name) == [b"1", b"2", b"3", b"4"]

    def test_a_role_can_have_one_owner_after_the_other(self, opener, log, topic):
        name = topic()
        for i in range(3):
            with opener().own(f"{name}-owner") as writer:
                writer.commit(sent(name, b"%d" % i))
        assert values(log, name) == [b"0", b"1", b"2"]

    def test_an_owner_that_has_left_cannot_commit(self, log, topic):
        name = topic()
        with log.own(f"{name}-owner") as writer:
            pass
        with pytest.raises(Fenced):
            writer.commit(sent(name, b"late"))
        assert values(log, name) == []
