#!/opt/stream-dp/bin/python -P
"""An executor of Spark in a pod of this image: the driver on Kubernetes asks for it.

Spark names by the environment whom it serves, and Java's options one by one.
"""

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

_MAIN = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_OPTION = "SPARK_JAVA_OPT_"
_WORDS = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


def command(environment: Mapping[str, str], jars: Path) -> list[str]:
    """Java's command line. Raises KeyError for what Spark always says."""
    numbers = sorted(
        int(name.removeprefix(_OPTION)) for name in environment if name.startswith(_OPTION)
    )
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    classes = [environment.get("SPARK_CLASSPATH", ""), f"{jars}/*"]
    return [
        "java",
        *(environment[f"{_OPTION}{number}"] for number in numbers),
        *(f"-Xms{memory}", f"-Xmx{memory}"),
        *("-cp", ":".join(filter(None, classes)), _MAIN),
        *(word for name, place in _WORDS.items() for word in (name, environment[place])),
    ]


if __name__ == "__main__":
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        sys.exit("executor: pyspark is not in this image")
    words = command(os.environ, Path(spark.origin).parent / "jars")
    os.execvp(words[0], words)
