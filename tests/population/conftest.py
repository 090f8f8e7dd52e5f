"""Reads a table of the study of tables."""

import pyarrow as pa
import pyarrow.parquet
import pytest
from kit.tables import STUDY

from stream_dp.population.tables import TableLayout, read_reports


@pytest.fixture
def read(tmp_path):
    """The reports of a table in one list: CSV from text or bytes, Parquet from columns."""

    def read(content, name=None, study=STUDY, **layout):
        if isinstance(content, dict):
            path = tmp_path / (name or "table.parquet")
            pa.parquet.write_table(pa.table(content), path)
        else:
            path = tmp_path / (name or "table.csv")
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return [row for batch in read_reports(path, study, TableLayout(**layout)) for row in batch]

    return read
