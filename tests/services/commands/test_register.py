"""A register of studies: what they cost together, what does not fit, and what was changed."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from kit.commands import json_output, refusal

from stream_dp.errors import UserError
from stream_dp.services.storage.deployment import Deployment
from stream_dp.services.storage.study_register import add_study, read_register

STUDY = """[study]
name = "{name}"
unit = "person"
neighbours = "{neighbours}"
rho = "{rho}"
delta = 1e-6
[study.population]
size = 10
[study.periods]
first = "2021-01"
every = "month"
count = 2
[attributes.work]
values = [0, 1]
missing = 0
[[releases]]
name = "now"
kind = "window"
attribute = "work"
width = 1
rho = "{rho}"
"""

BEGIN = ["--population", "all people", "--unit", "person", "--neighbours", "replace_one"]


def study(folder: Path, name: str, rho: str, neighbours: str = "replace_one") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(STUDY.format(name=name, rho=rho, neighbours=neighbours))
    return path


@pytest.fixture
def register(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A register of at most rho 1, with a study of 1/3."""
    path = tmp_path / "people.register"
    json_output(capsys, "register", "begin", path, *BEGIN, "--rho", "1")
    json_output(capsys, "register", "add", path, study(tmp_path, "first", "1/3"))
    return path


def test_studies_add_up_exactly(
    register: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fits = study(tmp_path, "fits", "2/3")
    answer = json_output(capsys, "register", "check", register, fits)
    assert (answer["rho_spent"], answer["rho_total"]) == ("1/3", "1")
    answer = json_output(capsys, "register", "add", register, fits)
    assert answer["rho_spent"] == "1"
    assert [one["study"] for one in answer["studies"]] == ["first", "fits"]
    again = json_output(capsys, "register", "add", register, fits)
    assert again == answer
    text = fits.read_text().replace('name = "fits"', 'name = "fits"\ndescription = "more"')
    fits.write_text(text)
    assert json_output(capsys, "register", "add", register, fits) == answer
    assert json_output(capsys, "check", fits, "--register", register)


def test_what_does_not_fit_is_refused_before_anything_is_read(
    register: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    large = study(tmp_path, "large", "3/4")
    other = study(tmp_path, "other", "1/100", "replace_in_place")
    before = register.read_bytes()
    for command in (
        ("register", "check", register, large),
        ("register", "add", register, large),
        ("check", large, "--register", register),
    ):
        assert "asks for rho 3/4, but 2/3 of 1 is left" in refusal(capsys, 2, *command)
    assert "do not add up" in refusal(capsys, 2, "register", "add", register, other)
    assert register.read_bytes() == before


@pytest.mark.parametrize("line", [0, 1])
def test_a_changed_line_is_found(
    line: int, register: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    json_output(capsys, "register", "add", register, study(tmp_path, "second", "1/3"))
    lines = register.read_bytes().splitlines()
    lines[line] = lines[line].replace(b'"rho":"1', b'"rho":"9', 1)
    register.write_bytes(b"\n".join(lines) + b"\n")
    assert "broken hash chain" in refusal(capsys, 4, "register", "check", register)


def test_an_older_register_is_found_by_its_head(
    register: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older = register.read_bytes()
    add = ("register", "add", register, study(tmp_path, "second", "1/3"))
    head = json_output(capsys, *add)["head"]
    json_output(capsys, "register", "check", register, "--head", head)
    register.write_bytes(older)
    assert "the head kept elsewhere" in refusal(
        capsys, 4, "register", "check", register, "--head", head
    )


@pytest.mark.parametrize("data", [b"", b"{}\n", b"\xff\n", b"[" * 5000 + b"\n", b'{"a":1}'])
def test_what_is_no_register_is_one_line(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "people.register"
    path.write_bytes(data)
    (line,) = refusal(capsys, 4, "register", "check", path).splitlines()
    assert "damaged" in line
    assert "cannot be read" in refusal(capsys, 2, "register", "check", tmp_path / "none")


def test_a_line_that_was_cut_is_found(register: Path, capsys: pytest.CaptureFixture[str]) -> None:
    register.write_bytes(register.read_bytes()[:-5])
    assert "damaged" in refusal(capsys, 4, "register", "check", register)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["begin", "FILE"], "give --population, --unit, --neighbours, --rho"),
        (["begin", "NEW", *BEGIN, "--neighbours", "other", "--rho", "1"], "neighbours"),
        (
            ["begin", "NEW", *BEGIN, "--population", "a\nb: 0 studies", "--rho", "1"],
            "--population: write one line of at most 200 characters",
        ),
        (["begin", "NEW", *BEGIN, "--unit", "u" * 201, "--rho", "1"], "--unit: write one line"),
        (["begin", "NEW", *BEGIN, "--rho", "x"], "--rho: write a number"),
        (["begin", "FILE", *BEGIN, "--rho", "1"], "is there already"),
        (["add", "FILE"], "name the study file"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(
    options: list[str], words: str, register: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"FILE": str(register), "NEW": str(register.parent / "new.register")}
    error = refusal(capsys, 2, "register", *(places.get(word, word) for word in options))
    (line,) = error.splitlines()
    assert words in line


def test_two_that_add_at_once_never_pass_the_most(register: Path, tmp_path: Path) -> None:
    studies = [Deployment.load(study(tmp_path, f"s{i}", "1/4")).study for i in range(6)]
    refused: list[UserError] = []

    def add(index: int) -> None:
        try:
            add_study(register, studies[index])
        except UserError as error:
            refused.append(error)

    threads = [threading.Thread(target=add, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read_register(register)
    assert len(refused) == 4
    assert str(found.spent) == "5/6"
    assert all(json.loads(line) for line in register.read_text().splitlines())
