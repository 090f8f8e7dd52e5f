"""The table of faulty cells by column and reason."""

from stream_dp.population.tables import Judgement
from stream_dp.population.tables.cell_judging import Occurrences
from stream_dp.services.intake.table_judging import fault_table


def test_what_the_last_line_counts():
    """13 columns with two reasons each: 26 rows, of which 20 are shown."""
    faults = {
        (f"c{i}", reason): Occurrences(1, i + 1) for i in range(13) for reason in ("value", "late")
    }
    lines = fault_table("t", Judgement(cells=30, faults=faults), "nothing is sent")
    assert lines[0] == "t: 26 of 30 cells would not count; nothing is sent"
    assert len(lines) == 2 + 20 + 1
    assert lines[-1] == "  and 6 rows more, each a column and a reason"
