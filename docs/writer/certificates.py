"""The fields of certificates, in the words of the classes that read them."""

from __future__ import annotations

import inspect
import re

from pydantic import BaseModel

from stream_dp.release.certificate import Certificate, GateStatement
from stream_dp.release.published_panels import PanelCertificate, StatedPanelError
from stream_dp.release.published_sizes import LevelCertificate, SizesCertificate
from stream_dp.release.published_tables import BatchCertificate

_TITLES: dict[type[BaseModel], str] = {
    Certificate: "Certificates of all releases",
    PanelCertificate: "Certificates of panels",
    StatedPanelError: "Entries of `panel_errors`",
    BatchCertificate: "Certificates of data sets",
    SizesCertificate: "Certificates of sizes",
    LevelCertificate: "Entries of `levels`",
    GateStatement: "Gate",
}
_FIELDS = re.compile(r"^(\w+(?:, \w+)*): (.*(?:\n {4}.*)*)", re.MULTILINE)


def rows(model: type[BaseModel]) -> dict[tuple[str, ...], str]:
    """By names of fields, their meaning. Raises KeyError for a field without words."""
    docstring = inspect.getdoc(model) or ""
    told = {tuple(names.split(", ")): words for names, words in _FIELDS.findall(docstring)}
    base = model.__base__
    inherited = base.model_fields if base and issubclass(base, BaseModel) else {}
    silent = model.model_fields.keys() - inherited.keys() - {n for names in told for n in names}
    if silent:
        raise KeyError(f"{model.__name__}: write words about {', '.join(sorted(silent))}")
    return {names: " ".join(words.split()) for names, words in told.items()}


def markdown() -> str:
    parts = []
    for model, title in _TITLES.items():
        lines = ["| field | meaning |", "|---|---|"]
        for names, words in rows(model).items():
            named = ", ".join(f"`{name}`" for name in names)
            lines.append(f"| {named} | {words.removesuffix('.')} |")
        parts.append(f"### {title}\n\n" + "\n".join(lines))
    return "\n\n".join(parts)
