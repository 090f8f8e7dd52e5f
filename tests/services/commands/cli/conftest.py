"""A small trial, a command that is run and judged, and where its public log stands."""

import json
import shutil

import pytest
from kit.signals import restored_handlers
from trial import write

from stream_dp.services.commands import cli
from stream_dp.study import Run


@pytest.fixture(autouse=True)
def _undisturbed(monkeypatch):
    """No settings of whoever runs the tests, and their signal handlers back afterwards."""
    for field in Run.model_fields.keys() - {"weights"}:
        monkeypatch.delenv(f"STREAM_DP_{field.upper()}", raising=False)
    with restored_handlers():
        yield


@pytest.fixture
def study(tmp_path):
    return write(tmp_path)


@pytest.fixture
def stream_dp(capsys):
    """A function that runs a command and returns its output, or its errors.

    It checks the exit code and the form of an error.
    """

    def run(*words, code=0):
        code_seen = cli.main([str(word) for word in words])
        captured = capsys.readouterr()
        assert code_seen == code, captured.err
        assert "Traceback" not in captured.err
        if code == 0:
            return captured.out
        assert captured.out == ""
        lines = captured.err.splitlines()
        assert lines
        assert all(line.startswith("stream-dp: ") and len(line) < 400 for line in lines)
        return captured.err

    return run


@pytest.fixture
def as_json(stream_dp):
    return lambda *words: json.loads(stream_dp(*words, "--json"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a study that is at the end of its horizon, with some unusable reports."""
    folder = tmp_path_factory.mktemp("finished")
    path = write(folder, people=70)
    with (folder / "reports.csv").open("a") as file:
        file.write("p1,2021-01,7,no\np1,2022-01,1,no\n")
    assert cli.main(["send", str(path), str(folder / "reports.csv")]) == 0
    assert cli.main(["close", str(path), "2021-03"]) == 0
    assert cli.main(["run", str(path), "--until-idle"]) == 0
    return folder


@pytest.fixture(params=["study", "public"])
def source(request, finished, tmp_path):
    """What an analyst names: the study's file, or a public log that is alone in a folder."""
    if request.param == "study":
        return str(finished / "study.toml")
    shutil.copy(finished / "public.db", tmp_path / "copied.db")
    return f"sqlite:{tmp_path / 'copied.db'}"
