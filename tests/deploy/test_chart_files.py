"""What can be said of the chart without helm: its values, their page and their schema agree."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from stream_dp import __version__

CHART = Path(__file__).parents[2] / "deploy" / "helm"
FREE = {"resources", "labels"}  # their keys are Kubernetes' or the user's


def leaves(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict) and value and name not in FREE:
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def declared(schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, part in schema["properties"].items():
        if "properties" in part:
            assert part["additionalProperties"] is False, name
            yield from declared(part, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_every_value_is_explained_and_has_a_type() -> None:
    values = dict(leaves(yaml.safe_load((CHART / "values.yaml").read_text())))
    rows = re.findall(r"^\| `([\w.]+)` \| (.+?) \|", (CHART / "README.md").read_text(), re.M)
    assert [name for name, _ in rows] == list(values)
    for name, default in rows:
        if default.startswith("`") and name.rpartition(".")[2] not in FREE:
            assert yaml.safe_load(default.strip("`")) == values[name], name
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert schema["additionalProperties"] is False
    assert set(declared(schema)) == {*values, "global"}


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


IMAGE = r'include "stream-dp.image" \(list \. \.Values\.([\w.]+)\)'


def test_templates_use_values_that_exist() -> None:
    values = {name for name, _ in leaves(yaml.safe_load((CHART / "values.yaml").read_text()))}
    used = set()
    for path in (CHART / "templates").iterdir():
        text = path.read_text()
        for image in re.findall(IMAGE, text):
            used |= {f"{image}.{key}" for key in ("repository", "tag", "digest")}
        used |= set(re.findall(r"\.Values\.([\w.]+)", re.sub(IMAGE, "", text)))
    assert used == values


def test_linked_files_are_the_shipped_ones() -> None:
    names = {path.name for path in (CHART / "files").iterdir()}
    assert names == {"alerts.yml", "operators.json", "public.json"}
    for path in (CHART / "files").iterdir():
        assert path.is_symlink()
        assert path.resolve().parent in {CHART.parent / "prometheus", CHART.parent / "grafana"}
