"""What the reference says is what the code does."""

import re
from contextlib import closing
from pathlib import Path

import commands
import metrics
import pyarrow as pa
import pytest
import study_keys
from kit.studies import small_study, window

from stream_dp.client import PublicLog
from stream_dp.log import open_log
from stream_dp.log.log import Record, Stored
from stream_dp.population.report_decoding import Decoder
from stream_dp.services.commands import cli
from stream_dp.services.intake.markers import MARKER
from stream_dp.studyfile.shorthands import EXPANDED_KEYS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def page(name):
    return (DOCS / name).read_text("utf-8")


def models():
    return {model.__name__: model for model, _ in study_keys.sections().values()}


@pytest.mark.parametrize("model", models().values(), ids=lambda model: model.__name__)
def test_every_key_of_a_study_file_has_words(model):
    keys = model.model_fields.keys() | (
        study_keys.inline() if model is study_keys.StudyKeys else set()
    )
    words = study_keys.words(study_keys.Study if model is study_keys.StudyKeys else model)
    silent = keys - words.keys()
    assert not silent, f"{model.__name__}: write a sentence below {', '.join(sorted(silent))}"


def test_every_model_of_a_study_file_has_a_section():
    class More(study_keys.Study):
        spans: study_keys.Waves | None = None

    assert study_keys.inline(More) == study_keys.inline() | {"spans": study_keys.Waves}
    assert study_keys.models() - models().keys() == {"Study"}
    assert study_keys.EXPANDED.keys() == set(EXPANDED_KEYS)


def test_words_are_those_of_the_class_that_declares_the_field_last():
    class Base(study_keys.StudyKeys):
        name: str
        """Other words,
        on two lines."""

    assert study_keys.words(Base)["name"] == "Other words, on two lines."
    assert study_keys.words(Base)["unit"] == study_keys.words(study_keys.StudyKeys)["unit"]


def test_limits_and_defaults_are_those_of_the_models():
    tables = study_keys.markdown()
    assert all(row.count("|") == 5 for row in tables.splitlines() if row.startswith("| "))
    assert "| `count` | whole number, 1 to 10000 | required |" in tables
    assert '| `failure` | number | `"1/20"` |' in tables
    assert "| `log` | text | `sqlite:NAME.db` |" in tables


def test_every_command_has_its_help_and_its_reader():
    helps, readers = commands.markdown(), page("reference/commands.md")
    assert len(commands.parsers()) > 10
    for name in commands.parsers():
        assert f"\n## {name}\n" in f"\n{helps}"
        assert name in {"demo", "new"} or f"`{name}`" in readers


def test_every_exit_code_is_explained():
    rows = re.findall(r"^\| (\d+) \|", page("reference/exit-codes.md"), re.MULTILINE)
    codes = {v for k, v in vars(cli).items() if k.isupper() and isinstance(v, int)}
    assert codes <= {int(code) for code in rows}


def test_alerts_use_metrics_that_are_exported():
    names = {
        metric.name + metrics._SUFFIX.get(metric.type, "")
        for family in metrics.families().values()
        for metric in family
    }
    used = set(re.findall(r"\bstream_dp_\w+", metrics.RULES.read_text("utf-8")))
    assert used
    assert used <= names | {"stream_dp_monitor_ready"}  # that the monitor exports


def study():
    return small_study(
        name="poverty",
        neighbours="replace_in_place",
        periods={"first": "2021-01", "every": "month", "count": 2},
        size=10,
        releases=[window("now", "poverty", width=1, rho="1/2")],
    )


def test_reports_of_the_page_are_read():
    examples = re.findall(r"^```json\n(.*?)^```", page("reference/reports.md"), re.M | re.S)
    assert len(examples) == 2
    records = [
        Stored(partition=0, offset=i, time=0, key=None, value=text.strip().encode(), headers=())
        for i, text in enumerate(examples)
    ]
    cells, rejected = Decoder(study(), bytes(32)).decode(records, 0)
    assert not rejected
    assert len(cells.offset) == 2
    assert f"| `{MARKER}` |" in page("reference/reports.md")


TEXT = """
[study]
name = "homes"
unit = "person"
neighbours = "replace_in_place"
rho = 1
delta = 1e-6
periods = { first = "2021-01", every = "month", count = 2 }
population = { size = 4 }
[attributes.work]
values = [0, 1]
missing = 0
[groups]
unit = "household"
most = 2
[groups.attributes.region]
values = ["north", "south"]
[[releases]]
name = "now"
kind = "joint"
attribute = "work"
width = 1
event = [1]
rho = 0.5
[[releases]]
name = "households"
kind = "independent"
attributes = ["work"]
every = 2
rho = 0.5
"""


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A study of both kinds that has run, with a report that could not be read."""
    folder = tmp_path_factory.mktemp("homes")
    path = folder / "homes.toml"
    path.write_text(TEXT, "utf-8")
    (folder / "groups.csv").write_text("group,region\na,north\nb,south\n")
    (folder / "members.csv").write_text("person,group\np1,a\np2,a\np3,b\np4,b\n")
    (folder / "work.csv").write_text("person,2021-01,2021-02\np1,1,0\np2,0,0\np3,1,1\n")
    tables = [str(folder / "groups.csv"), str(folder / "members.csv")]
    assert cli.main(["groups", str(path), *tables]) == 0
    assert cli.main(["send", str(path), str(folder / "work.csv"), "--attribute", "work"]) == 0
    with closing(open_log("sqlite:homes.db", folder)) as log:
        log.append([Record("reports", b"{", b"p4")])
    assert cli.main(["close", str(path), "2021-02"]) == 0
    assert cli.main(["run", str(path), "--until-idle"]) == 0
    return folder


def test_parts_have_the_schemas_that_the_page_states(released):
    """By part: the page's table of columns against every stream that was published."""
    sections = re.findall(
        r"^### `(\w+)`\n(.*?)(?=^##)", page("reference/public-format.md"), re.M | re.S
    )
    stated = {name: re.findall(r"^\| (.+?) \| `(\w+)` \|", text, re.M) for name, text in sections}
    with closing(open_log("sqlite:homes-public.db", released, public=True, readonly=True)) as log:
        parts = [part for message in PublicLog(log).messages[1:] for part in message.parts]
    seen = set()
    for name, data in parts:
        table = pa.ipc.open_stream(data).read_all()
        kind = name.partition("/")[0]
        seen.add(kind)
        exact = {column.strip("`"): dtype for column, dtype in stated[kind] if column[0] == "`"}
        (free,) = {dtype for column, dtype in stated[kind] if column[0] != "`"} or {None}
        for field in table.schema:
            assert str(field.type) == exact.pop(field.name, free), (name, field)
        assert exact == {}, name
        assert not any(column.null_count for column in table.columns)
    assert seen == stated.keys()


def test_dead_letters_have_the_headers_that_the_page_states(released):
    stated = re.findall(
        r"^\| `(__connect[\w.]+|stream-dp-\w+)` \|", page("reference/dead-letters.md"), re.M
    )
    with closing(open_log("sqlite:homes.db", released, readonly=True)) as log:
        (letter,) = log.read("dead-letters", {0: 0}, 10, 0).records
    names = [name for name, _ in letter.headers]
    assert names == [name for name in stated if name in names]
    # A report that no table held names no file.
    assert set(stated) - set(names) <= {"stream-dp-source"}
    assert (letter.key, letter.value) == (b"reports/0/6", b"{")


def test_certificates_have_the_fields_that_the_page_states(released):
    text = page("reference/public-format.md").partition("## Parts")[0]
    named = set(re.findall(r"`(\w+)`", text))
    with closing(open_log("sqlite:homes-public.db", released, public=True, readonly=True)) as log:
        heads = [message.head for message in PublicLog(log).messages]
    assert {field for head in heads for field in head} - named == set()
