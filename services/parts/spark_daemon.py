"""Begins the processes of Spark's tasks on a machine, with their imports done before.

Spark ends a process that idles for a minute, so most closes begin new processes. They are copies of
this process, which has no thread and no connection.
"""

import gc
import sys
from zipimport import zipimporter

from pyspark.daemon import manager

if sys.argv[1:] == ["pyspark.worker"]:  # Spark's other daemon looks for its sources
    import pyarrow.pandas_compat  # noqa: F401

    from stream_dp.log import kafka  # noqa: F401

    from . import spark_engine  # noqa: F401


def forget_archives() -> None:
    """Moves archives to the end of the path and drops their indices.

    Spark reads these indices before each task.
    """
    finders = sys.path_importer_cache
    for path in [path for path, finder in finders.items() if isinstance(finder, zipimporter)]:
        del finders[path]
    sys.path.sort(key=lambda path: path.endswith((".zip", ".jar")))


if __name__ == "__main__":
    forget_archives()
    gc.collect()
    gc.freeze()  # garbage collection after each task skips the imported modules
    manager()
