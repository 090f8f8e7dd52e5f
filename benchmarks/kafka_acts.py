"""What an administrator of Kafka does while a releaser runs: is it noticed, and how does it go on?

    python benchmarks/kafka_acts.py [ACT ...]

Twelve acts, at three moments of a releaser, with the input closed in its process and in parts: 72
trials, on the broker at STREAM_DP_TEST_KAFKA or on one that is started for them. Before each act a
study has published two periods and has a backup. After it the releaser must end with exit code 4
or 5 before anything is drawn or appended. Then the study is mended as the page Operations says, and
must publish two more periods with every report that `send` accepted. Prints a row for each trial;
ends with 1 unless all are sound. Other arguments name acts, by the beginnings of their names.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "deploy" / "kafka"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "kafka"))

from administrators import ACTS, MOMENTS, Cluster, Outcome, trial
from kit.brokers import running_broker

ENGINES = ("here", "processes")
ASK = 2.0  # seconds between two questions of the guard, 30 in production


def tried(server: str, act: str, moment: str, engine: str) -> Outcome:
    """One trial, whose commands print nothing."""
    quiet = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(quiet))
        stack.enter_context(contextlib.redirect_stderr(quiet))
        cluster = Cluster.with_study(server, Path(folder), f"act-{uuid.uuid4().hex[:12]}", engine)
        try:
            return trial(cluster, act, moment, ASK)
        except Exception as error:
            lines = f"{type(error).__name__}: {error}".splitlines()
            return Outcome(line=lines[0])


def main() -> int:
    chosen = [act for act in ACTS if act.startswith(tuple(sys.argv[1:]) or "")]
    sound, count, begun = 0, 0, time.monotonic()
    print("| act | moment | engine | code | s to the end | draws | appended | unread | goes on |")
    print("|---|---|---|---|---|---|---|---|---|")
    with running_broker() as server:
        for act in chosen:
            for moment in MOMENTS:
                for engine in ENGINES:
                    outcome = tried(server, act, moment, engine)
                    count += 1
                    sound += outcome.sound(ACTS[act])
                    cells = (
                        *(act, moment, engine, outcome.code, f"{outcome.seconds:.1f}"),
                        *(outcome.draws, outcome.appended, outcome.unread),
                        "yes" if outcome.goes_on else "NO",
                    )
                    print(f"| {' | '.join(map(str, cells))} |", flush=True)
                    if not outcome.sound(ACTS[act]):
                        print(f"  {outcome.line}", file=sys.stderr, flush=True)
    print(f"{sound} of {count} sound, in {time.monotonic() - begun:.0f} s")
    return 0 if sound == count else 1


if __name__ == "__main__":
    sys.exit(main())
