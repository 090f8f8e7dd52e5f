"""The operator's monitor in the chart and in compose: confidential, with a token, for its peers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import yaml
from kit.charts import (
    DEPLOY,
    REQUIRED,
    environment,
    of_kind,
    rendered,
    require_valid,
    template,
)
from kit.tools import needs

from stream_dp.services.commands import cli

pytestmark = needs("helm")

ON = {"operator.enabled": True, "worker.enabled": False}


def pod_of(tmp_path: Path, **values: Any) -> Any:
    (deployment,) = of_kind(rendered(tmp_path, {**ON, **values}), "Deployment")
    return deployment["spec"]["template"]["spec"]


def test_it_is_there_only_where_it_is_wanted(tmp_path: Path) -> None:
    assert not [name for _, name in rendered(tmp_path) if name.endswith("-operator")]
    documents = rendered(tmp_path, ON, "1.31.0")
    assert {kind for kind, name in documents if name.endswith("-operator")} == {
        *("Deployment", "NetworkPolicy", "Service"),
    }
    for document in documents.values():
        require_valid(document, "1.31")


def test_its_command_asks_for_a_token_and_its_port_is_served(tmp_path: Path) -> None:
    pod = pod_of(tmp_path)
    (container,) = pod["containers"]
    options = cli._parser().parse_args(container["args"])
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert options.operator
    assert options.sources == [f"{mounts['study']}/study.toml"]
    assert str(options.token_file) == f"{mounts['secrets']}/token"
    (port,) = container["ports"]
    assert options.listen.endswith(f":{port['containerPort']}")
    assert container["readinessProbe"]["httpGet"] == {"path": "/healthz", "port": port["name"]}
    probe = container["livenessProbe"]["exec"]["command"][-1]
    assert probe.startswith(f"[ -e {environment(container)['AGAIN_HOLD']} ] || exec python")
    assert f"http://127.0.0.1:{port['containerPort']}/healthz'" in probe
    assert environment(container)["STREAM_DP_LOG"] == REQUIRED["log"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True


def test_studies_of_a_cluster_name_their_own_logs(tmp_path: Path) -> None:
    (container,) = (pod := pod_of(tmp_path, **{"operator.studies": "studies"}))["containers"]
    options = cli._parser().parse_args(container["args"])
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert options.sources == [mounts["studies"]]
    assert {"name": "studies", "configMap": {"name": "studies"}} in pod["volumes"]
    assert not [name for name in environment(container) if name.startswith("STREAM_DP")]


def test_nobody_reaches_it_but_its_peers(tmp_path: Path) -> None:
    peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "operators"}}}]
    for values, rules in (
        ({}, None),
        (
            {"networkPolicy.operatorPeers": peers},
            [{"from": peers, "ports": [{"port": "operator", "protocol": "TCP"}]}],
        ),
    ):
        documents = rendered(tmp_path, {**ON, **values})
        (policy,) = (
            d["spec"]
            for d in of_kind(documents, "NetworkPolicy")
            if d["metadata"]["labels"]["app.kubernetes.io/component"] == "operator"
        )
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        assert policy.get("ingress") == rules


def test_the_public_monitor_serves_further_logs(tmp_path: Path) -> None:
    more = {
        "monitor.enabled": True,
        "worker.enabled": False,
        "monitor.logs": ["kafka://kafka:9092/homes"],
    }
    (deployment,) = of_kind(rendered(tmp_path, more), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    options = cli._parser().parse_args(container["args"])
    assert options.sources == [REQUIRED["public"], "kafka://kafka:9092/homes"]
    for wrong in ("sqlite:confidential.db", "kafka://kafka:9092"):
        assert template(tmp_path, {**more, "monitor.logs": [wrong]}).returncode


def test_compose_runs_it_with_a_token_on_the_loopback() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    service = services["operator"]
    assert service["profiles"] == ["operator"]
    options = cli._parser().parse_args(service["command"])
    assert options.operator
    targets = {secret["target"]: secret["source"] for secret in service["secrets"]}
    assert targets == {"password": "operator", "token": "operator-token"}
    assert str(options.token_file) == "/run/secrets/token"
    port = options.listen.rpartition(":")[2]
    assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert service["environment"]["KAFKA_USER"] == "operator"
    assert services["access"]["environment"]["OPERATED"] == "${OPERATED:-no}"


def test_its_rights_are_granted_only_where_it_is_wanted(tmp_path: Path) -> None:
    tool = tmp_path / "acls"
    tool.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n')
    tool.chmod(0o755)
    variables = {"BOOTSTRAP": "b:1", "ADMIN_CONFIG": "a", "PREFIX": "in", "PUBLIC_PREFIX": "out"}
    granted = {}
    for operated in ("no", "yes"):
        (tmp_path / "calls").write_text("")
        env = {**os.environ, **variables, "KAFKA_ACLS": str(tool), "OPERATED": operated}
        subprocess.run([str(DEPLOY / "kafka/acls.sh")], env=env, check=True, capture_output=True)
        calls = (tmp_path / "calls").read_text().splitlines()
        granted[operated] = [call for call in calls if "User:operator" in call]
    assert granted["no"] == []
    written = [call for call in granted["yes"] if "--operation Write" in call]
    assert len(written) == 1
    assert "--topic in.reports" in written[0]
    assert "--topic in.journal" not in written[0]
