"""Fetches the jars of Spark's Kafka connector, which pyspark does not bring.

    python deploy/spark/jars.py [FOLDER]

Needs Java and Maven. FOLDER is by default that of Spark's own jars, where Spark finds them without
a setting; jars elsewhere are named in Spark's `spark.jars`. Nothing is fetched twice.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

POM = Path(__file__).parent / "pom.xml"


class Missing(Exception):
    """Something that is needed is not installed."""


def fetch(folder: Path) -> None:
    """Downloads what pom.xml names, unless it is there."""
    done, wanted = folder / "connector", hashlib.sha256(POM.read_bytes()).hexdigest()
    if done.exists() and done.read_text() == wanted:
        return
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed; Java 17 and Maven are needed")
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            *("mvn", "--quiet", "--batch-mode", "--file", str(POM)),
            *("dependency:copy-dependencies", "-DincludeScope=runtime"),
            f"-DoutputDirectory={folder.resolve()}",
        ],
        check=True,
        stdout=sys.stderr,
    )
    done.write_text(wanted)


def spark_jars() -> Path:
    """The folder of the jars of the Spark that this interpreter has."""
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise Missing("pyspark is not installed; name a FOLDER, or pip install 'stream-dp[spark]'")
    return Path(pyspark.origin).parent / "jars"


def main() -> int:
    if len(sys.argv) > 2 or sys.argv[1:] == ["--help"]:
        print(f"usage: {sys.argv[0]} [FOLDER]", file=sys.stderr)
        return 2
    try:
        folder = Path(sys.argv[1]) if sys.argv[1:] else spark_jars()
        fetch(folder)
    except (Missing, OSError, subprocess.CalledProcessError) as error:
        print(f"jars: {error}", file=sys.stderr)
        return 2
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
