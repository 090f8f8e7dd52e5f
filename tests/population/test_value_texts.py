"""A column holds codes or labels, as a whole: no cell decides how it is read."""

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.studies import attribute, small_study, window

from stream_dp.errors import UserError
from stream_dp.population.tables import TableLayout, read_reports
from stream_dp.population.tables.value_texts import AmbiguousCoding, Coding, Codings, ValueTexts

NAMES = st.sampled_from([*"0123456789", "few", "many", "4+"])
LABELS = st.dictionaries(st.sampled_from("0123456789"), NAMES, min_size=1, max_size=8)


@st.composite
def codings(draw):
    """Labels by code, declared values among both, and what an operator maps."""
    labels = draw(LABELS)
    texts = st.sampled_from(sorted({*labels, *labels.values(), *"0123456789"}))
    declared = draw(st.sets(texts, min_size=1, max_size=8))
    mapped = draw(st.dictionaries(texts, st.sampled_from(sorted(declared)), max_size=1))
    return labels, declared, mapped if draw(st.booleans()) else {}


def readings(labels, declared, mapped):
    """What may be made of a column: by itself, or where that is refused by each option."""
    try:
        yield None, ValueTexts.of(labels, mapped, declared.__contains__)
    except AmbiguousCoding:
        for coding in Coding:
            yield coding, ValueTexts.of(labels, mapped, declared.__contains__, coding)


@given(codings())
def test_no_column_mixes_codes_and_labels(coding):
    labels, declared, mapped = coding
    for chosen, texts in readings(labels, declared, mapped):
        accepted = {
            code: value
            for code in [*"0123456789"]
            if not {code, labels.get(code)} & {*mapped} and (value := texts.value(code)) in declared
        }
        as_labels = [c for c, value in accepted.items() if value == labels.get(c) != c]
        # A number without a label stands for itself, unless another code has its label.
        as_codes = [
            c
            for c, value in accepted.items()
            if value == c and (c in labels or c in labels.values()) and labels.get(c) != c
        ]
        assert {*as_labels, *as_codes} >= {c for c in accepted if labels.get(c, c) != c}
        assert not (as_labels and as_codes)
        if chosen is not None:
            assert not (as_codes if chosen is Coding.LABELS else as_labels)


@given(codings())
def test_a_column_of_labels_has_every_declared_label(coding):
    labels, declared, _ = coding
    texts = ValueTexts.of(labels, {}, declared.__contains__, Coding.LABELS)
    assert {texts.value(code) for code in labels} & declared == {*labels.values()} & declared


def test_a_map_names_codes_or_labels():
    labels, values = {"1": "Yes", "2": "No", "-9": "refused"}, {"yes", "no"}
    for mapped in ({"Yes": "yes", "No": "no", "refused": ""}, {"1": "yes", "2": "no", "-9": ""}):
        texts = ValueTexts.of(labels, mapped, values.__contains__)
        assert [texts.value(code) for code in labels] == ["yes", "no", None]


def study(values):
    return small_study(
        name="coded",
        size=10,
        attributes={
            "kids": attribute(values, missing="absent"),
            "sex": attribute(["f", "m"], missing="absent"),
        },
        releases=[window("w", "sex", width=1, rho=1)],
    )


@pytest.mark.parametrize("suffix", [".sav", ".dta"])
@pytest.mark.parametrize("values", [["0", "1", "2"], [0, 1, 2]])
def test_a_label_that_is_the_code_of_another_label_is_asked_for(tmp_path, suffix, values):
    pyreadstat = pytest.importorskip("pyreadstat")
    path = tmp_path / f"t{suffix}"
    frame = pandas.DataFrame({"person": ["a", "b", "c"], "kids": [1, 2, 3], "sex": [1, 2, 1]})
    labels = {"kids": {1: "0", 2: "1", 3: "2"}, "sex": {1: "f", 2: "m"}}
    write = pyreadstat.write_sav if suffix == ".sav" else pyreadstat.write_dta
    write(frame, path, variable_value_labels=labels)

    def read(**told):
        layout = TableLayout(period="2021-01", codings=Codings(**told))
        return [row[2] for batch in read_reports(path, study(values), layout) for row in batch]

    with pytest.raises(UserError) as refused:
        read()
    assert refused.value.lines == (
        f"{path}: column 'kids': 1 is the code of '0', and the values of kids are codes and labels"
        " of this file: --labels kids takes 1 for 0, --codes kids for 1",
    )
    for all_or_kids in ("kids", ""):
        read_labels = read(labels=frozenset({all_or_kids}))
        assert [row["kids"] for row in read_labels] == ["0", "1", "2"]
        assert [row["sex"] for row in read_labels] == ["f", "m", "f"]
    assert [row["kids"] for row in read(codes=frozenset({"kids"}))] == ["1", "2", "3"]
    with pytest.raises(UserError, match="--labels, --codes: attribute 'age' is not declared"):
        read(labels=frozenset({"age"}))
