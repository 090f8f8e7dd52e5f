"""The public monitor under another user: it serves, and can read no confidential file."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kit.monitors import monitor
from kit.studies import study_toml, window

from stream_dp.services.commands import cli

pytest.importorskip("fastapi")
if os.geteuid() != 0 or shutil.which("setpriv") is None:
    pytest.skip("only root, with setpriv, can play two users", allow_module_level=True)

# The interpreter may be in root's home, so the monitor is root without the right to pass over the
# modes of files, and the confidential files belong to somebody else.
OWNER = pwd.getpwnam("nobody")
WITHOUT = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
READ = """
import sys
from pathlib import Path
for name in sys.argv[1:]:
    try:
        Path(name).read_bytes()
    except PermissionError:
        continue
    raise SystemExit(name)
"""


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """A study with a released period."""
    study = tmp_path / "small.toml"
    study.write_text(study_toml(releases=[window("now", "poverty", width=1, rho=1)]))
    (tmp_path / "reports.csv").write_text("person,period,poverty\na,2021-01,1\nb,2021-01,0\n")
    (tmp_path / "reports.csv").chmod(0o600)
    assert cli.main(["send", str(study), str(tmp_path / "reports.csv")]) == 0
    assert cli.main(["close", str(study), "2021-01", "--yes"]) == 0
    assert cli.main(["run", str(study), "--until-idle"]) == 0
    return tmp_path


def test_the_public_monitors_user_can_read_the_public_log_alone(released: Path) -> None:
    public, folder = released / "small-public.db", released / "small-snapshots"
    snapshots = [path for path in folder.iterdir() if path.is_file()]
    confidential = [*released.glob("small.db*"), released / "reports.csv", *snapshots]
    assert snapshots
    assert len(confidential) > 2
    for path in (*confidential, folder):
        os.chown(path, OWNER.pw_uid, OWNER.pw_gid)  # their modes stay as they were made
    read = [*WITHOUT, sys.executable, "-c", READ]
    done = subprocess.run([*read, *map(str, confidential)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run([*read, str(public)], capture_output=True, text=True)
    assert done.returncode == 1
    with monitor(f"sqlite:{public}", before=WITHOUT) as one:
        assert b'"now"' in one.get("/api/v1/releases")[1]
        # A descriptor may close between the listing and the look; realpath does not mind.
        opened = set(map(os.path.realpath, Path(f"/proc/{one.process.pid}/fd").iterdir()))
        assert not {str(path) for path in confidential} & opened
        assert one.get("/release/now")[0] == 200
