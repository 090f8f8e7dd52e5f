"""The chart's aggregator: processes in its pod, or the driver of Spark with executors in theirs."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import yaml
from kit.charts import (
    CHART,
    DEPLOY,
    arguments,
    environment,
    helm,
    of_kind,
    rendered,
    require_valid,
    template,
)
from kit.tools import needs

from stream_dp.errors import UserError
from stream_dp.services.commands import cli
from stream_dp.services.parts.spark_engine import check_master

STORE = {"snapshots": "s3://bucket/folder", "aggregator.enabled": True}
PROCESSES = {**STORE, "aggregator.engine": "processes"}
SPARK = {**STORE, "aggregator.engine": "spark", "aggregator.image.repository": "stream-dp-spark"}
SHARED = {"aggregator.enabled": True, "state.accessMode": "ReadWriteMany"}
NAME = "poverty-stream-dp-aggregator"

pytestmark = needs("helm")


def pod_of(documents: dict[tuple[str, str], Any]) -> Any:
    return documents["Deployment", NAME]["spec"]["template"]["spec"]


def properties(documents: dict[tuple[str, str], Any]) -> dict[str, str]:
    """Spark's settings; of a name that is written twice, the last one."""
    text = documents["ConfigMap", NAME]["data"]["spark.properties"]
    return dict(line.split(" ", 1) for line in text.splitlines() if line.strip())


@pytest.mark.parametrize("values", [PROCESSES, SPARK, SHARED], ids=["processes", "spark", "shared"])
def test_what_it_renders_is_valid_and_closed(tmp_path: Path, values: dict[str, Any]) -> None:
    done = helm("lint", "--strict", str(CHART), *arguments(tmp_path, values))
    assert done.returncode == 0, done.stdout
    documents = rendered(tmp_path, values)
    for document in documents.values():
        require_valid(document, "1.31")
    pods = [pod_of(documents)]
    if values is SPARK:
        executor = yaml.safe_load(documents["ConfigMap", NAME]["data"]["executor.yaml"])
        executor["spec"]["containers"][0]["image"] = "given-by-spark"
        require_valid(executor, "1.31")
        pods.append(executor["spec"])
        assert executor["spec"]["automountServiceAccountToken"] is False
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert environment(container)["KAFKA_USER"]["secretKeyRef"]["name"] == NAME[8:]
        mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
        assert not mounts.get("state", {}).get("readOnly")
    assert not of_kind(documents, "Secret")


@pytest.mark.parametrize("values", [PROCESSES, SPARK])
def test_the_releaser_and_the_aggregator_have_one_engine(
    tmp_path: Path, values: dict[str, Any]
) -> None:
    documents = rendered(tmp_path, values)
    (releaser,) = of_kind(documents, "StatefulSet")
    for pod in (releaser["spec"]["template"]["spec"], pod_of(documents)):
        assert environment(pod["containers"][0])["STREAM_DP_ENGINE"] == values["aggregator.engine"]
    assert "STREAM_DP_ENGINE" not in str(rendered(tmp_path))


def test_processes_need_no_rights(tmp_path: Path) -> None:
    documents = rendered(tmp_path, PROCESSES)
    assert {kind for kind, name in documents if name == NAME} == {"Deployment", "NetworkPolicy"}
    (container,) = pod_of(documents)["containers"]
    assert container["command"] == ["again", "stream-dp"]
    options = cli._parser(["aggregate"]).parse_args(container["args"])
    assert options.json
    assert str(options.study) == "/study/study.toml"


def test_spark_is_submitted_with_authentication_and_encryption(tmp_path: Path) -> None:
    """Whatever else is set: they are written last, and what is written last holds."""
    values = {**SPARK, "aggregator.settings": {"spark.eventLog.enabled": "true", "spark.x": "y"}}
    settings = properties(rendered(tmp_path, values))
    check_master(settings)
    assert settings["spark.x"] == "y"
    with pytest.raises(UserError):
        check_master({**settings, "spark.authenticate": "false"})
    documents = rendered(tmp_path, SPARK)
    (container,) = pod_of(documents)["containers"]
    assert container["command"] == ["again", "spark-submit"]
    assert container["args"][-3:] == [
        *("/opt/stream-dp/spark/aggregate.py", "--json", "/study/study.toml")
    ]
    image = (DEPLOY / "Containerfile").read_text()
    assert "COPY deploy/spark/aggregate.py /opt/stream-dp/spark/" in image
    executor = yaml.safe_load(documents["ConfigMap", NAME]["data"]["executor.yaml"])
    (command,) = executor["spec"]["containers"][0]["command"]
    assert f"deploy/spark/executor.py /usr/local/bin/{command}" in image
    host = documents["Service", NAME]["metadata"]["name"]
    assert settings["spark.driver.host"] == f"{host}.default.svc"


def test_the_driver_may_touch_pods_of_its_namespace_alone(tmp_path: Path) -> None:
    documents = rendered(tmp_path, SPARK)
    assert not of_kind(documents, "ClusterRole")
    (role,) = of_kind(documents, "Role")
    resources = {name for rule in role["rules"] for name in rule["resources"]}
    assert "secrets" not in resources
    pod = pod_of(documents)
    assert pod["serviceAccountName"] == NAME
    assert pod["automountServiceAccountToken"] is True
    (binding,) = of_kind(documents, "RoleBinding")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": NAME, "namespace": "default"}]
    policies = {
        d["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"]: d["spec"]
        for d in of_kind(documents, "NetworkPolicy")
    }
    for component in ("aggregator", "executor"):
        (rule,) = policies[component]["ingress"]
        peers = {
            peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
            for peer in rule["from"]
        }
        assert peers == {"aggregator", "executor"}
    assert not policies["releaser"].get("ingress")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"aggregator.enabled": True}, "aggregator: it writes the releaser's snapshots"),
        ({**STORE, "aggregator.engine": "here"}, "engine"),
        ({**STORE, "aggregator.executors.memory": "2 GB"}, "memory"),
        ({**STORE, "aggregator.secret": "x y"}, "secret"),
    ],
)
def test_wrong_values_are_refused(tmp_path: Path, values: dict[str, Any], words: str) -> None:
    done = template(tmp_path, values)
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr


def test_an_executors_command_is_what_spark_says() -> None:
    spec = importlib.util.spec_from_file_location("executor", DEPLOY / "spark" / "executor.py")
    assert spec is not None
    assert spec.loader is not None
    executor = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(executor)
    environment = {place: place.lower() for place in executor._WORDS.values()}
    options = {f"SPARK_JAVA_OPT_{i}": f"-D{i}" for i in range(11)}
    words = executor.command({**environment, **options, "SPARK_EXECUTOR_MEMORY": "2g"}, Path("/j"))
    assert words[:14] == ["java", *(f"-D{i}" for i in range(11)), "-Xms2g", "-Xmx2g"]
    assert words[14:17] == ["-cp", "/j/*", executor._MAIN]
    assert dict(zip(words[17::2], words[18::2], strict=True)) == {
        name: environment[place] for name, place in executor._WORDS.items()
    }
