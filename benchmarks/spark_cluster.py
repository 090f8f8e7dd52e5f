"""Closes periods on a standalone Spark cluster whose machines share no folder: what ran where.

    python benchmarks/spark_cluster.py [PEOPLE]

As root. A master and two workers on loopback: each worker is of a user that is made for it, and no
user reads another's folder. Only Spark and Java are installed for everybody. The driver is
`spark-submit`, which ships the study file, its secrets and Python with all packages; snapshots lie
in an object store. Every manifest is compared with the one of `processes`.
"""

from __future__ import annotations

import argparse
import os
import pwd
import re
import secrets
import signal
import subprocess
import sys
import sysconfig
import tarfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "deploy" / "kafka"))

from broker import free_port
from kit.brokers import running_broker
from kit.object_store import ObjectStore, object_store
from parts import send, text

from stream_dp.services.parts.aggregate import Aggregator
from stream_dp.services.parts.engines import Processes
from stream_dp.services.releaser.deployed_releaser import releaser_of
from stream_dp.services.storage.close_orders import OrderBoard, read_manifest
from stream_dp.services.storage.deployment import Deployment

ROOT = Path(__file__).resolve().parents[1]
PERIODS, WORKERS, PATIENCE = 2, 2, 300
JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
PYTHON = f"python{sys.version_info[0]}.{sys.version_info[1]}"
UNUSED = {"__pycache__", "test", "tests", "idlelib", "tkinter", "ensurepip", "site-packages"}
UNUSED.add(Path(sysconfig.get_config_var("LIBPL")).name)  # to link with
NOT_SHIPPED = (
    "..",
    "stream_dp/",
    "__editable__",
    "pyspark/jars/",
    "pandas/tests/",
    "pyarrow/tests/",
)


def distributions(
    name: str, extras: frozenset[str], found: dict[str, metadata.Distribution]
) -> None:
    """Adds a distribution and all that it requires."""
    distribution = found[name] = metadata.distribution(name)
    named = [{"extra": extra} for extra in extras or {""}]
    for requirement in map(Requirement, distribution.requires or ()):
        marker = requirement.marker
        needed = marker is None or any(map(marker.evaluate, named))
        if needed and requirement.name not in found:
            distributions(requirement.name, frozenset(requirement.extras), found)


def pack(target: Path) -> None:
    """Writes an archive of this Python, and of stream-dp with what it requires."""
    base, packages = Path(sys.base_prefix), f"lib/{PYTHON}/site-packages"
    found = dict[str, metadata.Distribution]()
    distributions("stream-dp", frozenset({"spark", "s3", "trust"}), found)
    with tarfile.open(target, "w:gz", compresslevel=1, dereference=True) as archive:
        archive.add(base / "bin" / PYTHON, f"bin/{PYTHON}")
        for library in (base / "lib").glob("libpython*.so*"):
            archive.add(library, f"lib/{library.name}")
        archive.add(base / "lib" / PYTHON, f"lib/{PYTHON}", filter=kept)
        archive.add(ROOT / "stream_dp", f"{packages}/stream_dp", filter=sources)
        for distribution in found.values():
            for file in distribution.files or ():
                path = Path(str(distribution.locate_file(file)))
                if not str(file).startswith(NOT_SHIPPED) and path.is_file():
                    archive.add(path, f"{packages}/{file}")


def kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leaves out what no program needs, and Python's own packages."""
    return None if UNUSED & set(Path(entry.name).parts) else entry


def sources(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if entry.name.endswith("__pycache__") else entry


@dataclass(frozen=True)
class User:
    name: str
    folder: Path

    @property
    def id(self) -> int:
        return pwd.getpwnam(self.name).pw_uid

    def processes(self) -> list[int]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if process.stat().st_uid == self.id:
                    found.append(int(process.name))
            except OSError:
                continue
        return found


@contextmanager
def new_user(name: str, folder: Path) -> Iterator[User]:
    """A user with a folder of its own; in the end its processes and itself are removed."""
    options = ["--system", "--no-create-home", "--shell", "/usr/sbin/nologin"]
    subprocess.run(["useradd", *options, "--home-dir", folder, name], check=True)
    user = User(name, folder)
    try:
        folder.mkdir(mode=0o700)
        os.chown(folder, user.id, user.id)
        yield user
    finally:
        deadline = time.monotonic() + 15
        while user.processes() and time.monotonic() < deadline:
            time.sleep(0.2)
        for process in user.processes():
            os.kill(process, signal.SIGKILL)
        time.sleep(0.2)
        subprocess.run(["userdel", name], check=True)


@dataclass(frozen=True)
class Cluster:
    """A master and workers. folder: of the master. secret: that they share."""

    folder: Path
    secret: str
    port: int

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def settings(self) -> dict[str, str]:
        return {
            "spark.authenticate": "true",
            "spark.authenticate.secret": self.secret,
            "spark.network.crypto.enabled": "true",
            "spark.io.encryption.enabled": "true",
        }

    @contextmanager
    def daemon(
        self, kind: str, host: str, folder: Path, user: User | None, *words: str
    ) -> Iterator[None]:
        """One of Spark's daemons. Spark takes those of one host for those of one user."""
        settings = folder / "spark-defaults.conf"
        write(settings, self.settings())
        if user is not None:
            os.chown(settings, user.id, user.id)
        environment = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(folder),
            "SPARK_HOME": spark_home(),
            "SPARK_CONF_DIR": str(folder),
            "SPARK_LOCAL_DIRS": str(folder),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JAVA,
        }
        if java := os.environ.get("JAVA_HOME"):
            environment["JAVA_HOME"] = java
        ids = {} if user is None else {"user": user.id, "group": user.id, "extra_groups": ()}
        name = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
        address = ["--host", host, "--webui-port", "0"]
        with (
            (self.folder / f"{folder.name}.log").open("w") as log,
            subprocess.Popen(
                [f"{spark_home()}/bin/spark-class", name, *address, *words],
                stdout=log,
                stderr=log,
                env=environment,
                cwd=folder,
                start_new_session=True,
                **ids,
            ) as process,
        ):
            try:
                yield
            finally:
                process.terminate()


def spark_home() -> str:
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        sys.exit("spark_cluster: pyspark is not installed")
    return str(Path(spark.origin).parent)


def write(file: Path, settings: dict[str, str]) -> None:
    file.touch(mode=0o600)
    file.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))


def shipped(store: ObjectStore, cluster: Cluster, driver: Path) -> dict[str, str]:
    """The driver's settings. Writes what they name into its folder."""
    (driver / "study.key").touch(mode=0o600)
    (driver / "study.key").write_text(secrets.token_hex(32) + "\n")
    words = store.environment
    (driver / "aws").touch(mode=0o600)
    (driver / "aws").write_text(
        f"[default]\naws_access_key_id = {words['AWS_ACCESS_KEY_ID']}\n"
        f"aws_secret_access_key = {words['AWS_SECRET_ACCESS_KEY']}\n"
    )
    pack(driver / "environment.tar.gz")
    return {
        **cluster.settings(),
        "spark.master": cluster.master,
        "spark.files": "bench.toml,study.key,aws",
        "spark.archives": "environment.tar.gz#environment",
        "spark.pyspark.driver.python": sys.executable,
        "spark.pyspark.python": f"environment/bin/{PYTHON}",
        "spark.executorEnv.LD_LIBRARY_PATH": "environment/lib",
        "spark.executorEnv.AWS_ENDPOINT_URL": store.address,
        "spark.executorEnv.AWS_DEFAULT_REGION": words["AWS_DEFAULT_REGION"],
        "spark.executorEnv.AWS_SHARED_CREDENTIALS_FILE": "aws",
        "spark.cores.max": str(WORKERS),
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": JAVA,
        "spark.scheduler.minRegisteredResourcesRatio": "1",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": JAVA,
        "spark.local.dir": str(driver / "local"),
    }


def submit(driver: Path) -> None:
    """Answers the order at hand with Spark, as an operator does."""
    command = [f"{spark_home()}/bin/spark-submit", "--properties-file", "spark.properties"]
    application = str(ROOT / "deploy" / "spark" / "aggregate.py")
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, application, "--until-idle", "bench.toml"],
        cwd=driver,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    if done.returncode:
        sys.exit(f"spark_cluster: spark-submit: {done.stdout}{done.stderr[-6000:]}")


def compare(deployment: Deployment) -> int:
    """Compares the last answer with that of processes. Returns the number of its parts."""
    with closing(deployment.log()) as log, closing(Processes(1)) as engine:
        board = OrderBoard(log)
        board.refresh()
        order = board.last
        assert order is not None
        file = board.answer(order)
        assert file is not None
        manifest = read_manifest(deployment.snapshots.of(order.owner), file.name, file.sha256)
        assert manifest is not None
        path, study, snapshots = deployment.path, deployment.study, deployment.snapshots
        ours = Aggregator(path, study, log, snapshots, engine)._close(order, OrderBoard(log))
        assert ours == manifest
        return len(manifest.parts)


def ran(user: User) -> str:
    """What a worker's executors did, by what they wrote in its folder."""
    logs = sorted(user.folder.glob("work/app-*/*/stderr"))
    tasks = [len(re.findall(r"Running task", log.read_text())) for log in logs]
    owners = {pwd.getpwuid(log.stat().st_uid).pw_name for log in logs}
    pythons = {log.parent / "environment" / "bin" / PYTHON for log in logs}
    assert owners == {user.name}
    assert all(python.is_file() for python in pythons)
    return f"{user.folder.name}: user {user.name}, folder {user.folder}, tasks {tasks}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("people", type=int, nargs="?", default=2000)
    people = parser.parse_args().people
    if os.geteuid():
        sys.exit("spark_cluster: it makes users: run it as root")
    with ExitStack() as stack:
        server = stack.enter_context(running_broker())
        folder = Path(stack.enter_context(TemporaryDirectory()))
        folder.chmod(0o711)
        driver = folder / "driver"
        driver.mkdir(mode=0o700)
        store = stack.enter_context(object_store())
        store.create("bucket")
        os.environ.update(store.environment)
        cluster = Cluster(driver, secrets.token_hex(32), free_port())
        write(driver / "spark.properties", shipped(store, cluster, driver))
        size = (driver / "environment.tar.gz").stat().st_size >> 20
        print(f"shipped: {PYTHON} with packages, {size} MiB", flush=True)
        study = text(people, "spark", 2).replace("parts = 64", "parts = 8")
        study = study.replace("sqlite:bench.db", f"kafka://{server}/c-{uuid.uuid4().hex[:8]}")
        more = 'replication = 1\ninsecure = true\nworker = false\nsnapshots = "s3://bucket/bench"\n'
        study += f'{more}[run.encryption]\nfile = "study.key"\n'
        send(driver, people, study, PERIODS)
        deployment = Deployment.load(driver / "bench.toml")
        users = [
            stack.enter_context(new_user(f"spark-{os.getpid()}-{i}", folder / f"worker-{i}"))
            for i in range(1, WORKERS + 1)
        ]
        (driver / "master").mkdir()
        port = ["--port", str(cluster.port)]
        stack.enter_context(cluster.daemon("Master", "127.0.0.1", driver / "master", None, *port))
        for i, user in enumerate(users, 2):
            words = ["--cores", "1", "--memory", "1g", "--work-dir", "work", cluster.master]
            stack.enter_context(cluster.daemon("Worker", f"127.0.0.{i}", user.folder, user, *words))
        for number in range(1, PERIODS + 1):
            releaser = releaser_of(deployment)
            with closing(releaser.log), closing(releaser.public):
                releaser.run(until_idle=True)
            submit(driver)
            parts = compare(deployment)
            print(f"period {number}: {parts} parts, the manifest is that of processes", flush=True)
        for user in users:
            print(ran(user))


if __name__ == "__main__":
    main()
