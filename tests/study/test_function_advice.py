"""Functions that names and declared values propose."""

import pytest
from kit.studies import attribute, small_study

from stream_dp.study.column_advice import function_advice, function_of


@pytest.mark.parametrize(
    ("coarse", "fine", "values"),
    [
        (("1", "2", "N"), ("11", "2", "29", "N"), {"11": "1", "2": "2", "29": "2", "N": "N"}),
        (("0-17", "18+"), ("9", "17", "18"), {"9": "0-17", "17": "0-17", "18": "18+"}),
        (("0 to 1", "2..3"), ("1", "2", "absent"), None),
        (("A", "B"), ("baker", "smith"), None),
        (("1", "11"), ("110",), None),
    ],
)
def test_texts_say_which_value_follows(coarse, fine, values):
    assert function_of(coarse, fine) == values


def advice(attributes, **release):
    declared = {"name": "p", "kind": "table", "attributes": [*attributes], "rho": 1, "every": 1}
    study = small_study(attributes=attributes, rho=3, releases=[declared | release])
    return [*function_advice(study, study.batches[0])]


def test_only_columns_named_after_another_are_proposed():
    attributes = {
        "trade": attribute(["11", "12", "21"], missing="11"),
        "trade_group": attribute(["1", "2"], missing="1"),
        "region": attribute(["1", "2"], missing="1"),
        "Region_cat": attribute(["x", "y", "z"], missing="x"),
    }
    (line,) = advice(attributes)
    assert line == (
        "'trade_group' looks like a public function of 'trade', by its name and values; if so,"
        " declare [releases.derived.trade_group], or rows may contradict it: values ="
        ' { "11" = "1", "12" = "1", "21" = "2" }'
    )
    values = {"11": "1", "12": "1", "21": "2"}
    assert not advice(attributes, derived={"trade_group": {"of": "trade", "values": values}})
