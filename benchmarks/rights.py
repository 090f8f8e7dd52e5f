"""What every command says to every kind of user of `deploy/kafka/acls.sh`.

    python benchmarks/rights.py

A study with batch releases on a broker with the shipped access lists, where each user does its
part. Then every user tries every command. Prints a table; exit code 1 unless each command either
does its work or names a right that is missing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "deploy" / "kafka")]

from deploy.test_batch_rights import USERS, Batches  # noqa: E402
from kit.households import LABELS  # noqa: E402

from deploy import secured  # noqa: E402

COMMANDS: dict[str, tuple[str, ...]] = {
    "releases": (),
    "verify": (),
    "estimate": ("pairs", "pattern 1 1"),
    "export": ("pairs", "table-{user}.csv"),
    "topics": (),
    "status": (),
    "rejected": (),
    "jobs": (),
    "groups": ("groups.csv", "members.csv"),
    "send": ("reports.csv", "--check"),
    "close": (LABELS[-1], "--yes"),
    "backup": ("backup-{user}",),
    "worker": ("--until-idle",),
    "run": ("--until-idle",),
}
# Of whose work no right is missing; what a study refuses for other reasons is right, too.
WORK = {
    "releaser": set(COMMANDS) - {"groups", "close", "worker"},
    "producer": {"send", "close"},
    "analyst": {"releases", "estimate", "export"},  # verify of a study reads both logs
    "operator": {"releases", "estimate", "export", "verify", "status", "jobs", "groups", "send"},
    "monitor": set[str](),
    "worker": {"worker", "send"},
    "admin": set(COMMANDS),
}


def fault(user: str, command: str, code: int, said: str) -> str:
    """What is wrong with the answer; empty if nothing is."""
    missing = "no right to " in said and "; grant " in said
    if command in WORK[user]:
        return "a right is missing" if missing else ""
    return "" if code == 2 and missing else "no right is named"


def main() -> int:
    wrong = 0
    secured.USERS = USERS
    with TemporaryDirectory(prefix="stream-dp-") as folder:
        broker = Batches(Path(folder) / "broker")
        broker.folder.mkdir()
        try:
            broker.start()
            broker.files()
            broker.says("admin", "topics")
            broker.says("operator", "groups", "groups.csv", "members.csv")
            broker.says("producer", "send", "reports.csv")
            broker.says("producer", "close", LABELS[-1], "--yes")
            broker.says("releaser", "run", "--until-idle")
            print("| user | command | exit code | what it says first, or of a right | fault |")
            print("|---|---|---|---|---|")
            for user in WORK:
                for command, more in COMMANDS.items():
                    code, said = broker.says(user, command, *(m.format(user=user) for m in more))
                    lines = said.splitlines() or [""]
                    line = next((x for x in lines if "no right to " in x), lines[0])
                    found = fault(user, command, code, said)
                    wrong += bool(found)
                    print(f"| {user} | {command} | {code} | {line} | {found} |", flush=True)
        finally:
            broker.stop()
    print(f"{wrong} answers are wrong.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
