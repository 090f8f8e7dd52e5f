"""Starts or refuses the Spark application of an aggregator."""

from __future__ import annotations

import os
import re
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from stream_dp.errors import UserError, missing_extra

# Settings unless the operator sets them.
_DEFAULTS = {
    "spark.app.name": "stream-dp",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    # Tasks run in copies of a process that has done their imports.
    "spark.python.daemon.module": f"{__package__}.spark_daemon",
    # Hostile input may take a task's memory: the task fails, and its executor goes on.
    "spark.executor.killOnFatalError.depth": "0",
}
# Plans are the same in every run, and a task's rows are few and large.
_FIXED = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
}
_UNNAMED = "local[*]"  # Spark's value if no master is named
_LOCAL = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


def check_master(settings: dict[str, str]) -> None:
    """Raises UserError for a cluster that is open to other users.

    settings: of Spark. A master in this process alone needs none.
    """
    master = settings.get("spark.master", "local[*]")
    if re.fullmatch(r"local(\[[^\]]*\])?", master):
        return

    def on(name: str) -> bool:
        return settings.get(name, "false").strip().lower() == "true"

    lines = []
    if not on("spark.authenticate"):
        lines.append("set spark.authenticate to true: whoever reaches a port could join")
    if not (on("spark.network.crypto.enabled") or on("spark.ssl.rpc.enabled")):
        lines.append("set spark.network.crypto.enabled to true: answers cross the network")
    if not on("spark.io.encryption.enabled"):
        lines.append("set spark.io.encryption.enabled to true: answers lie on the machines' disks")
    if on("spark.eventLog.enabled"):
        lines.append("set spark.eventLog.enabled to false: the log of events names what is read")
    if lines:
        raise UserError(f"aggregator: Spark on '{_scheme(master)}': {line}" for line in lines)


def _scheme(master: str) -> str:
    return re.split(r"[:\[]", master, maxsplit=1)[0]


def open_session(processes: int) -> Any:
    """Returns the session of the application, started if none runs in this process.

    processes: the number of tasks at once if no master is named. Spark's settings come from
    `spark-submit` or from `spark-defaults.conf` in SPARK_CONF_DIR.

    Raises UserError if Spark is not installed, does not start, or is not to be trusted.
    """
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise missing_extra("spark: not installed", "spark") from None
    # Tasks run in this interpreter, which has this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        SparkContext._ensure_initialized()  # starts Java, which alone knows Spark's own settings
        conf = SparkConf()
    except PySparkException:
        raise UserError(
            "spark: Java does not start, or ended at once: it is to be 17 or newer (JAVA_HOME), and"
            " this machine's name must have an address (or set SPARK_LOCAL_IP)"
        ) from None
    if conf.get("spark.master", _UNNAMED) == _UNNAMED:
        # A task whose process is killed is retried, as Spark does on clusters only.
        conf.setMaster(f"local[{processes},4]")
    conf.set("spark.ui.showConsoleProgress", "false")  # true by default
    for name, value in _DEFAULTS.items():
        conf.setIfMissing(name, value)
    settings = dict(conf.getAll())
    check_master(settings)
    if settings["spark.master"].startswith("local"):
        for name, value in _LOCAL.items():
            conf.setIfMissing(name, value)
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    check_master(dict(session.sparkContext.getConf().getAll()))
    for name, value in _FIXED.items():
        session.conf.set(name, value)
    return session


def close_session(session: Any) -> None:
    """Stops the application, and removes Spark's empty folder `artifacts` in the working folder."""
    artifacts = None
    if Path("artifacts").exists():
        of_session = session._jsparkSession.artifactManager().artifactPath()
        artifacts = Path(of_session.toAbsolutePath().toString()).parent
    session.stop()
    if artifacts is not None:
        shutil.rmtree(artifacts, ignore_errors=True)
        with suppress(OSError):  # another application's are there
            artifacts.parent.rmdir()
