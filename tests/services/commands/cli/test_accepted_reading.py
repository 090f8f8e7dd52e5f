"""`send` and `rehearse` show how they read tables, and hold later tables to what was accepted."""

import pytest

from stream_dp.services.commands import cli

READ = """\
stream-dp: {}: read as follows
stream-dp:   column  meaning            texts
stream-dp:   id      person             as they stand
stream-dp:   month   period             months such as 2021-01, dates as %d.%m.%Y
stream-dp:   poor    attribute poverty  as they stand; map: ja is 1, nein is 0
stream-dp:   left out: note
"""
OPTIONS = ["--columns", "id=person,month=period,poor=poverty", "--map", "poverty:ja=1,nein=0"]
OPTIONS += ["--dates", "%d.%m.%Y"]


@pytest.fixture
def table(study):
    path = study.parent / "long.csv"
    path.write_text("id,month,poor,note\na,31.01.2021,ja,x\nb,31.01.2021,nein,x\n")
    return path


def test_the_reading_is_shown_before_anything_is_sent(study, table, capsys):
    for quiet, shown in (([], READ.format(table)), (["--quiet"], ""), (["--json"], "")):
        assert cli.main(["send", str(study), str(table), *OPTIONS, *quiet]) == 0
        assert capsys.readouterr().err == shown
    assert cli.main(["rehearse", str(study), str(table), *OPTIONS]) == 0
    assert capsys.readouterr().err == READ.format(table)


def test_files_that_are_read_alike_are_shown_once(study, table, capsys):
    again = table.with_name("again.csv")
    again.write_bytes(table.read_bytes())
    assert cli.main(["send", str(study), str(table), str(again), *OPTIONS]) == 0
    alike = f"stream-dp: {again}: read like {table}\n"
    assert capsys.readouterr().err == READ.format(table) + alike


def test_an_accepted_reading_needs_no_options(study, table, as_json, stream_dp):
    """It is written once, and says what the options said; the next month needs none of them."""
    accepted = study.parent / "reading.toml"
    said = as_json("send", study, table, *OPTIONS, "--reading", accepted, "--check")
    content = accepted.read_text()
    assert as_json("send", study, table, "--reading", accepted) == {
        "sent": {str(table): 2},
        **{key: value for key, value in said.items() if key != "checked"},
    }
    assert said["reading"][str(table)]["values"] == {"poverty": {"ja": "1", "nein": "0"}}
    assert accepted.read_text() == content


def test_a_table_that_is_read_otherwise_is_refused(study, table, stream_dp, as_json):
    accepted = study.parent / "reading.toml"
    as_json("send", study, table, *OPTIONS, "--reading", accepted)
    table.write_text("id,month,poor,note,work\na,28.02.2021,ja,x,no\n")
    refused = stream_dp("send", study, table, "--reading", accepted, "--quiet", code=2)
    assert refused.splitlines() == [
        f"stream-dp: {table}: attributes.work is 'work', in the accepted reading nothing",
        f"stream-dp: {table}: is not read as {accepted} says; mend the file or its options, or"
        " accept this reading with another FILE of --reading",
    ]
    words = ["--map", "poverty:ja=0,nein=1", "--columns", "work="]
    refused = stream_dp("send", study, table, "--reading", accepted, "--quiet", *words, code=2)
    assert "left_out.work is 'listed', in the accepted reading nothing" in refused
    assert "values.poverty.ja is '0', in the accepted reading '1'" in refused
    assert as_json("send", study, table, "--reading", accepted.with_name("new.toml"), *OPTIONS)


def test_files_of_one_command_are_read_alike_under_a_reading(study, table, stream_dp):
    other, accepted = table.with_name("other.csv"), table.with_name("reading.toml")
    other.write_text("id,month,poor\na,28.02.2021,ja\n")
    words = ["--reading", accepted, "--quiet", *OPTIONS]
    refused = stream_dp("send", study, table, other, *words, code=2)
    assert f"{other}: left_out.note is nothing, in the accepted reading 'listed'" in refused
    assert not accepted.exists()


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"x = [", "is no TOML"),
        (b"\xff", "can't decode"),
        (b"dates = 5", "is no reading that 'send --reading' wrote"),
        (b'dates = "%d"', "write a format such as"),
        (b'[values.age]\n1 = "2"', "attribute 'age' is not declared"),
    ],
)
def test_a_file_that_is_no_reading(content, fault, study, table, stream_dp):
    accepted = study.parent / "reading.toml"
    accepted.write_bytes(content)
    words = ["send", study, table, "--reading", accepted, "--quiet", *OPTIONS[:2]]
    assert fault in stream_dp(*words, code=2)
    assert accepted.read_bytes() == content
