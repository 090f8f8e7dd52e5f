"""Study files: TOML to a `Study` and its `Run`, or to all faults of the file at once."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TypeVar, get_args

from pydantic import BaseModel, ValidationError

from stream_dp.errors import UserError
from stream_dp.json_object import Json
from stream_dp.study import (
    Attribute,
    CumulativeRelease,
    DeclaredPopulation,
    JointRelease,
    Release,
    Run,
    Study,
    StudyKeys,
    WindowRelease,
)
from stream_dp.study.families import (
    KINDS,
    PANEL_FAMILIES,
    Family,
    Kind,
    Neighbours,
    Registry,
)
from stream_dp.study.faults import section_faults
from stream_dp.study.field_types import NAME_PATTERN
from stream_dp.study.group_releases import Groups, data_set_declaration
from stream_dp.study.ids import Ids
from stream_dp.study.periods import Periods
from stream_dp.study.place_releases import Places, SizesRelease
from stream_dp.study.sections import Sections
from stream_dp.study.size_changes import RELATIONS
from stream_dp.study.table_releases import DataSetRelease

from . import domains
from .strata import EXPANDED_KEYS, Waves, expanded_releases

_TABLES = {"kafka", "kafka_public", "input", "signing", "signing_before"}  # of [run]
_NAMES = "use letters, digits, '.', '_' and '-', at most 64"
_LIMITS = {
    "greater_than_equal": ("must be at least {}", "ge"),
    "less_than_equal": ("must be at most {}", "le"),
    "too_short": ("must have at least {} of them", "min_length"),
    "too_long": ("must have at most {} of them", "max_length"),
}
_TYPES = {
    "int_type": "must be a whole number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "string_too_short": "must not be empty",
}
_SHAPES = {
    "attribute": "must be a name, or a list of 2 to 8 names for their product",
    "where": "must be one attribute and its value, such as { region = 'north' }",
}
_PANELS: Registry[Family, type[WindowRelease] | type[CumulativeRelease] | type[JointRelease]] = (
    Registry(
        "declarations of panels",
        PANEL_FAMILIES,
        {
            Family.WINDOW: WindowRelease,
            Family.CUMULATIVE: CumulativeRelease,
            Family.JOINT: JointRelease,
        },
    )
)


# A table of TOML or JSON is `Json`: anything may stand in it until the model of its
# section has read it. No such table leaves this folder, only a `Study` and a `Run` do.


def parse_study(raw: Json) -> Study:
    """The study in a table with the sections of a study file. Raises UserError with every fault."""
    declared, sections, problems = _sections(raw)
    problems += section_faults(sections, domains.domain_faults)
    if problems:
        # Releases of one declaration share its faults.
        raise UserError(dict.fromkeys(problems))
    return Study(**declared)


def load_study(path: Path) -> tuple[Study, Run]:
    """The study in a file and where it runs. Raises UserError with every fault, a line each."""
    try:
        raw = tomllib.loads(path.read_text("utf-8"), parse_float=Decimal)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; 'stream-dp new {path}' writes one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {type(error).__name__}") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not a TOML file: {error}") from None
    except RecursionError:
        raise UserError(f"{path}: has tables or lists inside of each other too deeply") from None
    run_raw = raw.pop("run", {})
    if isinstance(run_raw, dict):
        run_raw = {**_default_logs(raw), **run_raw}
    lines: list[str] = []
    run = _section(Run, run_raw, "run", lines) if isinstance(run_raw, dict) else None
    if run is None and not lines:
        lines.append("run: must be a table")
    try:
        study = parse_study(raw)
        if run is not None:
            lines += [f"run.input.{line}" for line in run.input.faults(study.attributes)]
    except UserError as error:
        lines = [*error.lines, *lines]
    if lines:
        raise UserError(f"{path}: {line}" for line in lines)
    assert run is not None
    plain = Run.model_fields.keys() - _TABLES
    overrides = {f: v for f in plain if (v := os.environ.get(f"STREAM_DP_{f.upper()}"))}
    checked = _section(Run, {**run.model_dump(), **overrides}, "environment STREAM_DP_*", lines)
    if checked is None:
        raise UserError(lines)
    return study, checked


def _default_logs(raw: Json) -> dict[str, str]:
    """The default logs, named after the study, so that studies side by side share no files."""
    head = raw.get("study")
    name = head.get("name") if isinstance(head, dict) else None
    return {"log": f"sqlite:{name}.db", "public": f"sqlite:{name}-public.db"}


_M = TypeVar("_M", bound=BaseModel)


def _section(model: type[_M], raw: object, where: str, problems: list[str]) -> _M | None:
    """One section of a file as its model; None if it is wrong, with its faults in `problems`."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        problems.extend(_lines(error, where, model))
        return None


def _lines(error: ValidationError, where: str, model: type[BaseModel]) -> list[str]:
    """The faults that pydantic reports for a section, in our words, one line a key."""
    texts: dict[str, str] = {}
    for item in error.errors(include_input=False, include_url=False):
        # pydantic adds the names of a union's members to the path: keep fields and indices.
        place = [str(p) for p in item["loc"] if isinstance(p, int) or str(p).isidentifier()]
        place = [p for p in place if p not in {"int", "str", "Carry", "word", "table", "history"}]
        shape = _SHAPES.get(place[0]) if where.startswith("releases") and place else None
        if shape is not None and item["type"] != "missing":
            place = place[:1]
        key = ".".join([where, *place])
        text = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            known = _known_keys(model, place[:-1])
            if len(place) == 1 and "where" in model.model_fields:
                known += EXPANDED_KEYS
            text = f"unknown key; known here are {', '.join(known)}"
        elif item["type"] == "missing" and isinstance(item["loc"][-1], int):
            texts[".".join([where, *place[:-1]])] = (
                f"must have at least {item['loc'][-1] + 1} of them"
            )
            continue
        elif item["type"] == "missing":
            text = "is required"
        elif item["type"] in {"model_type", "model_attributes_type", "dict_type"}:
            text = "must be a table"
        elif item["type"] == "literal_error" and place == ["close"]:
            text = "must be 'marker' or 'schedule'"
        elif item["type"] in _LIMITS:
            kind, name = _LIMITS[item["type"]]
            text = kind.format(item["ctx"][name])
        elif item["type"] in _TYPES:
            text = _TYPES[item["type"]]
        elif item["type"] == "string_pattern_mismatch":
            text = _NAMES
            if "values" in place or "event" in place:
                text = "use at most 64 characters, without '|', '?', '&' and '='"
        if shape is not None and item["type"] != "missing":
            texts[key] = shape
            continue
        texts[key] = f"{texts[key]}, or {text[:1].lower()}{text[1:]}" if key in texts else text
    # A fault inside a list makes the list too short as well: report only the inner one.
    return [
        f"{place}: {text}"
        for place, text in texts.items()
        if not any(other.startswith(f"{place}.") for other in texts)
    ]


def _known_keys(model: type[BaseModel], place: Sequence[str]) -> list[str]:
    """The keys of the tables that may stand at a place of a section, by its fields and indices."""
    models = [model]
    for part in place:
        fields = [m.model_fields[part] for m in models if part in m.model_fields]
        if fields:  # otherwise an index, or a name that the user chose
            models = [inner for field in fields for inner in _models(field.annotation)]
    return list(dict.fromkeys(name for m in models for name in m.model_fields))


def _models(annotation: object) -> list[type[BaseModel]]:
    """The models that a type is made of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models(part)]


def _sections(raw: Json) -> tuple[Json, Sections, list[str]]:
    """The fields of a `Study`, the sections that are sound, and the faults of those that are not.

    The fields make a study only where there are no faults.
    """
    problems: list[str] = []
    fields: Json = {}
    known = ("study", "attributes", "groups", "places", "releases", "run")
    for key in sorted(raw.keys() - set(known)):
        problems.append(f"{key}: unknown section; known are {', '.join(known)}")
    head = dict(raw["study"]) if isinstance(raw.get("study"), dict) else {}
    for key, model in (("periods", Periods), ("population", DeclaredPopulation), ("ids", Ids)):
        sub = head.pop(key, None if key == "periods" else {})
        if sub is None:
            problems.append(f"study.{key}: is required")
        else:
            if key == "periods" and isinstance(sub, dict):
                sub = _nest_schedule(sub)
            fields[key] = _section(model, sub, f"study.{key}", problems)
    declared, lines = _fields(head)
    fields |= declared
    problems += lines
    if "places" in raw:
        fields["places"] = _section(Places, raw["places"], "places", problems)
    counted = isinstance(fields.get("places"), Places) and fields["places"].counted
    attributes = raw.get("attributes", {} if counted else None)
    if not isinstance(attributes, dict) or not (attributes or counted):
        problems.append("attributes: declare at least one, as [attributes.NAME]")
        attributes = {}
    fields["attributes"] = {
        name: attribute
        for name, sub in attributes.items()
        if _is_name(name, problems)
        and (attribute := _section(Attribute, sub, f"attributes.{name}", problems)) is not None
    }
    if "groups" in raw:
        fields["groups"] = _section(Groups, raw["groups"], "groups", problems)
    releases = raw.get("releases")
    if not isinstance(releases, list) or not releases:
        problems.append("releases: declare at least one, as [[releases]]")
        releases = []
    sections = Sections(
        attributes=fields["attributes"],
        attribute_names=attributes.keys(),
        has_groups="groups" in raw,
        groups=fields.get("groups"),
        has_places="places" in raw,
        places=fields.get("places"),
        numbered_releases=(),
        periods=fields.get("periods"),
        population=fields.get("population"),
        unit=fields.get("unit"),
        neighbours=fields.get("neighbours"),
        rho=fields.get("rho"),
    )
    expanded = [
        (number, release)
        for number, declaration in enumerate(releases, 1)
        for release in _expanded(declaration, number, sections, problems)
    ]
    sections = replace(
        sections,
        numbered_releases=tuple(
            (i, _release(release, i, sections.neighbours, problems)) for i, release in expanded
        ),
    )
    fields["releases"] = tuple(sections.releases)
    if sections.batches:
        fields["batches"] = tuple(sections.batches)
    return fields, sections, problems


def _expanded(
    raw: object, number: int, sections: Sections, problems: list[str]
) -> Sequence[object]:
    """The releases that one declaration stands for. number: its place in the file, from 1."""
    if not isinstance(raw, dict) or not set(EXPANDED_KEYS) & raw.keys():
        return [raw]
    where, waves = f"releases[{number}]", None
    if "waves" in raw:
        waves = _section(Waves, raw["waves"], f"{where}.waves", problems)
        if waves is None:
            return []
    declarations, lines = expanded_releases(raw, waves, sections)
    problems += [f"{where}{line}" for line in lines]
    return declarations


def _is_name(name: str, problems: list[str]) -> bool:
    """Whether an attribute may have the name; if not, with a line in `problems`."""
    if re.fullmatch(NAME_PATTERN, name):
        return True
    problems.append(f"attributes.{name}: {_NAMES}")
    return False


def _nest_schedule(periods: Json) -> Json:
    """The table with the keys of a schedule moved into `close`, where that is "schedule"."""
    if periods.get("close") != "schedule":
        return periods
    inner = {k: v for k, v in periods.items() if k in {"zone", "at", "grace", "delay"}}
    return {k: v for k, v in periods.items() if k not in inner} | {"close": inner}


def _fields(head: Json) -> tuple[Json, list[str]]:
    """The plain keys of [study] that are sound, and the faults of the others."""
    try:
        return dict(StudyKeys.model_validate(head)), []
    except ValidationError as error:
        wrong = {str(item["loc"][0]) for item in error.errors() if item["loc"]}
        sample = {"name": "x", "unit": "x", "neighbours": "add_remove", "rho": 1, "delta": "1/2"}
        sound = {key: head[key] for key in head.keys() & StudyKeys.model_fields.keys() - wrong}
        checked = StudyKeys.model_validate({**sample, **sound})
        known = (
            f"known here are {', '.join((*StudyKeys.model_fields, 'periods', 'population', 'ids'))}"
        )
        lines = [
            f"{line.split(': unknown key')[0]}: unknown key; {known}"
            if ": unknown key" in line
            else line
            for line in _lines(error, "study", StudyKeys)
        ]
        return {key: getattr(checked, key) for key in sound}, [
            "study.neighbours: is required: 'add_remove', 'replace_one' or 'replace_in_place';"
            " it decides what is protected, so there is no default"
            if line == "study.neighbours: is required"
            else line
            for line in lines
        ]


def _release(
    raw: object, number: int, neighbours: Neighbours | None, problems: list[str]
) -> Release | DataSetRelease | None:
    """One release; None if it is wrong, with its faults in `problems`."""
    kind = raw.get("kind") if isinstance(raw, dict) else None
    where = f"releases[{number}]"
    if not isinstance(kind, str) or kind not in set(Kind):
        problems.append(f"{where}.kind: must be one of {', '.join(Kind)}")
        return None
    family = KINDS[Kind(kind)].family
    if family in PANEL_FAMILIES:
        return _section(_PANELS[family], raw, where, problems)
    if family is Family.SIZES:
        return _sizes(raw, neighbours, where, problems)
    return _section(data_set_declaration(Kind(kind)), raw, where, problems)


def _sizes(
    raw: object, neighbours: Neighbours | None, where: str, problems: list[str]
) -> SizesRelease | None:
    """A release of sizes, with the rho that its epsilon costs where that is given instead."""
    if not isinstance(raw, dict) or raw.get("epsilon") is None or "rho" in raw:
        return _section(SizesRelease, raw, where, problems)
    release = _section(SizesRelease, {**raw, "rho": 1}, where, problems)
    if release is None or neighbours not in RELATIONS:
        return release  # it has faults, or the study has
    return release.model_copy(update={"rho": release.epsilon_cost(neighbours)})
