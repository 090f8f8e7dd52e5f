"""The chart's public monitor: what it may see, who reaches it, and what it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from kit.charts import DEPLOY, REQUIRED, environment, of_kind, rendered, require_valid
from kit.tools import needs

from stream_dp.log.kafka_settings import (
    FILE_VARIABLE,
    connection_settings,
    settings_from_environment,
)
from stream_dp.services.commands import cli

pytestmark = needs("helm")

ON = {"monitor.enabled": True, "worker.enabled": False}


def monitor(tmp_path: Path, **values: Any) -> Any:
    (deployment,) = of_kind(rendered(tmp_path, {**ON, **values}), "Deployment")
    return deployment


def test_it_is_there_only_where_it_is_wanted(tmp_path: Path) -> None:
    assert not [name for _, name in rendered(tmp_path) if "monitor" in name]
    documents = rendered(tmp_path, ON, "1.31.0")
    assert {kind for kind, name in documents if name.endswith("-monitor")} == {
        *("Deployment", "NetworkPolicy", "Service"),
    }
    for document in documents.values():
        require_valid(document, "1.31")


def test_nothing_confidential_is_in_its_pod(tmp_path: Path) -> None:
    pod = monitor(tmp_path)["spec"]["template"]["spec"]
    assert {volume["name"] for volume in pod["volumes"]} == {"secrets", "tmp"}
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert not {"STREAM_DP_LOG", "STREAM_DP_SNAPSHOTS"} & environment(container).keys()
    assert REQUIRED["log"] not in yaml.safe_dump(pod)


def test_its_command_is_the_programs_and_its_port_is_served(tmp_path: Path) -> None:
    deployment = monitor(tmp_path)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    options = cli._parser().parse_args(container["args"])
    assert options.sources == [REQUIRED["public"]]
    assert not options.operator
    name = deployment["metadata"]["name"]
    assert options.hosts.split(",")[:2] == [name, f"{name}.default"]
    more = monitor(tmp_path, **{"monitor.hosts": ["poverty.example.org"]})
    assert "poverty.example.org" in more["spec"]["template"]["spec"]["containers"][0]["args"][-1]
    (port,) = container["ports"]
    assert options.listen.endswith(f":{port['containerPort']}")
    assert container["readinessProbe"]["httpGet"] == {"path": "/healthz", "port": port["name"]}
    probe = container["livenessProbe"]["exec"]["command"][-1]
    assert probe.startswith(f"[ -e {environment(container)['AGAIN_HOLD']} ] || exec python")
    assert f"http://127.0.0.1:{port['containerPort']}/metrics'" in probe
    documents = rendered(tmp_path, ON)
    (service,) = (d for (k, n), d in documents.items() if k == "Service" and "monitor" in n)
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert service["spec"]["ports"] == [{"name": "pages", "port": 80, "targetPort": port["name"]}]


def test_who_reaches_it_and_what_it_reaches(tmp_path: Path) -> None:
    peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}]
    for values, rule in (({}, {}), ({"networkPolicy.monitorPeers": peers}, {"from": peers})):
        documents = rendered(tmp_path, {**ON, **values})
        (policy,) = (
            d["spec"]
            for d in of_kind(documents, "NetworkPolicy")
            if d["metadata"]["labels"]["app.kubernetes.io/component"] == "monitor"
        )
        assert policy["ingress"] == [{"ports": [{"port": "pages", "protocol": "TCP"}], **rule}]
        assert [p["port"] for rule in policy["egress"] for p in rule["ports"]] == [53, 53, 9092]


def test_compose_runs_it_as_an_analyst(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["monitor"]
    options = cli._parser().parse_args(service["command"])
    assert options.sources[0].startswith("kafka://")
    (volume,) = service["volumes"]
    file, inside, _ = volume.split(":")
    assert service["environment"] == {FILE_VARIABLE: inside}
    assert service["secrets"] == [{"source": "analyst", "target": "password"}]
    (tmp_path / "password").write_text("secret")
    text = (DEPLOY / file).read_text().replace("/run/secrets/", "")
    (tmp_path / "analyst.toml").write_text(text)
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "analyst.toml"))
    table, insecure = settings_from_environment(Path())
    settings = connection_settings("kafka:9092", table, insecure=insecure, base=Path())
    assert (settings["sasl.username"], settings["sasl.password"]) == ("analyst", "secret")
