"""The reference of Python: the public names of the package by page, from their docstrings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import cast

import griffe
from docstrings import markdown as docstring

import stream_dp

NAMES: dict[str, tuple[str, ...]] = {
    "tables": ("fit", "FittedTable", "window", "cumulative", "joint", "FittedPanel"),
    "public-log": (
        "open",
        "PublicLog",
        "PublishedRelease",
        "PanelCertificate",
        "Panel",
        "Answer",
        "ReleaseQuery",
        "JointAnswers",
        "Regression",
    ),
    "data-sets": ("DataSet", "BatchCertificate"),
    "sizes": ("fit_sizes", "FittedSizes", "PublishedSizes", "SizesCertificate"),
    "studies": ("load_study", "parse_study", "Study", "plan_study", "Plan", "study_over"),
    "errors-to-expect": (
        "expected_errors",
        "ExpectedError",
        "needed_budget",
        "Goal",
        "NeededBudget",
        "alternatives",
        "Alternative",
    ),
    "scripts": ("run_study", "MemoryLog", "open_log"),
    "mechanisms": (
        "mechanism",
        "Mechanism",
        "Step",
        "FixedWindow",
        "Cumulative",
        "Joint",
        "Counter",
        "window_codes",
    ),
    "synthesizers": (
        "fit_tables",
        "FittedTables",
        "load_synthesizer",
        "BatchRelease",
        "Domain",
        "Column",
        "Hierarchy",
        "from_tables",
        "to_tables",
        "FitContext",
        "MemoryTranscript",
    ),
    "noise-and-costs": ("SystemNoise", "SeededNoise", "gaussian_rho", "epsilon"),
    "errors": ("UserError", "Inconsistent", "LogError"),
}


# By public name, the protocol whose words hold for members that have none of their own.
PROTOCOLS = {
    **dict.fromkeys(
        ("FixedWindow", "Cumulative", "Joint"), "continual.mechanism_interface.Mechanism"
    ),
    **dict.fromkeys(("SystemNoise", "SeededNoise"), "privacy.noise.NoiseSource"),
    "MemoryLog": "log.log.Log",
    "MemoryTranscript": "batch.synthesizer.FitTranscript",
}
_LONGEST = 96
_SLICE = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}


def markdown(page: str) -> str:
    """The names of `docs/reference/python/PAGE.md`, each with its docstring."""
    return "\n\n".join(part for name in NAMES[page] for part in _item(found(name), "##"))


@cache
def _package() -> griffe.Module:
    return cast(griffe.Module, griffe.load("stream_dp", try_relative_path=False))


def found(name: str) -> griffe.Object:
    value = getattr(stream_dp, name)
    path = f"{value.__module__}.{value.__qualname__}".removeprefix("stream_dp.")
    found = _package()[path]
    return cast(griffe.Object, found.final_target if found.is_alias else found)


def _item(item: griffe.Object, level: str, owner: str = "") -> Iterator[str]:
    yield f"{level} {owner}{item.name}"
    yield f"```py\n{_declared(item)}\n```"
    yield docstring(words(item))
    if item.is_class:
        for member in cast(Iterable[griffe.Object], item.members.values()):
            if not member.is_alias and not member.name.startswith("_") and words(member):
                yield from _item(member, "###", f"{item.name}.")


def words(item: griffe.Object) -> str:
    """The docstring of a name, or of its protocol's; empty for neither."""
    if item.docstring is None and item.parent is not None and item.parent.name in PROTOCOLS:
        protocol = _package()[PROTOCOLS[item.parent.name]]
        item = cast(griffe.Object, protocol.members.get(item.name, item))
    return item.docstring.value if item.docstring else ""


def _declared(item: griffe.Object) -> str:
    """The line that declares a name, with one argument a line where it would be too long."""
    if isinstance(item, griffe.Attribute):
        return f"{item.name}: {item.annotation}" if item.annotation else item.name
    kind = "class" if item.is_class else "def"
    callable_ = cast(griffe.Class | griffe.Function, item)
    arguments = [*_arguments(callable_.parameters)]
    result = f" -> {item.returns}" if isinstance(item, griffe.Function) and item.returns else ""
    line = f"{kind} {item.name}({', '.join(arguments)}){result}"
    if item.is_class and not arguments:
        line = f"class {item.name}"
    if len(line) <= _LONGEST:
        return line
    lines = "".join(f"    {argument},\n" for argument in arguments)
    return f"{kind} {item.name}(\n{lines}){result}"


def _arguments(parameters: griffe.Parameters) -> Iterator[str]:
    """The arguments as they are declared, without `self`; `*` stands where keywords begin."""
    keywords = False
    for parameter in parameters:
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is griffe.ParameterKind.keyword_only and not keywords:
            keywords = True
            yield "*"
        keywords |= parameter.kind is griffe.ParameterKind.var_positional
        text = _SLICE.get(cast(griffe.ParameterKind, parameter.kind), "") + parameter.name
        if parameter.annotation is not None:
            text += f": {parameter.annotation}"
        if parameter.default is not None and parameter.kind not in _SLICE:
            text += f" = {parameter.default}"
        yield text
