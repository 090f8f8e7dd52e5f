"""The study whose people keep their answers in tables."""

import re

import pytest

from kit.studies import attribute, small_study, window
from stream_dp.errors import UserError
from stream_dp.study.declared_sections import Ids

STUDY = small_study(
    name="tables",
    size=10,
    attributes={
        "poverty": attribute([0, 1], missing=0),
        "work": attribute(["no", "half day"], missing="absent"),
    },
    releases=[window("w", "poverty", width=1, rho=1)],
)

AS_WRITTEN = STUDY.revised(ids=Ids(as_written=True))


def refused(read, content, **layout):
    """The lines with which a table is refused; none of them shows how it is read."""
    with pytest.raises(UserError) as error:
        read(content, **layout)
    for line in error.value.lines:
        assert "\n" not in line
        assert not re.search("Arrow|Error|Traceback", line)
    return error.value.lines
