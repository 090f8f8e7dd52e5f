"""A study as the text of a file: what is read from it is the same study."""

import tomllib
from decimal import Decimal
from importlib.resources import files
from pathlib import Path

import pytest
from kit.study_file import TEXT, changed

from stream_dp.study.study_text import study_text
from stream_dp.studyfile import load_study, parse_study

ROOT = Path(__file__).parents[2]
FILES = [
    ROOT / "services" / "desk" / "demo.toml",
    ROOT / "examples" / "sipp" / "sipp.toml",
    ROOT / "examples" / "pums" / "pums.toml",
    Path(str(files("stream_dp.services.commands").joinpath("study.toml"))),
]
SCHEDULE = 'count = 12\nclose = "schedule"\nzone = "Europe/Lisbon"\nat = 09:00:00\ngrace = "3d"'
CURATOR = """[study.curator]
name = "Office \\"X\\""
contact = "https://example.org/a?b=c"
licence = "CC-BY-4.0"
intended_use = "Teaching é"
region = "Portugal"
[attributes.poverty]"""
CHANGES = [
    ("[attributes.poverty]", CURATOR),
    ("rho = 0.01", "rho = '1/60'"),
    ("count = 12", SCHEDULE),
    (
        'unit = "household"',
        'unit = "household"\ndescription = "a \\"line\\" \\\\ \\u007f \\u001b é"',
    ),
    (
        "[attributes.poverty]",
        '[attributes."work.hours"]\nvalues = ["1/2", "x y"]\nmissing = "x y"\n[attributes.poverty]',
    ),
    (
        "[attributes.poverty]",
        '[attributes.region]\nvalues = ["north"]\nmissing = "absent"\n'
        "fixed = true\n[attributes.poverty]",
    ),
]


def read(text):
    return parse_study(tomllib.loads(text, parse_float=Decimal))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_come_back(path):
    study = load_study(path)[0]
    assert read(study_text(study)).hash == study.hash


@pytest.mark.parametrize(("old", "new"), CHANGES, ids=range(len(CHANGES)))
def test_every_kind_of_value_comes_back(old, new):
    study = read(changed(old, new, TEXT[: TEXT.index("[run]")]))
    text = study_text(study)
    assert read(text).hash == study.hash
    assert "rho" not in text.partition("[[releases]]")[2]
