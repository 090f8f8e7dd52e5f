"""The examples of surveys, on small files of the Census Bureau's formats."""

import shutil
import subprocess
import sys
from pathlib import Path

from stream_dp.services.cli import main

SIPP = Path(__file__).parents[2] / "examples" / "sipp"


def test_sipp_becomes_reports_that_all_count(tmp_path, capsys):
    lines = ["SPANEL|SSUID|PNUM|MONTHCODE|WPFINWGT|THINCPOVT2"]
    ratios = {"101": "0.99", "102": "1", "103": ""}
    lines += [
        f"2021|000114285134|{pnum}|{month}|1.5|{ratio}"
        for pnum, ratio in ratios.items()
        for month in range(1, 13)
    ]
    (tmp_path / "pu2021.csv").write_text("\n".join(lines) + "\n")
    shutil.copy(SIPP / "sipp.toml", tmp_path)
    command = [sys.executable, str(SIPP / "reports.py"), "pu2021.csv", "reports.csv"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    header, *rows = (tmp_path / "reports.csv").read_text().replace('"', "").splitlines()
    assert header == "person,period,poverty"
    assert rows[0] == "000114285134-101,2020-01,1"
    assert rows[-1] == "000114285134-102,2020-12,0"
    assert len(rows) == 24

    study = str(tmp_path / "sipp.toml")
    assert main(["send", study, str(tmp_path / "reports.csv")]) == 0
    assert main(["close", study, "2020-12"]) == 0
    assert main(["run", study, "--until-idle"]) == 0
    assert "the horizon is reached" in capsys.readouterr().out
