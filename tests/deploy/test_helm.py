"""The chart: what it renders is valid and closed, and agrees with the image and the program."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from kit.charts import (
    CHART,
    DEPLOY,
    REQUIRED,
    arguments,
    environment,
    helm,
    of_kind,
    pods,
    rendered,
    require_valid,
    template,
)
from kit.tools import needs

from stream_dp import __version__
from stream_dp.services.commands import cli

EVERYTHING = {
    "worker.gpu.enabled": True,
    "worker.gpu.runtimeClassName": "nvidia",
    "snapshots": "s3://bucket/folder",
    "publicMetrics.enabled": True,
    "serviceMonitor.enabled": True,
    "prometheusRule.enabled": True,
    "dashboards.enabled": True,
}
SHARED = {"state.accessMode": "ReadWriteMany"}
VERSIONS = ("1.27.0", "1.31.0", "1.35.0")
# Of operators that the cluster may have; their schemas are their own.
CUSTOM = {"ServiceMonitor", "PrometheusRule"}

pytestmark = needs("helm")


@pytest.mark.parametrize("values", [{}, EVERYTHING, SHARED], ids=["plain", "everything", "shared"])
def test_the_chart_is_linted_and_what_it_renders_is_valid(
    tmp_path: Path, values: dict[str, Any]
) -> None:
    done = helm("lint", "--strict", str(CHART), *arguments(tmp_path, values))
    assert done.returncode == 0, done.stdout
    for version in VERSIONS:
        for (kind, _), document in rendered(tmp_path, values, version).items():
            if kind not in CUSTOM:
                require_valid(document, version.rpartition(".")[0])


def test_an_image_is_named_by_its_digest_where_one_is_given(tmp_path: Path) -> None:
    (plain,) = of_kind(rendered(tmp_path), "StatefulSet")
    (container,) = plain["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"stream-dp:{__version__}"
    digest = f"sha256:{'5' * 64}"
    named = {"image.digest": digest, "image.tag": "other", "worker.image.digest": digest}
    documents = rendered(tmp_path, {**EVERYTHING, **named})
    images = {
        container["image"]
        for kind in ("StatefulSet", "Deployment")
        for document in of_kind(documents, kind)
        for container in document["spec"]["template"]["spec"]["containers"]
    }
    assert images == {f"stream-dp@{digest}", f"stream-dp-worker@{digest}"}
    assert template(tmp_path, {"image.digest": "sha256:short"}).returncode


def test_there_is_never_a_second_releaser(tmp_path: Path) -> None:
    documents = rendered(tmp_path, EVERYTHING)
    (releaser,) = of_kind(documents, "StatefulSet")
    assert releaser["spec"]["replicas"] == 1
    # One pod ends before its successor starts: the default of a StatefulSet.
    assert "updateStrategy" not in releaser["spec"]
    assert "replicas" not in (CHART / "values.yaml").read_text()
    assert not of_kind(documents, "HorizontalPodAutoscaler")
    (worker,) = of_kind(documents, "Deployment")
    assert worker["spec"]["strategy"] == {"type": "Recreate"}


def test_pods_have_no_rights_that_they_do_not_need(tmp_path: Path) -> None:
    image = (DEPLOY / "Containerfile").read_text()
    (user,) = set(map(int, re.findall(r"^USER (\d+):\1$", image, re.MULTILINE)))
    for pod in pods(rendered(tmp_path, SHARED)):
        assert pod["automountServiceAccountToken"] is False
        context = pod["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["runAsUser"] == context["runAsGroup"] == context["fsGroup"] == user
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "privileged": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        writable = {m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")}
        assert writable <= {"/tmp", "/state"}
        assert not [volume for volume in pod["volumes"] if "hostPath" in volume]
        assert container["resources"]["limits"].keys() >= {"memory", "ephemeral-storage"}


def test_the_worker_does_not_write_the_releasers_snapshots(tmp_path: Path) -> None:
    documents = rendered(tmp_path, SHARED)
    (worker,) = (d["spec"]["template"]["spec"] for d in of_kind(documents, "Deployment"))
    (state,) = (v for v in worker["volumes"] if v["name"] == "state")
    (releaser,) = of_kind(documents, "StatefulSet")
    claim = f"state-{releaser['metadata']['name']}-0"
    assert state["persistentVolumeClaim"] == {"claimName": claim, "readOnly": True}
    (mount,) = (m for m in worker["containers"][0]["volumeMounts"] if m["name"] == "state")
    assert mount["readOnly"] is True
    (template,) = releaser["spec"]["volumeClaimTemplates"]
    assert template["spec"]["accessModes"] == ["ReadWriteMany"]


def test_an_object_store_needs_no_volume(tmp_path: Path) -> None:
    documents = rendered(tmp_path, EVERYTHING)
    (releaser,) = of_kind(documents, "StatefulSet")
    assert "volumeClaimTemplates" not in releaser["spec"]
    for pod in pods(documents):
        assert not [v for v in pod["volumes"] if "persistentVolumeClaim" in v]
        (container,) = pod["containers"]
        assert environment(container)["STREAM_DP_SNAPSHOTS"] == "s3://bucket/folder"


def test_secrets_are_named_and_never_written(tmp_path: Path) -> None:
    documents = rendered(tmp_path, {**EVERYTHING, "releaser.secret": "one", "worker.secret": "two"})
    assert not of_kind(documents, "Secret")
    for pod, name in zip(pods(documents), ("one", "two"), strict=True):
        (secrets,) = (v["secret"] for v in pod["volumes"] if v["name"] == "secrets")
        assert secrets == {"secretName": name, "defaultMode": 0o440}
        (container,) = pod["containers"]
        user = environment(container)["KAFKA_USER"]
        assert user == {"secretKeyRef": {"name": name, "key": "username"}}
        mounts = {m["name"]: m for m in container["volumeMounts"]}
        # Where compose.yaml has it, so that one study file serves both.
        assert f'"{mounts["secrets"]["mountPath"]}/password"' in (CHART / "README.md").read_text()
        assert '"/run/secrets/password"' in (DEPLOY / "compose.yaml").read_text()


def test_only_the_charts_own_variables_override_a_study_file(tmp_path: Path) -> None:
    """Of a Service that is called stream-dp a cluster would add STREAM_DP_PORT and others."""
    from stream_dp.study import Run

    for pod in pods(rendered(tmp_path, EVERYTHING)):
        assert pod["enableServiceLinks"] is False
        names = environment(pod["containers"][0])
        overrides = {n.removeprefix("STREAM_DP_").lower() for n in names if "STREAM_DP" in n}
        assert overrides <= Run.model_fields.keys()
        assert overrides >= {"log", "public", "snapshots"}


def test_commands_and_codes_are_those_of_the_program(tmp_path: Path) -> None:
    documents = rendered(tmp_path, EVERYTHING)
    containers = [pod["containers"][0] for pod in pods(documents)]
    for container in containers:
        assert container["command"] == ["again", "stream-dp"]
        options = cli._parser().parse_args(container["args"])
        assert options.json
        assert str(options.study) == "/study/study.toml"
        mark = environment(container)["AGAIN_HOLD"]
        assert mark.startswith("/tmp/")
    releaser, worker = containers
    script = releaser["livenessProbe"]["exec"]["command"][-1]
    assert f"[ -e {mark} ]" in script
    assert shlex.split(script)[:7] == ["[", "-e", mark, "]", "||", "exec", "python"]
    assert "/healthz" in script
    assert releaser["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "confidential"}
    assert not {"ports", "readinessProbe", "livenessProbe"} & worker.keys()
    ports = {port["name"]: port["containerPort"] for port in releaser["ports"]}
    assert environment(releaser)["STREAM_DP_LISTEN"] == f"0.0.0.0:{ports['confidential']}"
    assert environment(releaser)["STREAM_DP_LISTEN_PUBLIC"] == f"0.0.0.0:{ports['public']}"
    graces = [pod["terminationGracePeriodSeconds"] for pod in pods(documents)]
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    stops = [compose[name]["stop_grace_period"] for name in ("releaser", "worker")]
    assert [f"{grace}s" for grace in graces] == stops


@pytest.mark.parametrize(
    ("there", "code"), [(True, 0), (False, 1)], ids=["waits for a person", "nobody answers"]
)
def test_the_probe_leaves_alone_what_waits_for_a_person(
    tmp_path: Path, there: bool, code: int
) -> None:
    (releaser, *_) = pods(rendered(tmp_path))
    *shell, script = releaser["containers"][0]["livenessProbe"]["exec"]["command"]
    mark = tmp_path / "held"
    if there:
        mark.touch()
    script = (
        script.replace("/tmp/held", str(mark)).replace("9464", "1").replace("python", "python3")
    )
    assert subprocess.run([*shell, script], capture_output=True, timeout=300).returncode == code


def test_a_gpu_is_asked_for_only_where_it_is_wanted(tmp_path: Path) -> None:
    for wanted in (True, False):
        values = {**EVERYTHING, "worker.gpu.enabled": wanted, "worker.gpu.count": 2}
        (worker,) = (
            d["spec"]["template"]["spec"] for d in of_kind(rendered(tmp_path, values), "Deployment")
        )
        (container,) = worker["containers"]
        limits = container["resources"]["limits"]
        assert limits["memory"] == "16Gi"
        assert limits.get("nvidia.com/gpu") == (2 if wanted else None)
        assert ("runtimeClassName" in worker) == wanted
        assert (environment(container).get("JAX_PLATFORMS") == "cuda") == wanted


def test_without_a_worker_there_is_nothing_of_it(tmp_path: Path) -> None:
    documents = rendered(tmp_path, {"worker.enabled": False})
    assert {kind for kind, _ in documents} == {
        "ConfigMap",
        "NetworkPolicy",
        "Service",
        "StatefulSet",
    }
    assert not [name for _, name in documents if "worker" in name]


def test_a_worker_runs_by_default_on_the_node_of_the_releasers_volume(tmp_path: Path) -> None:
    documents = rendered(tmp_path)
    (releaser,) = of_kind(documents, "StatefulSet")
    (worker,) = of_kind(documents, "Deployment")
    near = worker["spec"]["template"]["spec"]["affinity"]["podAffinity"]
    (term,) = near["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    labels = releaser["spec"]["template"]["metadata"]["labels"]
    assert term["labelSelector"]["matchLabels"].items() <= labels.items()
    assert term["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == "releaser"
    elsewhere = of_kind(rendered(tmp_path, SHARED), "Deployment")
    assert "affinity" not in elsewhere[0]["spec"]["template"]["spec"]


# Networks


def policies(tmp_path: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    documents = of_kind(rendered(tmp_path, values), "NetworkPolicy")
    return {d["metadata"]["labels"]["app.kubernetes.io/component"]: d["spec"] for d in documents}


def test_nothing_comes_in_by_default(tmp_path: Path) -> None:
    for policy in policies(tmp_path, {}).values():
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        assert not policy.get("ingress")


def test_an_empty_list_of_peers_opens_no_confidential_port(tmp_path: Path) -> None:
    """To Kubernetes a rule without peers is one for everybody."""
    values = {**EVERYTHING, "networkPolicy.monitoringPeers": []}
    rules = policies(tmp_path, values)
    assert rules.keys() == {"releaser", "worker"}
    assert rules["releaser"]["ingress"] == [{"ports": [{"port": "public", "protocol": "TCP"}]}]
    assert "ingress" not in rules["worker"]
    peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    rules = policies(tmp_path, {"networkPolicy.monitoringPeers": peers})
    assert rules["releaser"]["ingress"] == [
        {"from": peers, "ports": [{"port": "confidential", "protocol": "TCP"}]}
    ]


def test_what_goes_out_is_names_kafka_and_what_is_declared(tmp_path: Path) -> None:
    peers = [{"podSelector": {"matchLabels": {"app": "kafka"}}}]
    store = {"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}], "ports": [{"port": 443}]}
    values = {
        **SHARED,
        "networkPolicy.kafkaPorts": [9092, 9094],
        "networkPolicy.kafkaPeers": peers,
        "networkPolicy.egress": [store],
    }
    for policy in policies(tmp_path, values).values():
        names, kafka, more = policy["egress"]
        assert {port["port"] for port in names["ports"]} == {53}
        assert [port["port"] for port in kafka["ports"]] == [9092, 9094]
        assert kafka["to"] == peers
        assert more == store


def test_policies_select_the_pods(tmp_path: Path) -> None:
    documents = rendered(tmp_path, EVERYTHING)
    labels = {
        d["metadata"]["labels"]["app.kubernetes.io/component"]: d["spec"]["template"]["metadata"][
            "labels"
        ]
        for d in documents.values()
        if d["kind"] in {"StatefulSet", "Deployment"}
    }
    for document in of_kind(documents, "NetworkPolicy"):
        component = document["metadata"]["labels"]["app.kubernetes.io/component"]
        selected = document["spec"]["podSelector"]["matchLabels"]
        assert selected.items() <= labels[component].items()
        assert not any(
            selected.items() <= labels[other].items() for other in labels.keys() - {component}
        )
    for document in of_kind(documents, "Service"):
        assert document["spec"]["selector"].items() <= labels["releaser"].items()
        (port,) = document["spec"]["ports"]
        assert (port["name"] == "public") == document["metadata"]["name"].endswith("-public")


# Monitoring


def test_alerts_and_dashboards_are_the_shipped_ones(tmp_path: Path) -> None:
    documents = rendered(tmp_path, EVERYTHING)
    (rule,) = of_kind(documents, "PrometheusRule")
    shipped = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
    assert rule["spec"] == shipped
    boards = documents["ConfigMap", "poverty-stream-dp-dashboards"]
    assert boards["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert {name: json.loads(text) for name, text in boards["data"].items()} == {
        f"stream-dp-{path.name}": json.loads(path.read_text())
        for path in (DEPLOY / "grafana").glob("*.json")
    }


def test_a_service_monitor_finds_the_confidential_port_under_the_name_of_the_alerts(
    tmp_path: Path,
) -> None:
    documents = rendered(tmp_path, EVERYTHING)
    (monitor,) = of_kind(documents, "ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"]
    (service,) = (
        d
        for d in of_kind(documents, "Service")
        if wanted.items() <= d["metadata"]["labels"].items()
    )
    assert [port["name"] for port in service["spec"]["ports"]] == ["confidential"]
    (endpoint,) = monitor["spec"]["endpoints"]
    (pod,) = (d["spec"]["template"]["spec"] for d in of_kind(documents, "StatefulSet"))
    (secret,) = (v["secret"]["secretName"] for v in pod["volumes"] if v["name"] == "secrets")
    given = environment(pod["containers"][0])
    assert endpoint["authorization"]["credentials"] == {"name": secret, "key": "listen-token"}
    assert given["STREAM_DP_LISTEN_TOKEN"] == "/run/secrets/listen-token"
    assert service["metadata"]["name"] in given["STREAM_DP_LISTEN_HOSTS"].split(",")
    job = service["metadata"]["labels"][monitor["spec"]["jobLabel"]]
    assert f'up{{job="{job}"}}' in (DEPLOY / "prometheus" / "alerts.yml").read_text()


# Refusals


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"log": ""}, "log: write kafka://"),
        ({"public": ""}, "public: write kafka://"),
        ({"log": "sqlite:study.db"}, "log"),
        ({"study.configMap": "mine", "study.text": "x"}, "text or configMap, not both"),
        ({"state.accessMode": "ReadWriteOncePod"}, "worker: it reads the releaser's snapshots"),
        ({"releaser.replicas": 2}, "replicas"),
        ({"networkpolicy.enabled": False}, "networkpolicy"),
        ({"networkPolicy.enabled": "no"}, "networkPolicy"),
        ({"networkPolicy.kafkaPorts": []}, "kafkaPorts"),
        ({"networkPolicy.kafkaPorts": [70000]}, "kafkaPorts"),
        ({"snapshots": "snapshots"}, "snapshots"),
        ({"snapshots": "/run/secrets/x"}, "snapshots"),
        ({"releaser.secret": ""}, "secret"),
        ({"releaser.secret": "A secret\n- name: x"}, "secret"),
        ({"state.accessMode": "ReadOnlyMany"}, "accessMode"),
        ({"worker.gpu.count": 0}, "count"),
    ],
)
def test_wrong_values_are_refused_by_their_names(
    tmp_path: Path, values: dict[str, Any], words: str
) -> None:
    done = template(tmp_path, values)
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr


def test_a_study_is_required_and_stays_as_it_is(tmp_path: Path) -> None:
    words = [f"--set={name}={value}" for name, value in REQUIRED.items()]
    done = helm("template", "x", str(CHART), "--kube-version", "1.31.0", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert "study.text" in done.stderr
    documents = rendered(tmp_path)
    text = (tmp_path / "study.toml").read_text()
    assert documents["ConfigMap", "poverty-stream-dp-study"]["data"] == {"study.toml": text}
    documents = rendered(tmp_path, {"study.configMap": "mine"})
    assert not of_kind(documents, "ConfigMap")
    for pod in pods(documents):
        assert {"name": "study", "configMap": {"name": "mine"}} in pod["volumes"]


def test_a_changed_study_starts_the_pods_again(tmp_path: Path) -> None:
    def checksums() -> list[str]:
        documents = rendered(tmp_path, EVERYTHING)
        return [
            d["spec"]["template"]["metadata"]["annotations"]["checksum/study"]
            for d in documents.values()
            if d["kind"] in {"StatefulSet", "Deployment"}
        ]

    before = checksums()
    with (tmp_path / "study.toml").open("a") as file:
        file.write("# changed\n")
    assert len(set(before)) == len(set(checksums())) == 1
    assert before != checksums()
