"""What begins the processes of Spark's tasks on a machine, with their imports done before.

Spark ends a process that idles for a minute, so most closes begin new ones. They are copies of
this one, which has no thread and no connection.
"""

import gc
import sys
from zipimport import zipimporter

from pyspark.daemon import manager

if sys.argv[1:] == ["pyspark.worker"]:  # Spark has another one, which looks for its sources
    import pyarrow.pandas_compat  # noqa: F401

    from stream_dp.log import kafka  # noqa: F401

    from . import engine  # noqa: F401


def forget_archives() -> None:
    """Leaves archives to the last, and drops their indices, which Spark reads before each task."""
    finders = sys.path_importer_cache
    for path in [path for path, finder in finders.items() if isinstance(finder, zipimporter)]:
        del finders[path]
    sys.path.sort(key=lambda path: path.endswith((".zip", ".jar")))


if __name__ == "__main__":
    forget_archives()
    gc.collect()
    gc.freeze()  # after each task garbage is collected, and none of it is what was imported
    manager()
