"""Tables of reports, groups and places: files of several kinds, read in batches.

No row changes how another row is read. Only four things concern the table as a whole: the header,
the types of columns, a damaged file, and in text a quote that is left open.
"""

from .cell_judging import Judgement, judge_table
from .column_layout import TableLayout
from .table_files import FileForm, count_rows
from .table_reading import SentRecords, read_columns, read_reports, read_table, records_of

__all__ = [
    "FileForm",
    "Judgement",
    "SentRecords",
    "TableLayout",
    "count_rows",
    "judge_table",
    "read_columns",
    "read_reports",
    "read_table",
    "records_of",
]
