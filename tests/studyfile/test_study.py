"""Study files: every fault in one go, exact numbers, and a hash of everything but [run]."""

import json
from copy import deepcopy
from fractions import Fraction

import pytest

from stream_dp.errors import UserError
from stream_dp.study import Run, Study
from stream_dp.studyfile import load_study, parse_study

TEXT = """
[study]
name = "poverty"
unit = "household"
neighbours = "replace_one"
rho = 0.01
delta = 1e-6

[study.periods]
first = "2021-01"
every = "month"
count = 12

[study.population]
size = 23374

[attributes.poverty]
values = [0, 1]
missing = 0

[attributes.work]
values = ["no", "part", "full"]
missing = { carry = true, first = "no" }

[[releases]]
name = "quarters"
kind = "window"
attribute = "poverty"
width = 3
rho = 0.005

[[releases]]
name = "months-in-poverty"
kind = "cumulative"
attribute = "poverty"
event = [1]
rho = "1/200"

[run]
log = "sqlite:poverty.db"
"""


@pytest.fixture
def read(tmp_path, monkeypatch):
    """The study and the run of a text."""
    for field in Run.model_fields:
        monkeypatch.delenv(f"STREAM_DP_{field.upper()}", raising=False)

    def reader(text):
        path = tmp_path / "study.toml"
        path.write_text(text, "utf-8")
        return load_study(path)

    return reader


@pytest.fixture
def faults(read, tmp_path):
    """The lines of a text's refusal, without the path that each begins with."""

    def reader(text):
        with pytest.raises(UserError) as refused:
            read(text)
        start = f"{tmp_path / 'study.toml'}: "
        assert all(line.startswith(start) and "\n" not in line for line in refused.value.lines)
        return [line.removeprefix(start) for line in refused.value.lines]

    return reader


def without(*lines):
    text = TEXT
    for line in lines:
        assert line in text
        text = text.replace(line + "\n", "")
    return text


def changed(old, new, text=TEXT):
    assert old in text
    return text.replace(old, new, 1)


def test_a_sound_file_is_what_it_says(read):
    study, run = read(TEXT)
    assert (study.name, study.unit, study.neighbours) == ("poverty", "household", "replace_one")
    assert study.size == 23374
    assert study.periods.labels[-1] == "2021-12"
    assert study.release("quarters").width == 3
    assert study.event_codes(study.release("months-in-poverty")) == (1,)
    assert run.log == "sqlite:poverty.db"
    assert study.attributes["work"].first_code == 0
    assert study.attributes["work"].carries


def test_studies_that_do_not_say_where_they_run_share_no_files(read):
    text = TEXT[: TEXT.index("[run]")]
    for name in ("poverty", "other"):
        _, run = read(changed('name = "poverty"', f'name = "{name}"', text))
        assert (run.log, run.public) == (f"sqlite:{name}.db", f"sqlite:{name}-public.db")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.01", Fraction(1, 100)),
        ("'1/30'", Fraction(1, 30)),
        ("1", Fraction(1)),
        ("1e-2", Fraction(1, 100)),
        ("0.1000000000000000055511151231257827", Fraction("0.1000000000000000055511151231257827")),
    ],
)
def test_numbers_are_the_fractions_that_were_written(read, text, value):
    releases = TEXT.replace("rho = 0.005", "rho = 1e-9").replace('"1/200"', "'1e-9'")
    study, _ = read(changed("rho = 0.01", f"rho = {text}", releases))
    assert study.rho == value
    assert study.delta == Fraction(1, 10**6)
    assert study.release("quarters").rho == Fraction(1, 10**9)


@pytest.mark.parametrize("text", ["0", "-0.5", "true", "nan", "inf", "'a tenth'", "'1/0'", "[1]"])
def test_other_numbers_are_refused(faults, text):
    (line,) = faults(changed("rho = 0.01", f"rho = {text}"))
    assert line.startswith("study.rho: ")


def test_budgets_add_up_exactly(read, faults):
    thirds = changed("rho = 0.005", "rho = '1/300'")
    thirds = thirds.replace('"1/200"', "'2/300'")
    study, _ = read(thirds)
    assert sum(r.rho for r in study.releases) == study.rho
    (line,) = faults(thirds.replace("'2/300'", "'2000000000001/300000000000000'"))
    assert line.startswith("releases: their rhos add up to 0.01, more than study.rho")


@pytest.mark.parametrize("delta", ["0", "1", "2", "-1e-6"])
def test_delta_is_a_probability(faults, delta):
    assert faults(changed("delta = 1e-6", f"delta = {delta}")) == [
        "study.delta: must lie between 0 and 1"
    ]


def test_every_fault_is_told_in_one_go_on_a_line_of_its_own(faults):
    text = TEXT
    for old, new in [
        ('name = "poverty"', 'name = "pov erty"'),
        ("delta = 1e-6", "delta = 7"),
        ('first = "2021-01"', 'first = "2021-13"'),
        ("size = 23374", "size = 0"),
        ('missing = { carry = true, first = "no" }', 'missing = "sometimes"'),
        ("width = 3", "width = 0"),
        ('kind = "cumulative"', 'kind = "unheard-of"'),
        ('log = "sqlite:poverty.db"', "partitions = 0"),
    ]:
        text = changed(old, new, text)
    found = [line.split(":")[0] for line in faults(text)]
    assert sorted(found) == [
        "attributes.work.missing",
        "releases[1].width",
        "releases[2].kind",
        "run.partitions",
        "study.delta",
        "study.name",
        "study.periods.first",
        "study.population.size",
    ]


def test_a_fault_in_one_place_does_not_hide_one_between_places(faults):
    """The sum of the budgets, and the rules of the relation, do not depend on delta."""
    text = changed("delta = 1e-6", "delta = 7", changed("rho = 0.005", "rho = 5"))
    found = faults(text)
    assert len(found) == 2
    assert any(line.startswith("study.delta:") for line in found)
    assert any(line.startswith("releases: their rhos add up") for line in found)


def test_an_attribute_that_is_declared_wrongly_is_not_called_undeclared(faults):
    (line,) = faults(changed("values = [0, 1]\nmissing = 0", "values = [0, 1]"))
    assert line == "attributes.poverty.missing: is required"


@pytest.mark.parametrize(
    ("after", "where", "known"),
    [
        ("[study]", "study.extra", "name, description, unit"),
        ("[study.periods]", "study.periods.extra", "every, count, first, close"),
        ("[study.population]", "study.population.extra", "size"),
        ("[attributes.poverty]", "attributes.poverty.extra", "values, missing"),
        ('kind = "window"', "releases[1].extra", "width"),
        ('kind = "cumulative"', "releases[2].extra", "event"),
        ("[run]", "run.extra", "log, public"),
    ],
)
def test_an_unknown_key_is_named_with_the_known_ones(faults, after, where, known):
    (line,) = faults(changed(after, f"{after}\nextra = 1"))
    assert line.startswith(f"{where}: unknown key; known here are ")
    assert known in line


def test_sections_that_belong_elsewhere_are_unknown(faults):
    (line,) = faults(TEXT + "\n[budget]\nrho = 1\n")
    assert line.startswith("budget: unknown section")
    for misplaced in ("[study.attributes.age]\nvalues = [0, 1]\nmissing = 0", "[study.releases]"):
        (line,) = faults(f"{TEXT}\n{misplaced}\n")
        assert "unknown key" in line


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ('name = "poverty"', "study.name"),
        ('unit = "household"', "study.unit"),
        ('neighbours = "replace_one"', "study.neighbours"),
        ("rho = 0.01", "study.rho"),
        ("delta = 1e-6", "study.delta"),
        ('first = "2021-01"', "study.periods.first"),
        ('every = "month"', "study.periods.every"),
        ("count = 12", "study.periods.count"),
        ("size = 23374", "study.population.size"),
        ("width = 3", "releases[1].width"),
        ("event = [1]", "releases[2].event"),
    ],
)
def test_what_is_required_is_missed_by_name(faults, line, where):
    (found,) = faults(without(line))
    assert found.startswith(f"{where}: is required")


def test_the_relation_has_no_default(faults):
    (line,) = faults(without('neighbours = "replace_one"'))
    assert all(word in line for word in ("add_remove", "replace_one", "replace_in_place"))
    for wrong in ('"both"', "1", '["add_remove"]'):
        (line,) = faults(changed('neighbours = "replace_one"', f"neighbours = {wrong}"))
        assert line.startswith("study.neighbours")


@pytest.mark.parametrize(
    ("old", "new", "start"),
    [
        ("width = 3", "width = 13", "releases[1].width: 13 periods is over the horizon of 12"),
        ('attribute = "poverty"\nwidth', 'attribute = "age"\nwidth', "releases[1].attribute: no"),
        ("event = [1]", "event = [1, 2]", "releases[2].event: 2 is no value"),
        ("event = [1]", "event = []", "releases[2].event"),
        ('name = "months-in-poverty"', 'name = "quarters"', "releases[2].name: 'quarters' stands"),
        ("values = [0, 1]", "values = [0, 1, 1]", "attributes.poverty.values: a value"),
        ("values = [0, 1]", 'values = [0, 1, "1"]', "attributes.poverty.values: a value"),
        ("values = [0, 1]", 'values = [0, "absent"]', "attributes.poverty.values: 'absent'"),
        ("missing = 0", "missing = 3", "attributes.poverty.missing: must be"),
        ('first = "no"', 'first = "never"', "attributes.work.missing: must be"),
        ("event = [1]", "event = [1]\nrows = 10", "releases[2]: rows and size_share are for add"),
        ("count = 12", "count = 0", "study.periods.count"),
        ("count = 12", "count = 10_001", "study.periods.count"),
        ("count = 12", 'count = "12"', "study.periods.count"),
        ("[run]", '[run]\npublic = ["x"]', "run.public"),
        ("[attributes.work]", '[attributes."full time"]', "attributes.full time: "),
    ],
)
def test_faults_between_sections(faults, old, new, start):
    (line,) = faults(changed(old, new))
    assert line.startswith(start)


def test_one_symbol_says_nothing_but_absent_makes_a_second(read, faults):
    only = changed("values = [0, 1]\nmissing = 0", "values = [1]\nmissing = 1")
    (line,) = faults(only)
    assert line.startswith("attributes.poverty.values: one symbol alone")
    study, _ = read(changed("missing = 1", 'missing = "absent"', only))
    assert study.attributes["poverty"].symbols == (1, "absent")
    assert study.attributes["poverty"].first_code == 1


def test_too_many_patterns_are_refused(faults):
    wide = changed("count = 12", "count = 40", changed("width = 3", "width = 21"))
    (line,) = faults(wide)
    assert "2097152 patterns" in line


def test_under_add_remove_the_number_of_people_is_private(read, faults):
    alone = changed('"replace_one"', '"add_remove"')
    assert {line.split(":")[0] for line in faults(alone)} == {
        "releases[2]",
        "study.population.size",
    }
    sound = alone.replace("size = 23374\n", "").replace("event = [1]", "event = [1]\nrows = 30000")
    assert read(sound)[0].size is None
    shared = sound.replace("rows = 30000", "size_share = 0.1")
    assert read(shared)[0].release("months-in-poverty").size_share == Fraction(1, 10)
    both = read(sound.replace("rows = 30000", "rows = 30000\nsize_share = 0.1"))[0].releases[1]
    assert (both.rows, both.size_share) == (30000, Fraction(1, 10))


def test_the_hash_does_not_see_key_order_whitespace_comments_spelling_or_run(read):
    expected = read(TEXT)[0].hash
    assert len(expected) == 64
    same = [
        TEXT.replace("\n", "\n\n").replace(" = ", "="),
        changed("[study]", "# a comment\n[study]"),
        changed("sqlite:poverty.db", "sqlite:elsewhere.db"),
        TEXT[: TEXT.index("[run]")],
        changed("rho = 0.005", "rho = '1/200'"),
        changed("rho = 0.01", "rho = 10e-3"),
        changed("rho = 0.005", "rho = 0.005\nfailure = 0.05"),
        changed("count = 12", 'count = 12\nclose = "marker"'),
        changed('name = "poverty"\nunit = "household"', 'unit = "household"\nname = "poverty"'),
    ]
    head, *rest = TEXT.split("[attributes.poverty]")
    same.append("[attributes.poverty]" + rest[0].split("[run]")[0] + head)
    work = TEXT[TEXT.index("[attributes.work]") : TEXT.index("[[releases]]")]
    same.append(work + TEXT.replace(work, ""))
    assert {read(text)[0].hash for text in same} == {expected}


def test_anything_else_changes_the_hash(read):
    changes = [
        ('name = "poverty"', 'name = "Poverty"'),
        ('unit = "household"', 'unit = "person"'),
        ('unit = "household"', 'unit = "household"\ndescription = "x"'),
        ('"replace_one"', '"replace_in_place"'),
        ("rho = 0.01", "rho = 0.0100000000000000000001"),
        ("delta = 1e-6", "delta = 1.0000000000000000001e-6"),
        ('first = "2021-01"', 'first = "2021-02"'),
        ('every = "month"\ncount = 12', 'every = "month"\ncount = 13'),
        ("count = 12", 'count = 12\nclose = "schedule"\nzone = "UTC"'),
        ("count = 12", 'count = 12\nclose = "schedule"\nzone = "Europe/Lisbon"'),
        ("count = 12", 'count = 12\nclose = "schedule"\nzone = "UTC"\nat = 09:00:00'),
        ("count = 12", 'count = 12\nclose = "schedule"\nzone = "UTC"\ngrace = "1d"'),
        ("count = 12", 'count = 12\nclose = "schedule"\nzone = "UTC"\ndelay = "1d"'),
        ("size = 23374", "size = 23375"),
        ("values = [0, 1]", "values = [1, 0]"),
        ("values = [0, 1]", "values = [0, 1, 2]"),
        ("missing = 0", "missing = 1"),
        ("missing = 0", 'missing = "absent"'),
        ("missing = 0", "missing = { carry = true, first = 0 }"),
        ("[attributes.work]", "[attributes.job]"),
        ('name = "quarters"', 'name = "thirds"'),
        ("width = 3", "width = 4"),
        ("rho = 0.005", "rho = 0.004"),
        ("rho = 0.005", "rho = 0.005\nfailure = 0.01"),
        ("event = [1]", "event = [0]"),
    ]
    hashes = [read(TEXT)[0].hash] + [read(changed(*change))[0].hash for change in changes]
    assert len(set(hashes)) == len(hashes)
    quarters, months = TEXT.split("[[releases]]\n")[1:]
    months, run = months.split("[run]")
    swapped = TEXT.split("[[releases]]")[0] + "\n[[releases]]\n".join(["", months, quarters])
    assert read(f"{swapped}\n[run]{run}")[0].hash not in hashes


def test_the_published_declaration_gives_the_same_study(read):
    for text in (
        TEXT,
        changed("count = 12", 'count = 12\nclose = "schedule"\nzone = "UTC"\nat = 09:00:00'),
    ):
        study, _ = read(text)
        again = Study.model_validate(json.loads(study.canonical()))
        assert again == study
        assert again.hash == study.hash
        assert b"sqlite" not in study.canonical()


def test_a_table_is_read_as_a_file_is(read):
    table = {
        "study": {
            "name": "poverty",
            "unit": "household",
            "neighbours": "replace_one",
            "rho": "0.01",
            "delta": "1e-6",
            "periods": {"first": "2021-01", "every": "month", "count": 12},
            "population": {"size": 23374},
        },
        "attributes": {
            "poverty": {"values": [0, 1], "missing": 0},
            "work": {
                "values": ["no", "part", "full"],
                "missing": {"carry": True, "first": "no"},
            },
        },
        "releases": [
            {
                "name": "quarters",
                "kind": "window",
                "attribute": "poverty",
                "width": 3,
                "rho": "0.005",
            },
            {
                "name": "months-in-poverty",
                "kind": "cumulative",
                "attribute": "poverty",
                "event": [1],
                "rho": "0.005",
            },
        ],
    }
    before = deepcopy(table)
    assert parse_study(table).hash == read(TEXT)[0].hash
    assert table == before


def test_files_that_cannot_be_read(read, tmp_path):
    with pytest.raises(UserError, match="no such file; 'stream-dp new"):
        load_study(tmp_path / "nothing.toml")
    with pytest.raises(UserError, match="cannot be read"):
        load_study(tmp_path)
    with pytest.raises(UserError, match="not a TOML file"):
        read("[study")
    (tmp_path / "latin.toml").write_bytes(b"# \xff")
    with pytest.raises(UserError, match="cannot be read"):
        load_study(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    "text", ["", "study = 1", "releases = 3\nattributes = 4\nrun = 5", "study = []\nrun = []"]
)
def test_any_table_is_refused_in_words(faults, text):
    assert faults(text)


def test_the_environment_overrides_run(read, monkeypatch):
    monkeypatch.setenv("STREAM_DP_PUBLIC", "sqlite:public-here.db")
    monkeypatch.setenv("STREAM_DP_PARTITIONS", "4")
    _, run = read(TEXT)
    assert (run.log, run.public, run.partitions) == (
        "sqlite:poverty.db",
        "sqlite:public-here.db",
        4,
    )


def test_a_wrong_environment_is_named(read, monkeypatch):
    monkeypatch.setenv("STREAM_DP_PARTITIONS", "many")
    with pytest.raises(UserError, match=r"environment STREAM_DP_\*"):
        read(TEXT)


def test_a_release_that_does_not_exist_is_refused_with_those_that_do(read):
    study, _ = read(TEXT)
    with pytest.raises(UserError, match="quarters, months-in-poverty"):
        study.release("years")
