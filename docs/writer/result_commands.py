"""The list of the commands that measure the tables of the results, and what each needs."""

from __future__ import annotations

import result_tables

NEEDS = {
    "public data": "`python benchmarks/data_sets.py` fetches them by address, with their SHA-256",
    "lock": "`requirements/benchmarks.lock`, installed after the locks of the extras",
    "broker": "Java and Maven for a broker that starts by itself, or one at `STREAM_DP_TEST_KAFKA`",
    "compiled reader": "[built from this repository](../how-to/compiled-reader.md)",
    "private-pgm": "a clone of the peer and a Python for it: `--peers CLONE --peer-python PYTHON`",
    "Java": "for Spark, with `requirements/spark.lock`",
    "GPU": "one that JAX sees",
    "strace": "the program of this name",
}


def markdown() -> str:
    """A row for each command: its tables and what it needs, then the words of `NEEDS`."""
    tables: dict[tuple[str, str], list[str]] = {}
    for path in sorted(result_tables.FOLDER.glob("*.json")):
        table = result_tables.read(path.stem)
        needs = ", ".join(table.needs) or "nothing"
        tables.setdefault((table.command, needs), []).append(f"[{table.name}](data/{path.name})")
    lines = ["| command | tables | needs |", "|---|---|---|"]
    for (command, needs), names in sorted(tables.items()):
        lines.append(f"| `{command}` | {', '.join(names)} | {needs} |")
    lines += ["", "| need | where it comes from |", "|---|---|"]
    return "\n".join([*lines, *(f"| {word} | {source} |" for word, source in NEEDS.items())])
