"""Ids that may be nobody's, or are damaged, are counted; the option in the line settles them."""

import json
import re
import shlex

import pytest
from kit.agency_files import HEAD, sent, text, write

from stream_dp.log.sqlite import SqliteLog


def rows(*people):
    return text([(person, "2021-01", 1) for person in people], HEAD[:3])


def people(study):
    log = SqliteLog(study.parent / "agency.db", readonly=True)
    records = log.read("reports", {0: 0}, 100, 0).records
    log.close()
    return [json.loads(record.value)["person"] for record in records]


def named_option(out, option):
    """The words of the option in the line that names it."""
    (line,) = [line for line in out.splitlines() if option in line]
    quoted = re.search(rf"'{option}[^']*'|{option}\S*", line)[0].rstrip(",;")
    return shlex.split(quoted)


def declare(study, rule):
    """Writes a rule of ids, before anything is sent."""
    for name in ("agency.db", "agency-public.db"):
        (study.parent / name).unlink(missing_ok=True)
    study.write_text(f"{study.read_text()}\n[study.ids]\n{rule}\n")


def test_ids_that_may_be_nobody_s_are_counted_and_left_out_by_the_option(study, command):
    path = write(study.parent / "t.csv", rows("7", "9999", "-1", "0", "-1"))
    code, out, _ = command("send", study, path)
    assert code == 0
    assert "4 cells have an id that may be nobody's (-1, 9999, 0), the first in row 2" in out
    before = sent(study)
    assert before == 5
    code, out, _ = command("send", study, path, *named_option(out, "--no-id"), "--strict")
    assert (code, sent(study) - before) == (0, 1)
    assert "4 rows of nobody, by --no-id or [study.ids], are left out" in out
    assert "may be nobody's" not in out


def test_words_for_nobody_do_not_count_unless_the_study_says_so(study, command):
    path = write(study.parent / "t.csv", rows("NA", "7", "NA", "Grand total"))
    code, out, _ = command("send", study, path)
    assert code == 0
    line = "3 cells have a word for nobody as their id (NA, Grand total), the first in row 1"
    assert line in out
    assert "3 of 4 cells would not count" in out
    before = sent(study)
    code, out, _ = command("send", study, path, *named_option(out, "--no-id"), "--strict")
    assert (code, sent(study) - before) == (0, 1)
    declare(study, "nobody = []")
    code, out, _ = command("send", study, path, "--strict")
    assert (code, sent(study), "for nobody" in out) == (0, 4, False)


def test_ids_that_are_counted_from_0_are_people_s(study, command):
    path = write(study.parent / "t.csv", rows("0", "1", "2"))
    assert "nobody" not in command("send", study, path)[1]
    path = write(study.parent / "t.csv", rows("0", "1", "0"))
    assert "2 cells have an id that may be nobody's (0)" in command("send", study, path)[1]


@pytest.mark.parametrize(
    ("nobody", "arrived", "line"),
    [('["NA", "Total"]', ["7"], "2 rows of nobody"), ("[]", ["NA", "7", "Total"], None)],
)
def test_the_study_settles_it_once(study, command, nobody, arrived, line):
    study.write_text(study.read_text() + f"\n[study.ids]\nnobody = {nobody}\n")
    path = write(study.parent / "t.csv", rows("NA", "7", "Total"))
    code, out, _ = command("send", study, path)
    assert (code, people(study)) == (0, arrived)
    assert ("nobody" in out) == (line is not None)
    assert line is None or line in out


def test_damaged_ids_are_refused_with_their_number(study, command):
    path = write(study.parent / "t.csv", rows("1.23E+11", "7", "3-Jan", "1234567890123450000"))
    code, out, _ = command("send", study, path)
    assert (code, people(study)) == (0, ["", "7", "", ""])
    assert "3 of 4 cells would not count" in out
    assert "3 cells of damaged ids, the first in row 1: a spreadsheet keeps 15 digits" in out
    assert "if the ids are right as they stand: [study.ids] as_written = true" in out
    declare(study, "as_written = true")
    assert command("send", study, path, "--strict")[0] == 0
    assert people(study) == ["1.23E+11", "7", "3-Jan", "1234567890123450000"]


def test_ids_in_a_program_s_form_are_one_with_plain_ids(study, command):
    path = write(study.parent / "t.csv", rows('"=""0012"""', "'0013", "1001.0", "1001.5"))
    code, out, _ = command("send", study, path)
    assert (code, people(study)) == (0, ["0012", "0013", "1001", "1001.5"])
    assert '3 cells have an id as programs write it (="0012", ' in out
    assert "to keep it: [study.ids] as_written = true" in out
    declare(study, "as_written = true")
    assert command("send", study, path)[0] == 0
    assert len(people(study)) == 4
    assert people(study)[1:] == ["'0013", "1001.0", "1001.5"]


def test_ids_with_blanks_at_their_ends_are_read_without_them(study, command):
    path = write(study.parent / "t.csv", rows("A1\u00a0", "A2\u200b", "A3"))
    out = command("send", study, path)[1]
    assert "2 cells have an id with blanks at its ends, the first in row 1, which is read" in out
    assert people(study) == ["A1", "A2", "A3"]
    declare(study, "trim = false")
    assert "with blanks" not in command("send", study, path)[1]
    assert people(study) == ["A1\u00a0", "A2\u200b", "A3"]


def test_dates_for_ids_are_shown(study, command):
    path = write(study.parent / "t.csv", rows("2021-03-01", "7"))
    code, out, _ = command("send", study, path)
    assert (code, people(study)) == (0, ["2021-03-01", "7"])
    assert "1 cells have a date for an id, the first in row 1" in out
