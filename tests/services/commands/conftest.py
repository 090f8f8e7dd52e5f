"""The study of an agency that sends files, and commands that end without a traceback."""

import pytest
from kit.agency_files import STUDY

from stream_dp.services.commands.cli import main


@pytest.fixture
def study(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path / "study.toml"


@pytest.fixture
def command(capsys):
    """Runs a command; gives its exit code, output and error lines."""

    def command(*words):
        code = main([str(word) for word in words])
        shown = capsys.readouterr()
        assert "Traceback" not in shown.err
        return code, shown.out, shown.err.splitlines()

    return command
