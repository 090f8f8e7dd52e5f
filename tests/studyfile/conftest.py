"""Fixtures that read study files and their refusals."""

import pytest

from stream_dp.errors import UserError
from stream_dp.study import Run
from stream_dp.studyfile import load_study


@pytest.fixture
def read(tmp_path, monkeypatch):
    """The study and the run of a text."""
    for field in Run.model_fields:
        monkeypatch.delenv(f"STREAM_DP_{field.upper()}", raising=False)

    def reader(text):
        path = tmp_path / "study.toml"
        path.write_text(text, "utf-8")
        return load_study(path)

    return reader


@pytest.fixture
def faults(read, tmp_path):
    """The lines of a text's refusal, without the path that each begins with."""

    def reader(text):
        with pytest.raises(UserError) as refused:
            read(text)
        start = f"{tmp_path / 'study.toml'}: "
        assert all(line.startswith(start) and "\n" not in line for line in refused.value.lines)
        return [line.removeprefix(start) for line in refused.value.lines]

    return reader
