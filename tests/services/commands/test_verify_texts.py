"""Certificates of data sets and of sizes that state what does not follow from their study."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kit.households import HouseholdFolder, use_fit_in_rounds
from kit.movers import moves_public
from kit.public_logs import log_in_memory

from stream_dp.client import PublicLog
from stream_dp.errors import Inconsistent
from stream_dp.log import public_log
from stream_dp.log.message import START, Message, build_message, read_messages
from stream_dp.study.topics import RELEASES

OTHERS: dict[str, Any] = {
    "guarantee": "Nobody learns anything.",
    "invariants": "none at all",
    "domain": "declared by nobody",
    "mechanism": "another one",
    "noise": "quantum",
    "parameters": {"rounds": 3},
    "epsilon_spent": "0.1",
    "epsilon_total": "0.1",
    "unit": "village",
    "neighbours": "replace_one",
    "kind": "mwem",
}


def messages(kind: str, folder: Path) -> list[Message]:
    """The public messages of a study of households, or of sizes."""
    if kind == "sizes":
        address = moves_public(folder)
    else:
        with pytest.MonkeyPatch.context() as patch:
            use_fit_in_rounds(patch)
            homes = HouseholdFolder(folder).prepare()
            homes.run()
            homes.work()
            homes.run()
        address = f"sqlite:{folder / 'homes-public.db'}"
    with closing(public_log(address)) as log:
        return list(read_messages(log, RELEASES, "public log"))


@pytest.mark.parametrize("kind", ["data set", "sizes"])
def test_what_does_not_follow_from_the_study_is_refused(kind: str, tmp_path: Path) -> None:
    sent = messages(kind, tmp_path)
    PublicLog(log_in_memory(sent)).verify()
    kind_of = {"data set": "stream-dp.batch", "sizes": "stream-dp.sizes"}[kind]
    place = next(m.index for m in sent if m.head["type"] == kind_of)
    for field, value in OTHERS.items():
        assert sent[place].head[field] != value
        written: list[Message] = []
        for message in sent:
            head = {**message.head, field: value} if message.index == place else message.head
            previous = written[-1].hash if written else START
            written.append(build_message(message.index, previous, head, message.parts))
        with pytest.raises(Inconsistent, match=f"message {place}: .*{field}"):
            PublicLog(log_in_memory(written)).verify()
