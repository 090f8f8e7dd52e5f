"""A panel in long form for regressions: a row for every synthetic person and period."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from stream_dp.panel import Panel
from stream_dp.study import Periods


def long_tables(periods: Periods, panel: Panel, day: pa.DataType) -> Iterator[pa.Table]:
    """The columns row, period, first_day, last_day, and a column per attribute.

    A step is a whole number. The days are null if periods are steps without dates.

    periods: of the study.
    day: the type of days: a timestamp in files for programs, which pandas reads as a date.
    """
    steps = periods.every == "step"
    for index, label in enumerate(panel.periods):
        column = Panel(panel.symbols[:, index : index + 1], (label,), panel.values)
        days = periods.days(periods.numbers[label]) or (None, None)
        for table in column.tables():
            names = [name.removeprefix(label).strip() or "value" for name in table.column_names[1:]]
            period = pa.scalar(int(label), pa.int64()) if steps else pa.scalar(label)
            cells = [period, *(pa.scalar(each, pa.date32()).cast(day) for each in days)]
            repeated = [pa.repeat(cell, table.num_rows) for cell in cells]
            yield pa.table(
                [table.column(0), *repeated, *table.columns[1:]],
                names=["row", "period", "first_day", "last_day", *names],
            )


def long_table(periods: Periods, panel: Panel) -> pa.Table:
    """The columns row, period and the attributes.

    A period is a step's number, or the first moment of any other period.
    """
    table = pa.concat_tables(long_tables(periods, panel, pa.timestamp("ms")))
    if periods.every != "step":
        starts = [periods.start(periods.numbers[label]) for label in panel.periods]
        from pyarrow import compute as pc  # takes long, and steps do without it

        numbers = pc.index_in(table["period"], value_set=pa.array(panel.periods))
        moments = pa.array(starts, pa.timestamp("ms")).take(numbers.combine_chunks())
        table = table.set_column(1, "period", moments)
    return table.drop_columns(["first_day", "last_day"])
