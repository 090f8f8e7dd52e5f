"""What `init` proposes: from the form of a file, from labels, and from codebooks."""

from __future__ import annotations

import tomllib
from decimal import Decimal
from pathlib import Path

import pytest

from stream_dp.errors import UserError
from stream_dp.population.tables import FileForm
from stream_dp.services.desk.answers_form import Form, joined, listed
from stream_dp.services.desk.column_proposals import TableHeader, codebook_values, labelled_values
from stream_dp.services.desk.draft import Draft, drafted
from stream_dp.services.desk.draft_columns import Column, SourceTable
from stream_dp.services.desk.init import asked_form, form_options
from stream_dp.study.study_text import study_text
from stream_dp.studyfile import parse_study


def asked(path: Path, content: bytes, **answers: str) -> tuple[FileForm, list[str]]:
    """The form that is found with these answers, and the questions with their proposals."""
    path.write_bytes(content)
    form = Form(answers)
    found = asked_form(form, path, FileForm())
    return found, [f"{field.question} [{field.proposal}]" for field in form.fields]


def test_a_sound_file_is_asked_nothing(tmp_path: Path) -> None:
    for content in (
        b"id,a,b\n1,2,3\n",
        b",a,b\n0,1,2\n",
        b"id\n",
        b"\n\nid,a\n1,\n",
    ):
        form, questions = asked(tmp_path / "t.csv", content)
        assert (form, questions) == (FileForm(), []), content
        assert form_options(form) == []


@pytest.mark.parametrize(
    "content",
    [
        b"Survey of 2021\n\nid;a;b\n1;2;3\n",
        b"Survey of 2021;;\n;;\nid;a;b\n1;;\n",
        b";Survey;\n \nid;a;b\n1;2;3\n",
    ],
)
def test_a_title_above_the_header(content: bytes, tmp_path: Path) -> None:
    form, questions = asked(tmp_path / "t.csv", content)
    assert questions == ["Row of the header [3]"]
    assert form_options(form) == ["--header-row", "3"]


@pytest.mark.parametrize(
    ("content", "questions", "options"),
    [
        (b'"a" "b"\n"1" 2 3\n', ["Separator", "Do rows"], ["--separator", " ", "--row-names"]),
        (b"a b c\n1 2 3\n", ["Separator"], ["--separator", " "]),
        (b'"a","b"\n"1",2,3\n', ["Do rows"], ["--row-names"]),
        (b"a\tb\n1\t2\t3\n", ["Do rows"], ["--row-names"]),
        (b"a;b\n1;2;\n", [], []),
        (b"a of b\n1\n", [], []),
    ],
)
def test_blanks_between_cells_and_names_of_rows(content, questions, options, tmp_path) -> None:
    """As `write.table` of R writes a table; a line that ends in a separator has no name."""
    form, shown = asked(tmp_path / "t.txt", content)
    assert [text.split()[: len(q.split())] for text, q in zip(shown, questions, strict=True)] == [
        q.split() for q in questions
    ]
    assert form_options(form) == options


def test_an_encoding_is_asked_for_and_not_guessed(tmp_path: Path) -> None:
    form, questions = asked(tmp_path / "t.csv", "id,a\n1,é\n".encode("latin-1"), encoding="latin-1")
    assert questions == ["The file is not UTF-8; its encoding [cp1252]"]
    assert form_options(form) == ["--encoding", "latin-1"]
    with pytest.raises(UserError, match="no encoding of text"):
        asked(tmp_path / "t.csv", b"id,\xe9\n", encoding="nonsense")


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        ("HHID,PNO,work", "HHID+PNO"),
        ("hhID,personID,per_num", "hhID+per_num"),
        ("household_id,member,age", "household_id+member"),
        ("hhid,m1,m2", "hhid"),
        ("pno,work", "pno"),
        ("age,sex", ""),
        ("resp,id,age,month", "id"),
        ("case,person_no,month", "person_no"),
        ("resp,month", "resp"),
        ("Respondent No,Survey Month", "Respondent No"),
        ("hidp,pno,pidp,sex", "pidp"),
        ("pid,hid,syear", "pid"),
    ],
)
def test_columns_of_ids(names: str, ids: str) -> None:
    assert TableHeader(tuple(names.split(","))).person == ids


def test_keys_of_households_and_design_weights_are_no_answers() -> None:
    answers = ["household", "size", "weight", "wt", "family", "hours"]
    others = ["hidp", "hid", "hh_id", "HouseholdID", "pweight", "design_weight", "h_wgt", "fnlwgt"]
    names = [*answers, *others]
    assert TableHeader(("pid", *names)).answers(names) == answers


def test_a_part_of_a_list_with_a_comma_stands_in_quotes() -> None:
    """As the bands of `cut` in R."""
    assert listed('yes, no,maybe "so"') == ["yes", "no", 'maybe "so"']
    assert listed('"(0,19]", "(19,39]"') == ["(0,19]", "(19,39]"]
    assert joined(["(0,19]", "b"]) == '"(0,19]",b'
    for wrong in ("", "a,,b", "a,a"):
        with pytest.raises(UserError):
            listed(wrong)


@pytest.mark.parametrize(
    ("names", "period"),
    [
        ("YEAR,SERIAL,MONTH,PERNUM", "YEAR"),
        ("id,month,day", "month"),
        ("id,wave,year", "year"),
        ("id,period,year", "period"),
        ("id,age", ""),
        ("Respondent No,Survey Month", "Survey Month"),
        ("id,birth year", ""),
        ("pid,month,syear", "syear"),
    ],
)
def test_the_column_of_periods(names: str, period: str) -> None:
    assert TableHeader(tuple(names.split(","))).period == period


def test_labels_are_proposed_where_a_list_can_have_them() -> None:
    labels = {
        "a": {"1": "in work", "2": "out of work"},
        "b": {"1": "yes, fully", "2": "no"},
        "c": {"1": "other", "2": "other"},
        "d": {"0": "absent", "1": "there"},
    }
    assert labelled_values(labels) == {
        "a": ["in work", "out of work"],
        "b": ["1", "2"],
        "c": ["1", "2"],
        "d": ["0", "1"],
    }


@pytest.mark.parametrize("codes", ["-9", "-9,-8,-1", "97,98,99", "77,88,99", "996,998,-1", "-9,0"])
def test_labels_of_codes_of_no_answer_are_no_list_of_values(codes: str, tmp_path: Path) -> None:
    """As of ages: the numbers themselves have no labels, and would all be refused."""
    named = {code: f"reason {code}" for code in codes.split(",")}
    assert labelled_values({"age": named}) == {}
    full = {**named, "1": "employed", "2": "retired"}
    assert labelled_values({"work": full}) == {"work": [*full.values()]}
    pandas, pyreadstat = pytest.importorskip("pandas"), pytest.importorskip("pyreadstat")
    path = tmp_path / "panel.dta"
    labels = {"age": {int(code): text for code, text in named.items()}}
    pyreadstat.write_dta(pandas.DataFrame({"age": [40]}), path, variable_value_labels=labels)
    assert codebook_values(path) == {}


@pytest.mark.parametrize(
    ("labels", "values", "shown"),
    [
        ({"-9": "missing", "1": "male"}, ["missing", "male"], "male"),
        ({"1": "no", "2": "yes", "8": "don't know", "99": "x"}, [1, 2, 8, 99], 2),
        ({"1": "Refused", "2": "Yes"}, ["Refused", "Yes"], "Yes"),
        ({"-9": "missing"}, [-9], -9),
        ({}, [1, 2, 99], 99),
    ],
)
def test_figures_show_an_answer(labels, values, shown) -> None:
    column = Column("a", "a", "", labels, values, "absent", None)
    assert column.interest == shown


def test_a_label_of_a_value_is_no_title_of_its_attribute() -> None:
    """Of several values the last is the value of interest, and its label is not the attribute's."""

    def declared(*values: int) -> dict:
        labels = {str(value): f"label {value}" for value in values}
        return Column("a", "a", "", labels, values, "absent", None, label="label").declaration()

    assert declared(-9, 1, 2) == {
        "values": [-9, 1, 2],
        "interest": 2,
        "label": "label",
        "missing": "absent",
    }
    assert "interest" not in declared(0, 1)


def test_a_codebook_in_ddi(tmp_path: Path) -> None:
    path = tmp_path / "book.xml"
    category = "<catgry{}><catValu>{}</catValu><labl>x</labl></catgry>"
    found = category.format("", 1) + category.format("", 2) + category.format(' missing="Y"', 9)
    path.write_text(
        f'<codeBook xmlns="ddi:codebook:2_5"><dataDscr><var name="work">{found}</var>'
        '<var name="age"><labl>Age</labl></var></dataDscr></codeBook>'
    )
    assert codebook_values(path) == {"work": ["1", "2"], "age": []}
    path.write_text("<codeBook>")
    with pytest.raises(UserError, match="cannot be read as a codebook in DDI"):
        codebook_values(path)


def test_a_codebook_of_another_file_s_labels(tmp_path: Path) -> None:
    pandas, pyreadstat = pytest.importorskip("pandas"), pytest.importorskip("pyreadstat")
    path = tmp_path / "last.sav"
    labels = {"work": {1: "yes", 2: "no"}}
    pyreadstat.write_sav(pandas.DataFrame({"work": [1.0]}), path, variable_value_labels=labels)
    assert codebook_values(path) == {"work": ["1", "2"]}


def draft_of_trades(trades: str, classes: str, **answers: str) -> Draft:
    """A draft of a file of people with the columns Industry and industry_category.

    The file has labels for 11, 12 and 21 of the first, and for 1 and 2 of the second.
    """
    columns = ("Industry", "industry_category")
    codes = ({"11": "crops", "12": "wood", "21": "coal"}, {"1": "farms", "2": "mines"})
    table = SourceTable(
        Path("t.csv"),
        FileForm(),
        TableHeader(("id", *columns)),
        labels=dict(zip(columns, codes, strict=True)),
    )
    given = {"people": "300", "price": "1", "period": "=", "complete": "yes"}
    values = {"Industry: values": trades, "industry_category: values": classes}
    return drafted(lambda form: table, {**given, **values, **answers})


@pytest.mark.parametrize(
    ("trades", "classes", "values"),
    [
        ("11,12,21", "1,2", {"11": "1", "12": "1", "21": "2"}),
        ("crops,wood,coal", "farms,mines", {"crops": "farms", "wood": "farms", "coal": "mines"}),
    ],
)
def test_a_function_is_proposed_from_names_and_values_and_never_taken_for_granted(
    trades: str, classes: str, values: dict[str, str]
) -> None:
    pending = draft_of_trades(trades, classes)
    assert pending.study is None
    assert pending.pending is not None
    key, answer = pending.pending.key, pending.pending.answer
    assert (key, answer) == ("function industry_category of industry", "no")
    first, second = pending.notes[key]
    shown = ", ".join(f"{value} = {of}" for value, of in values.items())
    assert first == f"'industry_category' may follow from 'Industry': {shown}"
    assert second.endswith("never from people's rows")
    refused, taken = (draft_of_trades(trades, classes, **{key: s}) for s in ("no", "yes"))
    assert refused.study is not None
    assert taken.study is not None
    assert refused.study.batches[0].derived is None
    (rule,) = taken.study.batches[0].column_rules
    assert rule.text == "industry_category follows from industry"
    assert rule.values == values
    assert parse_study(tomllib.loads(study_text(taken.study), parse_float=Decimal)) == taken.study
    assert not refused.comments + taken.comments


def test_a_function_that_values_do_not_tell_is_a_comment_to_complete() -> None:
    draft = draft_of_trades("a1,b1,b2", "x,y")
    assert draft.study is not None
    first, *_, block, of, values = draft.comments
    assert "looks like a public function of 'industry', by its name alone" in first
    assert draft.study.batches[0].derived is None
    entries = '{ a1 = "x", b1 = "y", b2 = "y" }'
    completed = f"{block}\n{of}\nvalues = {entries}"
    study = parse_study(tomllib.loads(study_text(draft.study) + completed, parse_float=Decimal))
    assert [rule.text for rule in study.batches[0].column_rules] == [
        "industry_category follows from industry"
    ]
    assert values.startswith('values = { "VALUE OF industry" =')


def test_an_order_is_a_comment_that_asks_for_public_knowledge(tmp_path: Path) -> None:
    header = "id,age,age_first_job,JobStart,JobEnd,wage_start,wage_end"
    columns = ("JobStart", "JobEnd")
    table = SourceTable(Path("t.csv"), FileForm(), TableHeader(tuple(header.split(","))))
    given = {"people": "300", "price": "1", "period": "=", "complete": "yes"}
    values = {f"{name}: values": "1990, 2000, 2010" for name in columns}
    values |= {f"{name}: values": "10..12" for name in header.split(",")[1:] if name not in columns}
    draft = drafted(lambda form: table, {**given, **values})
    assert draft.study is not None
    *words, key, first, second, end = draft.comments
    assert "must be public knowledge" in " ".join(words)
    assert "Nobody looked at the data" in " ".join(words)
    completed = "\n".join((key, first, second, end))
    study = parse_study(tomllib.loads(study_text(draft.study) + completed, parse_float=Decimal))
    assert draft.study.batches[0].rules is None
    assert {*study.batches[0].rules} == {"age_first_job <= age", "jobstart <= jobend"}
