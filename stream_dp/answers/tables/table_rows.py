"""All answers of a data set as rows of the tidy table that panels' answers have, too."""

from __future__ import annotations

import pyarrow as pa

from ..tidy_rows import Row, answer_table
from .table_answer import answering
from .table_facts import PublishedTables


def table_answers(published: PublishedTables, head: str) -> pa.Table:
    """Each value of each column, and of each two, as counts and shares.

    head: the hash of the message up to which the answers use what is published

    Without measurements behind it an answer is the records' own, and has neither error nor
    interval; it has an interval alone where its columns were measured, but not together.
    """
    number = published.study.periods.numbers[published.period]
    rows = (
        Row(number, a.query, a.measure, a.value, a.standard_error, *(a.interval or (None, None)))
        for a in answering(published).every(published)
    )
    return answer_table(published.study, published.declared.name, rows, head=head)
