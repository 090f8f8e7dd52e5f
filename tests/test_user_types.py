"""A user's script type-checks after the install, without a copy of the sources on any path."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np
import pandas as pd

import stream_dp

people = pd.DataFrame({"work": ["yes", "no"], "car": ["a", "b"]})
values = {"work": ["yes", "no"], "car": ["a", "b"]}
fitted = stream_dp.fit(people, epsilon=1.0, delta=1e-9, neighbours="add_remove", values=values)
sample: pd.DataFrame = fitted.sample()
reveal_type(fitted.sample())
panel = stream_dp.window(
    np.zeros((10, 3), int), width=2, rho=0.01, delta="1/1000000", neighbours="replace_one"
)
error: float | None = panel.estimate("value=1").standard_error
reveal_type(panel.panel.to_pandas())
homes, members = stream_dp.fit_tables(
    people, people, key="work", group_values={}, person_values={}, most=2, rho=1
).sample()
reveal_type(members)
number: int = fitted.sample()
"""
# Libraries of which no type reaches the script; reading them takes a third of the time.
UNREAD = "cryptography jinja2 markdown_it matplotlib optax PIL pydantic pydantic_core rich"
CONFIGURATION = "[mypy]\nstrict = True\n" + "".join(
    f"[mypy-{name}.*]\nfollow_imports = skip\n" for name in UNREAD.split()
)


@pytest.mark.skipif(
    any("__editable__" in str(finder) for finder in sys.meta_path),
    reason="an editable install with a finder hides the package: see tests/run",
)
def test_a_script_type_checks_where_it_lies(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT, "utf-8")
    (tmp_path / "mypy.ini").write_text(CONFIGURATION, "utf-8")
    mypy = [sys.executable, "-P", "-m", "mypy", "--no-error-summary", "--cache-dir", os.devnull]
    done = subprocess.run(
        [*mypy, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    *notes, error = done.stdout.splitlines()
    assert [note.split('"')[1].rpartition(".")[2] for note in notes] == ["DataFrame"] * 3, notes
    assert "Incompatible types in assignment" in error
