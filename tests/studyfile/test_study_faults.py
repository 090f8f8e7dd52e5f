"""Faults of study files: all at once, a line each, with their place."""

from fractions import Fraction

import pytest
from kit.study_file import TEXT, changed, without


@pytest.mark.parametrize("text", ["0", "-0.5", "true", "nan", "inf", "'a tenth'", "'1/0'", "[1]"])
def test_other_numbers_are_refused(faults, text):
    (line,) = faults(changed("rho = 0.01", f"rho = {text}"))
    assert line.startswith("study.rho: ")


@pytest.mark.parametrize("delta", ["0", "1", "2", "-1e-6"])
def test_delta_is_a_probability(faults, delta):
    assert faults(changed("delta = 1e-6", f"delta = {delta}")) == [
        "study.delta: must lie between 0 and 1, and be neither"
    ]


def test_every_fault_is_reported_in_one_go_on_a_line_of_its_own(faults):
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
    places = [line.split(":")[0] for line in faults(text)]
    assert sorted(places) == [
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
    lines = faults(text)
    assert len(lines) == 2
    assert any(line.startswith("study.delta:") for line in lines)
    assert any(line.startswith("releases: their rhos add up") for line in lines)


def test_an_attribute_that_is_declared_wrongly_is_not_called_undeclared(faults):
    (line,) = faults(changed("values = [0, 1]\nmissing = 0", "values = [0, 1]"))
    assert line == "attributes.poverty.missing: is required"


@pytest.mark.parametrize(
    ("after", "where", "known"),
    [
        ("[study]", "study.extra", "name, description, unit"),
        ("[study.periods]", "study.periods.extra", "every, count, open, first, close"),
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


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ("", "study.curator.name: is required"),
        ('name = " "', "study.curator.name: must not be empty"),
        ('name = "a\\u001b[2J"', "study.curator.name: must be a single line of text"),
        ('name = "a\\nb"', "study.curator.name: must be a single line of text"),
        (f'name = "{"a" * 1001}"', "study.curator.name: must have at most 1000 characters"),
        ('name = "a"\nregion = 3', "study.curator.region: must be text"),
        *(
            (
                f"name = 'a'\ncontact = '{contact}'",
                "study.curator.contact: must be a mail address, or https://...",
            )
            for contact in ("nobody", "javascript:alert(1)", "a@b c", "https://a b", "https://<a>")
        ),
        *(
            (
                f"name = 'a'\nlicence = '{licence}'",
                "study.curator.licence: must be an SPDX id such as CC-BY-4.0, or https://...",
            )
            for licence in ("my own", "data:text/html", "ftp://a", "")
        ),
        (
            "name = 'a'\nmail = 'b'",
            "study.curator.mail: unknown key; known here are name, contact,",
        ),
    ],
)
def test_a_curator_has_lines_and_addresses(faults, keys, line):
    table = f"[study.curator]\n{keys}\n[attributes.poverty]"
    (fault,) = faults(changed("[attributes.poverty]", table))
    assert fault.startswith(line)


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
    (refusal,) = faults(without(line))
    assert refusal.startswith(f"{where}: is required")


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


def test_a_closed_cohort_has_a_private_size(read, faults):
    closed = changed("size = 23374", "closed = true")
    (line,) = faults(closed)
    assert line.startswith("study.population.closed: is for add_remove, where n is private")
    private = changed('"replace_one"', '"add_remove"', closed)
    sound = private.replace("event = [1]", "event = [1]\nsize_share = 0.1")
    study = read(sound)[0]
    assert (study.size, study.last_entry) == (None, 1)
    later = sound.replace("width = 3", 'width = 3\nfirst = "2021-03"')
    later = later.replace("event = [1]", 'event = [1]\nfirst = "2021-02"')
    assert read(later)[0].last_entry == 2
    never = [changed("closed = true\n", other, sound) for other in ("closed = false\n", "")]
    assert [read(text)[0].last_entry for text in never] == [None, None]
    assert len({read(text)[0].hash for text in never}) == 1
    (line,) = faults(changed("closed = true", "closed = 1", sound))
    assert line.startswith("study.population.closed: must be true or false")
    both = faults(changed("closed = true", "closed = true\nsize = 9", sound))
    assert both[0].startswith("study.population.size: under add_remove n is private")
    (line,) = faults(sound.replace("width = 3", "width = 3\nrows = 9"))
    assert line.startswith("releases[1].rows: in a closed cohort everybody is counted")
    (line,) = faults(sound.replace("size_share = 0.1", "size_share = 0.1\nrows = 9"))
    assert line.startswith("releases[2]: in a closed cohort nobody enters later")


def test_a_closed_joint_panel_needs_no_rows_with_absences(read):
    text = changed('"replace_one"', '"add_remove"', changed("size = 23374", "closed = true"))
    text = text.replace("missing = 0", 'missing = "absent"').replace('"cumulative"', '"joint"')
    study = read(text.replace("event = [1]", "event = [1]\nwidth = 2"))[0]
    assert study.release("months-in-poverty").rows is None


@pytest.mark.parametrize(
    "text", ["", "study = 1", "releases = 3\nattributes = 4\nrun = 5", "study = []\nrun = []"]
)
def test_any_table_is_refused_in_words(faults, text):
    assert faults(text)


GATE = "[study.gate]\nrho = {rho}\nleast = {least}\n\n[study.population]"


def gated(rho=0.0001, least=0.5, more="", text=TEXT):
    text = changed("[study.population]", GATE.format(rho=rho, least=least), text)
    text = changed("rho = 0.01\n", "rho = 0.0101\n", text)
    return changed(f"least = {least}\n", f"least = {least}\n{more}\n", text)


def test_a_gate_counts_in_the_total_and_in_the_hash(read, faults):
    study, _ = read(gated())
    assert study.gate.rho == Fraction(1, 10_000)
    assert study.hash != read(changed("rho = 0.01\n", "rho = 0.0101\n"))[0].hash
    (line,) = faults(gated(rho=0.0002))
    assert line.startswith("releases: their rhos and that of study.gate add up to 0.0102")


@pytest.mark.parametrize(
    ("change", "start"),
    [
        ({"least": 1}, "study.gate.least: must lie between 0 and 1"),
        ({"rho": 0}, "study.gate.rho: must be above 0"),
        ({"more": "expected = 0"}, "study.gate.expected: must be at least 1"),
        ({"more": "expected = 30000"}, "study.gate.expected: is more than study.population.size"),
        ({"more": "extra = 1"}, "study.gate.extra: unknown key; known here are rho, least, exp"),
    ],
)
def test_faults_of_a_gate(faults, change, start):
    (line,) = faults(gated(**change))
    assert line.startswith(start)


def test_a_gate_of_a_private_number_states_what_it_expects(read, faults):
    private = changed('"replace_one"', '"add_remove"', changed("size = 23374", ""))
    private = changed("event = [1]", "event = [1]\nsize_share = 0.1", private)
    assert any(
        line.startswith("study.gate.expected: is required") for line in faults(gated(text=private))
    )
    assert read(gated(text=private, more="expected = 9"))[0].gate.expected == 9
