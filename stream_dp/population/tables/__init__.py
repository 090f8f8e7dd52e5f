"""Tables of reports: files of several kinds, long or wide, read in batches as text.

No row changes how another is read. Only the header, the types of columns, a damaged file, and in
text a quote that is left open concern the table as such.
"""

from .files import FileForm, count_rows
from .judging import Judgement, judge_table
from .layout import TableLayout
from .reading import read_columns, read_reports
from .report_records import id_rule, records_of

__all__ = [
    "FileForm",
    "Judgement",
    "TableLayout",
    "count_rows",
    "id_rule",
    "judge_table",
    "read_columns",
    "read_reports",
    "records_of",
]
