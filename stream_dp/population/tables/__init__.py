"""Tables of reports: files of several kinds, long or wide, read in batches as text.

No row changes how another is read. Only the header, the types of columns, and faults that stop
the reading concern the table as such.
"""

from .files import FileForm, count_rows
from .judging import Judgement, judge_table
from .layout import TableLayout
from .reading import read_reports

__all__ = ["FileForm", "Judgement", "TableLayout", "count_rows", "judge_table", "read_reports"]
