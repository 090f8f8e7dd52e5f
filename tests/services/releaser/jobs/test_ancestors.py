"""Certificates of fused tables count everything that the tables descend from, published or not."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from kit.fused_months import ORDERS, FusedMonths, understatements
from kit.hostile import Draft, sealed
from kit.verifiers import verdicts

from stream_dp.log import open_log
from stream_dp.log.message import Message, read_messages
from stream_dp.services.commands import cli
from stream_dp.services.storage.deployment import Deployment
from stream_dp.study.topics import RELEASES

DRAWN = random.Random(39).sample(ORDERS, 4)
LATE = ("hand in", "retry", "abandon", "hand in")  # month 4 descends from three, one published


@pytest.mark.parametrize("ends", [LATE, *DRAWN], ids=", ".join)
def test_no_certificate_leaves_out_an_ancestor(ends: tuple[str, ...], tmp_path: Path) -> None:
    assert understatements(tmp_path / "study", ends) == []


def _head(**fields: Any) -> Callable[[Any], None]:
    return lambda head: head.update(fields)


def _ancestors(**rho: str | None) -> Callable[[Any], None]:
    """Another rho of an ancestor, such as of `m02`; None leaves it out."""

    def change(head: Any) -> None:
        for name, value in rho.items():
            head["fused_with"].pop(f"2021-{name[1:]}", None)
            if value is not None:
                head["fused_with"][f"2021-{name[1:]}"] = value

    return change


def _unspent(head: Any) -> None:
    """An ancestor without its rho, in the list and in the sum."""
    head["rho_spent"] = str(Fraction(head["rho_spent"]) - Fraction(head["fused_with"]["2021-02"]))
    head["fused_with"]["2021-02"] = "0"


UNREAD, SUM = "a certificate cannot be read: fused_with", "its budget does not add up"
BEFORE = "its certificate's fused_with is not the tables before it"
# What is changed in a certificate, of month 3 or 4, and what is said of it.
MISSING: dict[str, tuple[int, Callable[[Any], object], str]] = {
    "an unpublished one": (3, _ancestors(m02=None), SUM),
    "an unpublished one without its rho": (3, _ancestors(m02="0"), SUM),
    "an unpublished one and its sum": (4, _unspent, "not with all that 2021-03 is fused with"),
    "an unpublished one, later": (4, _ancestors(m02="0"), "not with all that 2021-03 is fused"),
    "a published one": (4, _ancestors(m01=None), "not with all that 2021-03 is fused with"),
    "the list": (4, lambda head: head.pop("fused_with"), BEFORE),
    "all": (4, _head(fused_with={}), BEFORE),
    "the last": (4, _ancestors(m03=None), BEFORE),
    "a part of its rho": (3, _ancestors(m02="1/9"), SUM),
    "a part of a published one's rho": (4, _ancestors(m03="1/9"), "not the charges of the plan"),
    "its month": (4, _ancestors(m09="1/9"), "a table that does not come before it"),
    "its number": (4, _ancestors(m03="x"), UNREAD),
    "what a list is": (4, _head(fused_with=["2021-03"]), UNREAD),
}


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> list[Message]:
    """Months 1, 3 and 4; the last two descend from month 2."""
    months = FusedMonths(tmp_path_factory.mktemp("fused") / "study")
    months.ended(("hand in", "abandon", "hand in", "hand in"))
    with closing(Deployment.load(months.file).public(readonly=True)) as log:
        return list(read_messages(log, RELEASES, "public log"))


def _log(path: Path, chain: list[Message], month: int, change: Callable[[Any], object]) -> Path:
    """The log with another certificate of a month, whose hashes fit."""
    drafts = [Draft(copy.deepcopy(m.head), list(m.parts)) for m in chain]
    change(next(one.head for one in drafts if one.head.get("number") == month))
    with closing(open_log(f"sqlite:{path.name}", path.parent, public=True)) as log:
        log.create({RELEASES: 1})
        log.append(sealed(drafts))
    return path


def test_verifiers_refuse_a_certificate_without_an_ancestor(
    chain: list[Message], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = {"nothing": (4, lambda head: None, ""), **MISSING}
    logs = [
        _log(tmp_path / f"{i}.db", chain, month, change)
        for i, (month, change, _) in enumerate(cases.values())
    ]
    others = verdicts([(path, {}) for path in logs])
    for (name, (_, _, fault)), path, other in zip(cases.items(), logs, others, strict=True):
        code = cli.main(["verify", f"sqlite:{path}", "--all", "--json"])
        out, error = capsys.readouterr()
        said = json.loads(out) if out else json.loads(error)["lines"][0]
        assert (code == 0) == (not fault), (name, said)
        assert fault in json.dumps(said), name
        assert other[0] == code, (name, other)
        assert fault in json.dumps(other[1]), (name, other)
