"""Every state of a study whose files were restored, lost or exchanged: is noise drawn again?

    python benchmarks/restored_states.py

Journal, mark, public log, witness and snapshots are each of now, older, missing or of another
study: 1,024 states. The releaser is started on each plainly, then with `--moved`, then with
`--new-witness` as well, until it goes on. A row a state of journal, mark and public log, a column a
state of witness and snapshots. A cell says what makes the releaser go on: `run`, `moved`, `new`
or nothing (`-`). `*` follows a start that drew noise for a published period again: only
`--new-witness` may, and a state in which everything that is left is equally old. Below the table:
how often each refusal was printed. Exit code 1 after a fault.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kit.restored_states import AGES, STARTS, STATES, RestoredStates, Started, State, faults
from kit.signals import restored_handlers
from result_file import record

SHORT = {"run": "run", "--moved": "moved", "--new-witness": "new"}
TITLES = {
    "run": "run",
    "--moved": "run --moved, after a refusal of run",
    "--new-witness": "run --moved --new-witness, after a refusal of run --moved",
}


def cell(starts: dict[str, Started]) -> str:
    """What makes the releaser go on, and whether it then drew noise again."""
    last = list(starts)[-1]
    words = SHORT[last] if starts[last].code == 0 else "-"
    return words + "*" * any(started.drawn_again for started in starts.values())


def main() -> int:
    ends: dict[State, dict[str, Started]] = {}
    with tempfile.TemporaryDirectory() as folder, restored_handlers():
        states = RestoredStates(Path(folder))
        for number, state in enumerate(STATES, 1):
            ends[state] = dict(states.starts(state))
            if sys.stderr.isatty():
                print(f"\r{number} of {len(STATES)}", end="", file=sys.stderr)
    columns = [(witness, snapshots) for witness in AGES for snapshots in AGES]
    print("columns: witness/snapshots", *("/".join(column) for column in columns), sep="\n  ")
    for journal, mark, public in dict.fromkeys((s.journal, s.mark, s.public) for s in STATES):
        cells = [cell(ends[State(journal, mark, public, *column)]) for column in columns]
        print(f"{journal:8}{mark:8}{public:8}", *(f"{text:6}" for text in cells))
    found = [(state, fault) for state in STATES for fault in faults(state, ends[state])]
    print("\nrefusals:")
    refusals = Counter(s.error for starts in ends.values() for s in starts.values() if s.code)
    for line, count in refusals.most_common():
        print(f"{count:6} {line}")
    print("\nfaults:", *([f"{state}: {fault}" for state, fault in found] or ["none"]), sep="\n  ")
    print("\nstart: states tried, refused, drawn again in all, of these not all equally old")
    for name in STARTS:
        tried = {state: starts[name] for state, starts in ends.items() if name in starts}
        again = [state for state, started in tried.items() if started.drawn_again]
        refused = sum(started.code != 0 for started in tried.values())
        figures = (len(tried), refused, len(again), sum(not state.uniform for state in again))
        print(f"{name}:", *figures)
        record("restored-states", TITLES[name], *figures)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
