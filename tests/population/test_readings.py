"""What a reading announces is what arrives, and a file of a reading holds later tables to it."""

import csv

import pandas
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.studies import attribute, small_study, window

from stream_dp.errors import UserError
from stream_dp.population.arrow_tables import NamedTable
from stream_dp.population.tables import FileForm, TableLayout, read_columns, read_reports
from stream_dp.population.tables.reading_facts import (
    accepted_layout,
    differences,
    facts_in,
    facts_of,
    facts_text,
    reading_lines,
)
from stream_dp.population.tables.value_texts import Codings
from stream_dp.study.number_texts import NumberTexts

NAMES = st.sampled_from(
    ["id", "month", "many", "q3", "V_1", "born", "hh 1", "größe", "x.y", 'a"b', "weight"]
)
CODED = {"1": "0", "2": "1", "3": "2"}
WORK = {"1": "no", "2": "yes", "9": "refused"}
LABELLED = (".sav", ".dta")
FORMS = (".csv", ".parquet", ".xlsx", *LABELLED)


def study(kids, periods=3):
    return small_study(
        name="read",
        size=10,
        periods={"first": "2021-01", "every": "month", "count": periods},
        attributes={
            "kids": attribute(kids, missing="absent"),
            "work": attribute(["no", "yes"], missing="absent"),
        },
        releases=[window("w", "work", width=1, rho=1)],
    )


def write(path, columns, labels):
    """Writes a table of texts and codes, with labels where the form has them."""
    frame = pandas.DataFrame(columns)
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerows([[*columns], *zip(*columns.values(), strict=True)])
    elif path.suffix == ".parquet":
        pa.parquet.write_table(pa.table(columns), path)
    elif path.suffix == ".xlsx":
        pytest.importorskip("openpyxl")
        frame.to_excel(path, index=False)
    else:
        pyreadstat = pytest.importorskip("pyreadstat")
        written = pyreadstat.write_sav if path.suffix == ".sav" else pyreadstat.write_dta
        coded = {
            n: {int(code): label for code, label in named.items()} for n, named in labels.items()
        }
        written(frame, path, variable_value_labels=coded)


def announced(facts, columns):
    """The reports of a table by the facts of its reading alone."""
    meaning = {c: (None, name) for name, c in facts.get("attributes", {}).items()}
    meaning |= {c: (p, facts["attribute"]) for c, p in facts.get("columns", {}).items()}
    assert {*columns} == {*meaning, *facts.get("left_out", ()), facts["person"]} | (
        {facts["period"]} & {*columns} if "period" in facts else set()
    )
    reports = set()
    for i, person in enumerate(columns[facts["person"]]):
        for column, (period, name) in meaning.items():
            if period is None:
                period = (
                    columns[facts["period"]][i] if facts["period"] in columns else facts["period"]
                )
            text = str(columns[column][i])
            mapped, labels = facts.get("values", {}).get(name, {}), facts.get("labels", {})
            label = labels.get(column, {}).get(text, text)
            value = mapped.get(label, mapped.get(text, label))
            reports |= {(person, period, name, value)} if value else set()
    return reports


@st.composite
def tables(draw):
    """Columns of a table, the labels of codes, the declared values of kids, and options."""
    wide, names = draw(st.booleans()), draw(st.lists(NAMES, min_size=6, max_size=6, unique=True))
    identifiers = [name for name in names if name.isidentifier() and name.isascii()]
    suffix = draw(st.sampled_from(FORMS if len(identifiers) == len(names) else FORMS[:3]))
    labelled = suffix in LABELLED
    rows = draw(st.integers(1, 4))
    cells = st.lists(st.integers(1, 3), min_size=rows, max_size=rows)
    person, period, kids, work, *rest = names
    columns = {person: [f"p{i}" for i in range(rows)]}
    if wide:
        columns |= {name: draw(cells) for name in (period, kids, work)}
        options = {"attribute": "kids", "columns": {period: "2021-03", kids: "2021-01"}}
        coded = {period: CODED, kids: CODED, work: CODED}
    else:
        columns |= {
            period: draw(
                st.lists(st.sampled_from(["2021-01", "2021-02"]), min_size=rows, max_size=rows)
            )
        }
        columns |= {kids: draw(cells), work: draw(cells)}
        options = {"period": period, "columns": {kids: "kids", work: "work"}}
        coded = {kids: CODED, work: WORK}
        if draw(st.booleans()):
            options["values"] = {"work": {"3": "", "1": "yes"}}
    columns |= {name: draw(cells) for name in rest}
    declared = draw(st.sampled_from([(0, 1, 2), ("0", "1", "2"), (1, 2, 3), ("a", "b")]))
    chosen = frozenset({"kids"})
    codings = draw(st.sampled_from([Codings(chosen), Codings(codes=chosen), Codings()]))
    options |= {"person": person, "codings": codings}
    return suffix, columns, coded if labelled else {}, declared, TableLayout(**options)


@settings(max_examples=60, deadline=None)
@given(drawn=tables())
def test_what_a_reading_announces_is_what_arrives(tmp_path_factory, drawn):
    suffix, columns, labels, declared, layout = drawn
    path = tmp_path_factory.mktemp("read") / f"t{suffix}"
    write(path, columns, labels)
    surveyed = study(list(declared))
    try:
        reading = next(iter(read_columns(path, surveyed, layout))).reading
    except UserError as refused:
        (line,) = refused.lines
        assert "--labels kids takes 1 for 0, --codes kids for 1" in line
        assert layout.codings == Codings()
        return
    facts = facts_of(reading)
    arrived = {
        (person, period, name, value)
        for batch in read_reports(path, surveyed, layout)
        for person, period, values in batch
        for name, value in values.items()
    }
    assert arrived == announced(facts, columns)
    lines = "\n".join(reading_lines(reading))
    for column in columns:
        assert column in lines
    for column in facts.get("labels", {}):
        assert f"labels: 1 is {labels[column]['1']}" in lines
    # Taken from a file, the reading is the same.
    taken = accepted_layout(facts_in(facts_text(facts)), TableLayout())
    again = next(iter(read_columns(path, surveyed, taken))).reading
    assert differences(facts, facts_of(again)) == []
    assert facts_of(again) == facts


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
LISTS = st.lists(TEXTS, min_size=1, max_size=3, unique=True).map(sorted)
NESTED = st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=2)
FACTS = st.dictionaries(
    TEXTS, TEXTS | LISTS | NESTED | st.dictionaries(TEXTS, NESTED, min_size=1), max_size=4
)


@given(FACTS)
def test_facts_survive_their_file(facts):
    assert facts_in(facts_text(facts)) == facts


@given(FACTS, st.data())
def test_facts_that_differ_have_a_line_each(facts, data):
    others = data.draw(st.just(facts) | st.builds(lambda f: facts | f, FACTS))
    lines = differences(facts, others)
    assert bool(lines) == (facts != others)
    assert all(line.isprintable() for line in lines)


def test_a_long_list_of_columns_is_counted():
    layout = TableLayout(attribute="kids", columns={"m{}": "..."})
    names = ["person", *(f"m{i}" for i in range(1, 41)), *(f"note {i}" for i in range(30))]
    table = pa.table({name: ["1"] for name in names})
    with_names = study(["1", "2"], periods=40)
    reading = next(iter(read_columns(NamedTable("t", table), with_names, layout))).reading
    lines = reading_lines(reading)
    assert len(lines) <= 20
    assert lines[-3].split() == ["and", "26", "columns", "more,", "and", "at", "last"]
    assert lines[-2].split() == ["m40", "kids", "in", "2024-04", "as", "they", "stand"]
    assert lines[-1].startswith("  left out: note 0, note 1,")
    assert lines[-1].endswith(", and 18 more")


@pytest.mark.parametrize("facts", [{"dates": 5}, {"columns": {"a": [1]}}, {"person": 1.5}])
def test_what_is_no_reading(facts):
    with pytest.raises(UserError, match="is no reading that 'send --reading' wrote"):
        accepted_layout(facts, TableLayout())


def test_every_decision_survives_its_file():
    table = pa.table({"id": ["1"], "month": ["2021-01"], "kids": ["1"], "note": [""]})
    layout = TableLayout(
        person="id",
        period="month",
        columns={"note": ""},
        values={"kids": {"one": "1"}, "period": {"start": "2021-01"}},
        dates="%m/%Y",
        zone="Europe/Lisbon",
        languages=("de", "fr"),
        numbers=NumberTexts(",", "."),
        id_width=4,
        nobody=("NA", "Total"),
        form=FileForm(row_names=True),
    )
    named = study(["1", "2"])
    first = next(iter(read_columns(NamedTable("t", table), named, layout))).reading
    taken = accepted_layout(facts_in(facts_text(facts_of(first))), TableLayout())
    same = {*vars(layout)} - {"columns", "codings"}
    assert {key: getattr(taken, key) for key in same} == {key: getattr(layout, key) for key in same}
    again = next(iter(read_columns(NamedTable("t", table), named, taken))).reading
    assert facts_of(again) == facts_of(first)


@pytest.mark.parametrize(("column", "same"), [("2021-03", True), ("kids", False)])
def test_a_column_of_a_later_period_is_no_difference(column, same):
    layout, named = TableLayout(attribute="kids"), study(["1", "2"])
    names = ["person", "2021-01", "2021-02"]
    tables = [pa.table({name: ["1"] for name in n}) for n in (names, [*names, column])]
    first, second = (
        facts_of(next(iter(read_columns(NamedTable("t", table), named, layout))).reading)
        for table in tables
    )
    assert (differences(first, second) == []) is same
    assert differences(second, first) != []
