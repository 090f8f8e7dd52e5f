"""Deploy's Helm chart, rendered with the values that a test sets."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from kit.tools import tool
from stream_dp.services.commands import cli

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm"
REQUIRED = {"log": "kafka://kafka:9092/inside", "public": "kafka://kafka:9092/outside"}


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    command = [tool("helm") or "helm", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def arguments(tmp_path: Path, values: Mapping[str, Any]) -> list[str]:
    study = tmp_path / "study.toml"
    if not study.exists():
        assert cli.main(["new", str(study)]) == 0
    values_set = {**REQUIRED, **values}
    words = [f"--set-json={name}={json.dumps(value)}" for name, value in values_set.items()]
    if "study.configMap" not in values_set:
        words.append(f"--set-file=study.text={study}")
    return words


def template(
    tmp_path: Path, values: Mapping[str, Any] = {}, version: str = "1.31.0"
) -> subprocess.CompletedProcess[str]:
    words = arguments(tmp_path, values)
    return helm("template", "poverty", str(CHART), "--kube-version", version, *words)


def rendered(
    tmp_path: Path, values: Mapping[str, Any] = {}, version: str = "1.31.0"
) -> dict[tuple[str, str], Any]:
    """Documents by kind and name."""
    done = template(tmp_path, values, version)
    assert done.returncode == 0, done.stderr
    documents = [document for document in yaml.safe_load_all(done.stdout) if document]
    by_name = {(d["kind"], d["metadata"]["name"]): d for d in documents}
    assert len(by_name) == len(documents)
    return by_name


def require_valid(document: Any, version: str) -> None:
    """Raises an error unless Kubernetes of a version takes the document."""
    from kubernetes_validate import validate  # reads large grammars when it is imported

    validate(document, version, strict=True)


def pods(documents: Mapping[tuple[str, str], Any]) -> list[Any]:
    """The releaser's and, where there is one, the worker's."""
    running = [*of_kind(documents, "StatefulSet"), *of_kind(documents, "Deployment")]
    return [document["spec"]["template"]["spec"] for document in running]


def of_kind(documents: Mapping[tuple[str, str], Any], kind: str) -> list[Any]:
    return [document for (own, _), document in documents.items() if own == kind]


def environment(container: Any) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}
