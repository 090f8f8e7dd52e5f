"""The hash of a study covers everything but [run], and nothing of the file's form."""

import json
from copy import deepcopy

from kit.study_file import TEXT, changed

from stream_dp.study import Study
from stream_dp.studyfile import parse_study


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
        ("[attributes.work]", '[study.curator]\nname = "Office"\n[attributes.work]'),
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
