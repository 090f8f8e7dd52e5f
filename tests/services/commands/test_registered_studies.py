"""A study with `[run] register`: each of its beginnings is counted, or refused."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from kit.commands import json_output, refusal, written
from kit.killed import die
from kit.panels import shared
from kit.studies import MARKER, MONTHS, attribute, study_toml, window

from stream_dp.errors import UserError
from stream_dp.log.log import Missing
from stream_dp.log.message import read_chain
from stream_dp.services.commands.cli import main
from stream_dp.services.releaser.deployed_releaser import releaser_of
from stream_dp.services.storage.deployment import Deployment
from stream_dp.services.storage.study_register import read_register
from stream_dp.study.topics import RELEASES

REGISTER = "people.register"
BEGIN = ["--population", "all people", "--unit", "person", "--neighbours", "replace_one"]


def text(name: str = "first", register: Path | str = REGISTER) -> str:
    """The study file of a study that costs 1/3."""
    return study_toml(
        name=name,
        unit="person",
        rho="1/3",
        periods={**MONTHS, **MARKER, "count": 1},
        size=4,
        attributes={"work": attribute(["no", "yes"], missing="no")},
        releases=[window("now", "work", width=1, rho="1/3")],
        run={"log": "sqlite:c.db", "public": "sqlite:c-public.db", "register": str(register)},
    )


def study(folder: Path, name: str = "first", register: Path | str = REGISTER) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "study.toml"
    path.write_text(text(name, register))
    return path


def begin(path: Path, rho: str, capsys: pytest.CaptureFixture[str]) -> Path:
    json_output(capsys, "register", "begin", path, *BEGIN, "--rho", rho)
    return path


def delete_logs(file: Path) -> None:
    for path in [*file.parent.glob("c.db*"), *file.parent.glob("c-public.db*")]:
        path.unlink()


def spent(register: Path) -> str:
    return str(read_register(register).spent)


def published(file: Path) -> int:
    """The number of public messages."""
    try:
        with closing(Deployment.load(file).public(readonly=True)) as log:
            return len(read_chain(log, RELEASES, "public log"))
    except Missing:
        return 0


def run(file: Path) -> int:
    return main(["run", str(file), "--until-idle"])


def test_each_beginning_costs_and_the_last_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register, file = begin(tmp_path / REGISTER, "1", capsys), study(tmp_path)
    counted = json_output(capsys, "register", "add", register, file)
    assert counted["studies"] == [{"study": "first", "begun": 0, "rho": "1/3"}]
    for cost in ("1/3", "2/3", "1"):
        delete_logs(file)
        assert main(["close", str(file), "2021-01"]) == 0
        assert [run(file) for _ in range(2)] == [0, 0]  # the second time nothing begins
        assert main(["close", str(file), "2021-01"]) == 0
        assert spent(register) == cost
    assert published(file) == 2
    (tmp_path / "reports.csv").write_text("person,period,work\na,2021-01,yes\n")
    send, close = ("send", file, tmp_path / "reports.csv"), ("close", file, "2021-01")
    for words in [send, close, *[("run", file, "--until-idle")] * 15]:
        delete_logs(file)
        capsys.readouterr()
        line = refusal(capsys, 2, *words)
        assert "first has begun before" in line
        assert "a further rho 1/3, but 0 of 1 is left" in line
        assert "go on with the logs of the first beginning" in line
    assert published(file) == 0
    shown = json_output(capsys, "register", "check", register)
    assert shown["studies"] == [{"study": "first", "begun": 3, "rho": "1"}]
    assert main(["register", "check", str(register)]) == 0
    assert "first: begun 3 times, rho 1" in capsys.readouterr().out


def test_a_study_that_was_not_added_is_counted_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register = begin(tmp_path / REGISTER, "1/2", capsys)
    first, *others = (study(tmp_path / name, name, register) for name in ("a", "b", "c"))
    assert run(first) == 0
    assert spent(register) == "1/3"
    (tmp_path / "reports.csv").write_text("person,period,work\na,2021-01,yes\n")
    for other in others:
        for words in (
            ("send", other, tmp_path / "reports.csv"),
            ("close", other, "2021-01"),
            ("run", other, "--until-idle"),
            ("check", other),
        ):
            capsys.readouterr()
            assert "asks for rho 1/3, but 1/6 of 1/2 is left" in refusal(capsys, 2, *words)
        assert (spent(register), published(other)) == ("1/3", 0)


def test_a_study_that_has_begun_without_a_register_is_counted_before_it_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register, file = begin(tmp_path / REGISTER, "1/3", capsys), study(tmp_path)
    plain = file.read_text()
    file.write_text(plain.replace(f'register = "{REGISTER}"\n', ""))
    assert run(file) == 0
    assert spent(register) == "0"
    file.write_text(plain)
    assert run(file) == 0
    assert spent(register) == "1/3"


@pytest.mark.parametrize("step", ["owned", "begun", "registered", "publish"])
def test_a_beginning_that_was_killed_counts_once(
    step: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register, file = begin(tmp_path / REGISTER, "1", capsys), study(tmp_path)
    for _ in range(1 if step == "begun" else 2):  # what has begun does not begin again
        child = os.fork()
        if child == 0:
            releaser = releaser_of(Deployment.load(file))
            shared(releaser, at=lambda name: die() if name == step else None)
            releaser.run(until_idle=True)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        assert published(file) == 0
    assert spent(register) == ("0" if step in {"owned", "begun"} else "1/3")
    assert run(file) == 0
    assert (spent(register), published(file)) == ("1/3", 1)


def test_of_two_that_begin_at_once_one_has_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register = begin(tmp_path / REGISTER, "1/2", capsys)
    files = [study(tmp_path / f"s{i}", f"s{i}", register) for i in range(2)]
    ready, refused = threading.Barrier(2), list[str]()

    def live(file: Path) -> None:
        releaser = releaser_of(Deployment.load(file))
        shared(releaser, at=lambda name: ready.wait() and None if name == "begun" else None)
        try:
            releaser.run(until_idle=True)
        except UserError as error:
            refused.extend(error.lines)

    threads = [threading.Thread(target=live, args=(file,)) for file in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    (line,) = refused
    assert "1/6 of 1/2 is left" in line
    assert spent(register) == "1/3"
    assert sorted(map(published, files)) == [0, 1]


def test_on_kafka(
    tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    register = begin(tmp_path / REGISTER, "1/2", capsys)
    file = written(text(), tmp_path, "kafka", request, capsys)
    assert [run(file) for _ in range(2)] == [0, 0]
    assert main(["close", str(file), "2021-01"]) == 0
    assert (spent(register), published(file)) == ("1/3", 1)
    # Other topics are another beginning.
    prefix = Deployment.load(file).run.log.rpartition("/")[2]
    file.write_text(file.read_text().replace(prefix, uuid.uuid4().hex))
    capsys.readouterr()
    json_output(capsys, "topics", file)
    assert "has begun before" in refusal(capsys, 2, "run", file, "--until-idle")
    assert (spent(register), published(file)) == ("1/3", 0)
