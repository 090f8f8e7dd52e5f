"""What is deployed agrees with the program: exit codes, metrics, names, waiting times."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from configparser import RawConfigParser
from pathlib import Path
from shutil import which

import pytest
import yaml
from kit.households import TEXT as HOMES
from kit.studies import SCHEDULE, toml_lines

from stream_dp.log.kafka_clients import TIMEOUT
from stream_dp.log.kafka_settings import FILE_VARIABLE
from stream_dp.services.commands import cli
from stream_dp.services.monitor.public_front import READY
from stream_dp.services.releaser.metrics_listeners import ConfidentialMetrics, PublicMetrics
from stream_dp.services.releaser.releaser_facts import Facts, InputFacts
from stream_dp.study import Run
from stream_dp.study.topics import ESTIMATES, RELEASES, topics
from stream_dp.studyfile import load_study

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
DOCS = DEPLOY.parent / "docs"
GRACE = 90


UNITS = (
    *("stream-dp.service", "stream-dp-worker.service", "stream-dp-monitor.service"),
    "stream-dp-aggregator.service",
)


def unit(name: str) -> dict[str, str]:
    parser = RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    assert parser.read(DEPLOY / name)
    return dict(parser["Service"])


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_starts_again_only_what_that_can_cure(name: str) -> None:
    settings = unit(name)
    final = {str(code) for code in (cli.BAD_INPUT, cli.FENCED, cli.INCONSISTENT)}
    assert set(settings["RestartPreventExitStatus"].split()) == final
    assert str(cli.UNAVAILABLE) not in final
    assert settings["Restart"] == "on-failure"


def test_the_releaser_has_time_to_end() -> None:
    assert int(unit(UNITS[0])["TimeoutStopSec"]) > GRACE


def test_the_worker_is_hardened_like_the_releaser() -> None:
    """But that JAX reads /proc, that snapshots are not its own, and that it may be killed."""
    releaser, worker = map(unit, UNITS[:2])
    differ = {k for k in {*releaser, *worker} if releaser.get(k) != worker.get(k)}
    assert differ == {
        "Environment",
        "EnvironmentFile",
        "LoadCredential",
        "ExecStart",
        "TimeoutStopSec",
        "ReadOnlyPaths",
        "ProcSubset",
    }
    state = f"/var/lib/{worker['StateDirectory']}"
    assert worker["ReadOnlyPaths"] == f"-{state}/snapshots"
    text = (DEPLOY / UNITS[1]).read_text()
    assert f'snapshots = "{state}/snapshots"' in text
    assert "/run/credentials/stream-dp-worker.service/kafka-password" in text
    assert worker["LoadCredential"].startswith("kafka-password:")


def test_the_monitor_is_hardened_like_the_releaser_and_cannot_see_its_files() -> None:
    releaser, monitor = unit(UNITS[0]), unit(UNITS[2])
    assert monitor["User"] != releaser["User"]
    state = f"/var/lib/{releaser['StateDirectory']}"
    assert f"-{state}" in monitor["InaccessiblePaths"].split()
    hardened = {"NoNewPrivileges", "CapabilityBoundingSet", "SystemCallFilter"}
    hardened |= {k for k in releaser if k.startswith(("Protect", "Private", "Restrict"))}
    for key in hardened:
        assert monitor[key] == releaser[key], key


def test_a_gpu_opens_devices_and_nothing_else() -> None:
    settings = unit("stream-dp-worker-gpu.conf")
    assert settings == {
        "PrivateDevices": "no",
        "DevicePolicy": "closed",
        "DeviceAllow": "char-nvidia* rw",
    }
    assert "stream-dp-worker-gpu.conf" in (DEPLOY / UNITS[1]).read_text()


@pytest.mark.parametrize("name", UNITS)
def test_units_give_commands_that_exist(name: str) -> None:
    program, *arguments = unit(name)["ExecStart"].split()
    assert program == "/opt/stream-dp/bin/stream-dp"
    options = cli._parser().parse_args(arguments)
    assert options.command == arguments[0]


def test_python_is_never_started_with_the_current_folder_on_its_path() -> None:
    """What lies in a state folder is no module."""
    text = (DEPLOY / "compose.yaml").read_text()
    starts = re.findall(r"- python\n\s+- (\S+)", text)
    assert starts == ["-P"]
    for path in (*DEPLOY.glob("*.service"), *DEPLOY.glob("*.sh"), DEPLOY / "Containerfile"):
        started = re.findall(r"python3? (-\S+) (\S+)", path.read_text())
        assert started in ([], [("-m", "venv")]), path


@pytest.mark.skipif(which("systemd-analyze") is None, reason="systemd is not there")
def test_units_are_understood(tmp_path: Path) -> None:
    """Where the program is not, that is all there is to say."""
    for name in UNITS:
        text = (DEPLOY / name).read_text()
        text = re.sub("ExecStart=[^ ]+", "ExecStart=/bin/true", text)
        text = re.sub("Documentation=.*", "", text)
        (tmp_path / name).write_text(text)
    drop = tmp_path / f"{UNITS[1]}.d"
    drop.mkdir()
    (drop / "gpu.conf").write_text((DEPLOY / "stream-dp-worker-gpu.conf").read_text())
    command = ["systemd-analyze", "verify", *(str(tmp_path / name) for name in UNITS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert [line for line in done.stderr.splitlines() if "stream-dp" in line] == []


def test_a_cluster_that_is_away_is_worth_another_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "study.toml"
    assert cli.main(["new", str(path)]) == 0
    capsys.readouterr()
    monkeypatch.setattr("stream_dp.log.kafka_clients.TIMEOUT", 0.5)
    monkeypatch.setenv("STREAM_DP_LOG", "kafka://127.0.0.1:1/x")
    monkeypatch.setenv("STREAM_DP_INSECURE", "true")
    assert cli.main(["close", str(path), "2026-01"]) == cli.UNAVAILABLE
    out, error = capsys.readouterr()
    assert (out, error.count("\n")) == ("", 1)
    assert error.startswith("stream-dp: kafka: the cluster does not answer: ")


def test_the_grace_holds_a_commit_and_a_flush() -> None:
    assert 2 * TIMEOUT + TIMEOUT <= GRACE
    compose = (DEPLOY / "compose.yaml").read_text()
    (wait,) = re.findall(r"\[run, --json.*?stop_grace_period: (\d+)s", compose, re.DOTALL)
    assert int(wait) > GRACE
    assert f"within {GRACE} s" in (DOCS / "reference" / "exit-codes.md").read_text()


def test_metrics_that_are_named_exist(tmp_path: Path) -> None:
    """In rules, pages and whatever else is deployed."""
    path = tmp_path / "study.toml"
    assert cli.main(["new", str(path)]) == 0
    path.write_text(path.read_text().replace('close = "marker"', toml_lines(SCHEDULE)))
    facts = Facts(load_study(path)[0])
    facts.publish(1, facts.study.rho, 1.0)
    facts.released = facts.closed_accepted = 0
    facts.input = InputFacts()
    facts.answer()
    facts.open_period = 1
    facts.missing = {"aggregator": False}
    path.write_text(HOMES)
    batches = Facts(load_study(path)[0])
    batches.job("a job", "failed", 1)
    batches.job("another job", "waiting", 1)
    samples = [
        sample
        for collector in (
            PublicMetrics(facts),
            ConfidentialMetrics(facts),
            ConfidentialMetrics(batches),
        )
        for metric in collector.collect()
        for sample in metric.samples
    ]
    exported = {s.name for s in samples} | {READY}
    rules = set(re.findall(r"stream_dp_\w+", (DEPLOY / "prometheus" / "alerts.yml").read_text()))
    assert {"stream_dp_ready", "stream_dp_cells_rejected_total", "stream_dp_job"} <= rules
    for file in DEPLOY.rglob("*"):
        if file.is_file() and file.suffix != ".pyc":
            named = set(re.findall(r"\bstream_dp_[a-z_]+", file.read_text()))
            assert named <= exported, file
    assert {s.labels["state"] for s in samples if s.name == "stream_dp_job"} == {
        "failed",
        "waiting",
    }
    reasons = {s.labels["reason"] for s in samples if s.name == "stream_dp_cells_rejected_total"}
    assert "late" in reasons
    assert all("study" in s.labels for s in samples)


def test_access_lists_name_every_topic_and_role() -> None:
    text = (DEPLOY / "kafka" / "acls.sh").read_text()
    private, public = topics(1, batches=True, parts=True, estimates=True)
    assert set(re.findall(r"\$private\.([\w-]+)", text)) == {*private, "releaser", "reader"}
    assert set(re.findall(r"\$public\.([\w-]+)", text)) == {*public, "publisher", "reader"}
    assert set(public) == {RELEASES, ESTIMATES}


def test_compose_overrides_what_a_study_file_has() -> None:
    text = (DEPLOY / "compose.yaml").read_text() + (DEPLOY / "stream-dp.service").read_text()
    named = {name.lower() for name in re.findall(r"STREAM_DP_([A-Z_]+)", text)}
    assert {"log", "public", "snapshots", "listen", "listen_public"} <= named
    assert {"listen_token", "listen_hosts"} <= named
    # An analyst's process, as the monitor is, has no study file: its settings are in a file alone.
    assert named - {FILE_VARIABLE.removeprefix("STREAM_DP_").lower()} <= set(Run.model_fields)


def service(name: str) -> str:
    """The lines of a service in compose.yaml."""
    text = (DEPLOY / "compose.yaml").read_text().split("\nservices:\n")[1].split("\nnetworks:")[0]
    section = re.search(rf"^  {name}:.*?(?=^  [\w-]+:|\Z)", text, re.MULTILINE | re.DOTALL)
    assert section, name
    return section[0]


def test_a_worker_starts_beside_the_releaser() -> None:
    worker, gpu = service("worker"), service("worker-gpu")
    assert "command: [worker, /study/study.toml]" in worker
    assert "entrypoint: [again, stream-dp]" in worker
    assert "state:/state:ro" in worker
    assert "ports:" not in worker
    assert "networks: [inside]" in worker
    assert "KAFKA_USER: worker" in worker
    assert "<<: *worker" in gpu
    assert "profiles: [gpu]" in gpu
    assert "capabilities: [gpu]" in gpu
    assert "gpu" not in worker
    for name in ("kafka", "access", "topics", "releaser", "worker", "prometheus"):
        assert "profiles:" not in service(name)
    assert "BATCHES: ${BATCHES:-yes}" in service("access")
    releaser, unit_of_worker = ((DEPLOY / name).read_text() for name in UNITS[:2])
    assert re.search(rf"^Wants=.* {UNITS[1]}$", releaser, re.MULTILINE)
    assert "\nConditionPathExists=/etc/stream-dp/worker.toml\n" in unit_of_worker


def test_compose_has_a_secret_for_each_user_that_the_broker_makes() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    start = (DEPLOY / "kafka" / "start.sh").read_text()
    (users,) = re.findall(r"for user in (.*); do", start)
    (created,) = re.findall(r"for user in (.*); do", text)
    (given,) = re.findall(r"secrets: \[(.*)\]", service("kafka"))
    assert set(users.split()) == set(created.split()) == set(given.split(", "))
    for user in users.split():
        assert f"  {user}: {{file: ./secrets/{user}}}\n" in text


def test_prometheus_has_the_token_of_the_releasers_listener() -> None:
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    (job,) = scraped["scrape_configs"]
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    path = services["releaser"]["environment"]["STREAM_DP_LISTEN_TOKEN"]
    assert job["authorization"] == {"credentials_file": path}
    assert path == "/run/secrets/listen-token"
    assert {"source": "listen-token", "target": "listen-token"} in services["releaser"]["secrets"]
    assert "listen-token" in services["prometheus"]["secrets"]
    settings = unit(UNITS[0])
    place = settings["Environment"].removeprefix("STREAM_DP_LISTEN_TOKEN=")
    assert place == f"/run/credentials/{UNITS[0]}/listen-token"
    assert "LoadCredential=listen-token:" in (DEPLOY / UNITS[0]).read_text()


def test_images_install_extras_that_exist() -> None:
    """The releaser's has no JAX; a worker's has, by a build argument. Each extra has a lock."""
    text = (DEPLOY / "Containerfile").read_text()
    (always,) = re.findall(r"set -- (\w+) \$\(echo", text)
    assert always != "batch"
    asked = re.findall(r"EXTRAS[=:] ?((?:\w+,)*\w+)", text + (DEPLOY / "compose.yaml").read_text())
    assert asked
    for extra in {always, *",".join(asked).split(",")}:
        assert (DEPLOY.parent / "requirements" / f"{extra}.lock").exists(), extra
    assert re.search(r"^ARG EXTRAS=$", text, re.MULTILINE)
    assert "EXTRAS" not in service("releaser")


def test_the_image_installs_what_the_locks_name(tmp_path: Path) -> None:
    """The commands of the file, as its shell runs them."""
    text = (DEPLOY / "Containerfile").read_text()
    (commands,) = re.findall(r"^RUN (set -- (?:.*\\\n)*.*)$", text, re.MULTILINE)
    pip = tmp_path / "pip"
    pip.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n')
    pip.chmod(0o755)
    script = commands.replace("/opt/stream-dp/bin/pip", str(pip))
    environment = {"EXTRAS": "batch,s3", "PACKAGES": "jax[cuda12] more", "PATH": os.environ["PATH"]}
    subprocess.run(["sh", "-efc", script], cwd=tmp_path, env=environment, check=True)
    locked = " ".join(f"--requirement requirements/{e}.lock" for e in ("monitor", "batch", "s3"))
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"install --no-cache-dir --require-hashes --no-build-isolation {locked}",
        "install --no-cache-dir --no-deps --no-build-isolation .",
        "freeze --exclude stream-dp",  # its output bounds the next
        "install --no-cache-dir --constraint installed jax[cuda12] more",
    ]


def test_images_of_others_are_named_by_digest(tmp_path: Path) -> None:
    """No tag alone is run or built on, and no digest has a default: digests.sh asks for all."""
    compose = (DEPLOY / "compose.yaml").read_text()
    images = re.findall(r"^ *image: (\S.*)$", compose, re.MULTILINE)
    others = [image for image in images if not image.startswith("stream-dp")]
    bases = re.findall(r"^FROM (\S+:\S+)", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)
    assert others
    assert bases
    named = {}
    for image in others + bases:
        found = re.fullmatch(r"(\S+:\S+)@\$\{(\w+_DIGEST)(?::\?run digests.sh)?\}", image)
        assert found, image
        named[found[2]] = found[1]
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\nfor image do :; done\necho "sha256:of-$image"\n')
    docker.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [str(DEPLOY / "digests.sh")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert dict(line.split("=") for line in done.stdout.splitlines()) == {
        name: f"sha256:of-{image}" for name, image in named.items()
    }
    docker.write_text("#!/bin/sh\nexit 1\n")
    assert subprocess.run(command, env=environment, capture_output=True).returncode


def test_operations_name_files_and_variables_that_exist() -> None:
    text = (DOCS / "how-to" / "operations.md").read_text()
    files = set(
        re.findall(r"`((?:kafka|prometheus)/[\w.]+|[\w-]+\.(?:service|conf|sh|yaml))", text)
    )
    assert {"stream-dp-worker.service", "stream-dp-worker-gpu.conf", "compose.yaml"} <= files
    for name in files:
        assert (DEPLOY / name).exists() or (DEPLOY / "kafka" / name).exists(), name
    extra = (DEPLOY.parent / "stream_dp" / "batch" / "jax_extra.py").read_text()
    assert 'setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")' in extra
    assert "`XLA_PYTHON_CLIENT_PREALLOCATE=false`" in text


def test_the_image_is_built_with_every_file_that_an_install_has() -> None:
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())
    installed = project["tool"]["setuptools"]["data-files"].values()
    needed = {pattern.split("/")[0] for patterns in installed for pattern in patterns}
    before, _, _ = (DEPLOY / "Containerfile").read_text().partition("/bin/pip install")
    copied = {line.split()[1] for line in before.splitlines() if line.startswith("COPY ")}
    kept = (DEPLOY / "Containerfile.dockerignore").read_text().split()
    assert needed == {"deploy"}
    assert needed <= copied
    assert kept.index("deploy/secrets") > kept.index("!deploy")  # the last that fits counts


def test_the_image_holds_what_it_copies_and_no_secret() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    assert re.search(r"^USER 10001", text, re.MULTILINE)
    kept = (DEPLOY / "Containerfile.dockerignore").read_text().split()
    assert kept[0] == "*"
    for name in kept[1:]:
        if name.startswith("!"):
            assert name[1:] in text
    assert "secret" not in re.sub(r"#.*", "", text).lower()
