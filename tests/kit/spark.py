"""One application of Spark for the tests of a process, and what it needs to begin."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from stream_dp.services.parts.spark_engine import close_session, open_session

from .tools import ROOT

TESTS = ROOT / "tests"


def missing() -> str:
    """Why there can be no application here; empty where there can be one."""
    if find_spec("pyspark") is None:
        return "pyspark is not installed"
    if shutil.which("java") is None:
        return "Java is not installed"
    return ""


@contextmanager
def settings(folder: Path, **more: str) -> Iterator[None]:
    """Spark's own settings for what begins now, with little memory.

    more: settings by their names, with `__` for a dot.
    """
    lines = {
        "spark.driver.memory": "1g",
        # What lives for a minute is not worth a second compiler and a second collector.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    (folder / "spark-defaults.conf").write_text(
        "".join(f"{name} {value}\n" for name, value in lines.items())
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(folder))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        # Tasks run in processes of their own, which import what tests send them.
        patch.setenv("PYTHONPATH", f"{TESTS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        yield


@contextmanager
def application(folder: Path, **more: str) -> Iterator[Any]:
    """The session of an application; skips the test where there can be none."""
    if why := missing():
        pytest.skip(why)
    with settings(folder, **more):
        session = open_session(2)
        try:
            yield session
        finally:
            close_session(session)
            with warnings.catch_warnings(action="ignore"):
                gc.collect()  # sockets that pyspark leaves open
