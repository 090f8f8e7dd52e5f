"""`[run.input]`: its faults, and that it is no part of the study."""

import pytest
from kit.study_file import TEXT

from stream_dp.errors import UserError
from stream_dp.studyfile import load_study


def loaded(tmp_path, lines):
    (tmp_path / "study.toml").write_text(f"{TEXT}\n[run.input]\n{lines}\n")
    return load_study(tmp_path / "study.toml")


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ('format = "xml"', "run.input.format"),
        ('shape = "flat"', "run.input.shape: unknown key"),
        ('format = "flat"\nrows = "report"', "run.input.rows"),
        ('format = "connect"\nrows = "rows"', "run.input.rows"),
        ('person = "id"', "run.input.person: is for rows of columns"),
        ('format = "connect"\nrows = "report"\nvalues = { Yes = 1 }', "run.input.values"),
        ('format = "flat"\nperson = ""', "run.input.person"),
        ('format = "flat"\nperson = 5', "run.input.person"),
        ('format = "flat"\nextra = "drop"', "run.input.extra"),
        ('format = "flat"\nattributes = { income = "x" }', "run.input.attributes.income"),
        ('format = "flat"\nattributes = {}', "run.input.attributes"),
        ('format = "flat"\nvalues = { Yes = 7 }', "run.input.values.Yes: 7 is no value"),
        ('format = "flat"\nvalues = { Yes = true }', "run.input.values.Yes"),
        ('format = "flat"\nvalues = { work = { Y = 1 } }', "run.input.values.work.Y"),
        ('format = "flat"\nvalues = { income = { Y = 1 } }', "run.input.values.income"),
        (
            'format = "flat"\nattributes = { work = "w" }\nvalues = { poverty = { Y = 1 } }',
            "run.input.values.poverty",
        ),
        ('tombstone = "withdraw"', "run.input.tombstone: is for rows of columns"),
        ('format = "connect"\nrows = "report"\nzone = "UTC"', "run.input.zone: is for rows"),
        ('format = "flat"\ntombstone = "drop"', "run.input.tombstone"),
        ('format = "debezium"\nbefore = "full"', "run.input.before"),
        ('format = "debezium"\ndeleted = "gone"', "run.input.deleted: is for flat rows"),
        ('format = "debezium"\ntombstone = "ignore"', "run.input.tombstone: is for flat rows"),
        ('format = "flat"\ndeleted = "work"', "run.input.deleted: 'work' is a column of answers"),
        ('format = "flat"\ndates = "%d.%m"', "run.input.dates: '%d.%m' names no period"),
        ('format = "flat"\ndates = "millis"', "run.input.dates: 'millis'"),
        ('format = "flat"\nzone = "Berlin"', "run.input.zone: 'Berlin' is not a time zone"),
        ('decimal = ","', "run.input.decimal: is for rows of columns"),
        ('format = "flat"\ndecimal = "x"', "run.input.decimal"),
        ('format = "flat"\nthousands = "x"', "run.input.thousands"),
        ('format = "flat"\ndecimal = ","\nthousands = ","', "run.input.decimal: is the mark"),
        ('format = "avro"', "run.input.registry"),
        ('format = "flat"\nschemas = "x"', "run.input.schemas"),
        ('format = "json-registry"\nregistry = "http://r"', "run.input.registry"),
        *(
            (f'format = "avro"\nregistry = "{url}"', "run.input.registry: write a URL")
            for url in (
                "registry:8081",
                "ftp://r",
                "file:///etc/passwd",
                "http://",
                "http://me:secret@r",
                "http://r:99999",
                "http://r/?x=1",
                "http://r/ x",
                "http://[",
            )
        ),
        ('format = "avro"\nregistry = "http://r"\nregistry_user = "me"', "run.input.registry_user"),
        (
            'format = "avro"\nregistry = "http://r"\nregistry_user = "me"\n'
            'registry_password = "secret"',
            "run.input.registry_password",
        ),
        (
            'format = "avro"\nregistry = "http://r"\nregistry_user = "me"\n'
            'registry_password = { file = "a", env = "b" }',
            "run.input.registry_password: write",
        ),
    ],
)
def test_faults_have_their_place_and_no_secret(tmp_path, lines, fault):
    with pytest.raises(Exception, match=r"study\.toml") as refusal:
        loaded(tmp_path, lines)
    (line,) = refusal.value.lines
    assert line.startswith(f"{tmp_path / 'study.toml'}: {fault}")
    assert "secret" not in line


@pytest.mark.parametrize("dates", ["date", "timestamp-nanos", "local-timestamp-millis", "%d.%m.%Y"])
def test_numbers_that_count_time_and_formats_of_dates_are_declared_alike(tmp_path, dates):
    line = f'format = "flat"\ndates = "{dates}"\nzone = "Europe/Berlin"'
    assert loaded(tmp_path, line)[1].input.dates == dates
    steps = TEXT.replace('every = "month"', 'every = "step"').replace('"2021-01"', '"1"')
    (tmp_path / "study.toml").write_text(f"{steps}\n[run.input]\n{line}\n")
    with pytest.raises(UserError) as refusal:
        load_study(tmp_path / "study.toml")
    assert [line.partition("run.input.")[2][:5] for line in refusal.value.lines] == [
        "dates",
        "zone:",
    ]


def test_every_key_that_changes_the_reading_changes_the_hash(tmp_path):
    """A closed period is read again as it was, or not at all."""
    keys = ('deleted = "gone"', 'tombstone = "withdraw"', 'before = "fixed"', 'zone = "UTC"')
    keys += ('dates = "date"', 'registry = "http://r"')
    first = 'format = "avro"\nschemas = "s"\n'
    hashes = [loaded(tmp_path, first + key)[1].input.hash for key in ("", *keys)]
    assert len(set(hashes)) == len(keys)
    assert hashes[0] == hashes[-1]


def test_it_is_no_part_of_the_study(tmp_path):
    plain, _ = loaded(tmp_path, "")
    study, run = loaded(
        tmp_path,
        'format = "flat"\nperson = "SSUID"\nattributes = { poverty = "THINC" }\n'
        "values = { Yes = 1, No = 0, poverty = { Maybe = 1 } }",
    )
    assert study.hash == plain.hash
    assert run.input.mapped_values("poverty") == {"Yes": 1, "No": 0, "Maybe": 1}
    assert run.input.mapped_values("work") == {"Yes": 1, "No": 0}
