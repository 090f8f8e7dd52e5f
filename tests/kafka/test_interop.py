"""Releases are read by others: a plain consumer, and kcat, with nothing of ours on their side."""

import hashlib
import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pyarrow.csv
import pytest
from kit.studies import cumulative, study_toml, window
from kit.tools import FETCHED, needs

from stream_dp.log.kafka import KafkaLog
from stream_dp.log.log import following
from stream_dp.release import arrow_parts
from stream_dp.services.commands import cli

PEOPLE, LABELS = 600, ["2021-01", "2021-02", "2021-03", "2021-04"]


def declaration(address, prefix):
    """The study file."""
    return study_toml(
        name="interop",
        periods={"first": LABELS[0], "every": "month", "count": len(LABELS)},
        size=PEOPLE,
        releases=[
            window("quarters", "poverty", width=3, rho=0.5),
            cumulative("ever", "poverty", event=[1], rho=0.5),
        ],
        run={
            "log": f"kafka://{address}/{prefix}",
            "public": f"kafka://{address}/{prefix}-public",
            "partitions": 2,
            "replication": 1,
            "insecure": True,
        },
    )


# The reader that the page on the public format shows.
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "public-format.md"
READER = re.search(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[1]

# Two answers, the share with poverty = 1 for three months and ever, as the releases themselves
# estimate them; the panels.
ANSWERS = """
size, panels, answers = releases[0][0]["study"]["population"]["size"], {}, {}
chosen = {"quarters": "pattern 1 1 1", "ever": "total at-least 1"}
for message, tables in releases[1:]:
    columns, estimates = (
        pa.concat_tables(t for name, t in tables.items() if name.startswith(kind))
        for kind in ("panel/", "estimates/")
    )
    panel = panels.setdefault(message["release"], {})
    for period in message["columns"]:
        panel[period] = [message["values"][code] for code in columns[period].to_pylist()]
    (row,) = [r for r in estimates.to_pylist() if chosen[message["release"]] == r["query"]]
    answers[message["release"]] = {
        "value": row["value"] / size,
        "standard_error": row["standard_error"] / size,
        "period": message["period"],
    }
print(json.dumps({"head": previous, "panels": panels, "answers": answers}))
assert "stream_dp" not in sys.modules
"""


@pytest.fixture(scope="module")
def published(kafka, tmp_path_factory):
    """A study that has run: its file, the public topic; parts are cut small."""
    folder, prefix = tmp_path_factory.mktemp("interop"), f"interop-{uuid.uuid4().hex}"
    study = folder / "study.toml"
    study.write_text(declaration(kafka, prefix))
    rows = [",".join(["person", *LABELS])]
    rows += [f"p{i}," + ",".join(str(int(i % 7 < t)) for t in range(4)) for i in range(PEOPLE)]
    (folder / "panel.csv").write_text("\n".join(rows) + "\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(arrow_parts, "MAX_PART", 65_536 + 1_000)
        for command in (
            ["send", str(study), str(folder / "panel.csv"), "--attribute", "poverty"],
            ["close", str(study), LABELS[-1]],
            ["run", str(study), "--until-idle"],
        ):
            assert cli.main(command) == 0
    return study, f"{prefix}-public.releases"


def ours(capsys, *command):
    capsys.readouterr()
    assert cli.main([*map(str, command), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_plain_consumer_reads_releases(kafka, published, tmp_path, capsys):
    study, topic = published
    done = subprocess.run(
        [sys.executable, "-c", READER + ANSWERS, kafka, topic],
        check=True,
        stdout=subprocess.PIPE,
        timeout=600,
    )
    read = json.loads(done.stdout)
    assert read["head"] == ours(capsys, "releases", study)["head"]
    for name, query in {"quarters": "pattern 1 1 1", "ever": "total at-least 1"}.items():
        answer = read["answers"][name]
        expected = ours(capsys, "estimate", study, name, query)
        # Ours use both releases and all periods: more certain than those of one release.
        assert 0 < expected["standard_error"] < answer["standard_error"]
        assert abs(answer["value"] - expected["value"]) < 8 * answer["standard_error"]
        assert answer["period"] == expected["period"] == LABELS[-1]
        ours(capsys, "export", study, name, tmp_path / f"{name}.csv")
        table = pyarrow.csv.read_csv(tmp_path / f"{name}.csv").select(LABELS).to_pydict()
        assert read["panels"][name] == table


def test_releases_had_several_parts(kafka, published):
    """So the plain consumer had parts to join."""
    log = KafkaLog(published[1].removesuffix(".releases"), {"bootstrap.servers": kafka})
    records = list(following(log, "releases", {0: 0}))
    log.close()
    assert b"panel/1" in {dict(record.headers)["stream-dp-part"] for record in records}


@needs("kcat")
def test_kcat_prints_the_manifests(kafka, published, capsys):
    study, topic = published
    line = re.search(r"^ *(kcat -C(?:.*\\\n)*.*)$", PAGE.read_text("utf-8"), re.MULTILINE)[1]
    line = line.replace("HOST:PORT", kafka).replace("PREFIX.releases", topic)
    done = subprocess.run(
        ["sh", "-c", line],
        env={"PATH": f"{FETCHED}{os.pathsep}{os.environ['PATH']}"},
        check=True,
        stdout=subprocess.PIPE,
        timeout=600,
    )
    raw = done.stdout.splitlines()
    manifests = [json.loads(value) for value in raw]
    hashes = [hashlib.sha256(value).hexdigest() for value in raw]
    assert [message["previous"] for message in manifests] == ["0" * 64, *hashes[:-1]]
    assert manifests[0]["type"] == "stream-dp.study"
    listed = ours(capsys, "releases", study)
    assert hashes[-1] == listed["head"]
    shown = [(message["release"], message["period"], message["rho"]) for message in manifests[1:]]
    assert shown == [(x["release"], x["period"], x["rho"]) for x in listed["releases"]]
