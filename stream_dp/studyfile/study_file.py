"""Study files: TOML to a `Study` and its `Run`, or to all faults of the file at once.

`slots` makes one declaration stand for an attribute of each of several events: `slots = 6` at
`[attributes.mode]` declares the attributes mode_1 to mode_6, of a person's first to sixth event in
a period.

The faults have the reasons why no synthesizer could fit a data set. The synthesizers' modules are
loaded for a study that has one.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from stream_dp.errors import UserError
from stream_dp.json_object import Json
from stream_dp.study import (
    Attribute,
    Curator,
    DeclaredPopulation,
    Release,
    Run,
    Study,
    StudyKeys,
)
from stream_dp.study.data_set_faults import role_column_faults, slot_faults
from stream_dp.study.declared_sections import (
    NO_WEIGHTS,
    WEIGHT_KEYS,
    Gate,
    Ids,
    Sampling,
    WeightingCells,
)
from stream_dp.study.families import DATA_SET_FAMILIES, Family, Kind, Registry
from stream_dp.study.field_types import NAME_PATTERN
from stream_dp.study.group_releases import (
    MOST_SLOTS,
    BatchRelease,
    EventsRelease,
    Groups,
    slot_attribute,
)
from stream_dp.study.periods import Periods
from stream_dp.study.place_releases import Places
from stream_dp.study.section_faults import section_faults
from stream_dp.study.study import Sections
from stream_dp.study.table_releases import DataSetRelease

from .shorthands import (
    EXPANDED_KEYS,
    SHARE,
    Waves,
    expanded_releases,
    number_of_data_sets,
    with_rho,
)


def domain_faults(batch: DataSetRelease, sections: Sections) -> Iterator[str]:
    """Faults of a batch release's domain, to be put after the release's key in the file."""
    attributes = [sections.attributes.get(name) for name in batch.questions]
    if any(a is None or a.problems("") for a in attributes):
        return
    try:
        _DOMAIN_CHECKS[batch.family](batch, sections)
    except UserError as error:
        yield from (f": {line}" for line in error.lines)


def _check_households(release: BatchRelease, sections: Sections) -> None:
    """Raises UserError for a domain of groups that the release's kind cannot fit."""
    from stream_dp.batch.kinds import check_limits
    from stream_dp.batch.synthesizer import declared_domain

    groups = sections.groups
    if groups is None:
        return
    if any(role_column_faults(groups, sections.attribute_names)):
        groups = groups.model_copy(update={"roles": None})  # section_faults reports them
    check_limits(release, declared_domain(groups, sections.attributes, release))


def _check_events(release: EventsRelease, sections: Sections) -> None:
    """Raises UserError for a domain of people and events that cannot be measured as declared."""
    if any(slot_faults(release, sections)):
        return  # data_set_faults reports them
    from stream_dp.batch.groups.workload.candidates import declared_workload
    from stream_dp.batch.synthesizer import events_domain

    declared_workload(events_domain(sections.attributes, release), release)


def _no_limit(release: DataSetRelease, sections: Sections) -> None:
    """Sizes are bounded by `largest`, tables of people by the faults of their kinds."""


_DOMAIN_CHECKS: Registry[Family, Callable[..., None]] = Registry(
    "domains of data sets",
    DATA_SET_FAMILIES,
    {
        Family.PEOPLE: _no_limit,
        Family.HOUSEHOLDS: _check_households,
        Family.EVENTS: _check_events,
        Family.SIZES: _no_limit,
    },
)


SLOTS = "slots"


def expanded_attributes(raw: Json, problems: list[str]) -> Json:
    """The tables of attributes by name, those with slots once for every slot.

    raw: the tables of a file. Faults are added to `problems`.
    """
    expanded: Json = {}
    for name, table in raw.items():
        if not isinstance(table, dict) or SLOTS not in table:
            several = {name: table}
        else:
            slots = table[SLOTS]
            if type(slots) is not int or not 1 <= slots <= MOST_SLOTS:
                problems.append(
                    f"attributes.{name}.{SLOTS}: must be a whole number from 1 to {MOST_SLOTS}"
                )
                slots = MOST_SLOTS  # no release lacks a slot by this fault
            rest = {key: value for key, value in table.items() if key != SLOTS}
            several = {slot_attribute(name, number): rest for number in range(1, slots + 1)}
        for twice in expanded.keys() & several.keys():
            problems.append(f"attributes.{twice}: stands for a slot too; rename one of both")
        expanded |= several
    return expanded


_TABLES = {
    "kafka",
    "kafka_public",
    "kafka_witness",
    "input",
    "signing",
    "signing_before",
}  # of [run]
_SECTIONS = ("study", "attributes", "groups", "places", "releases", "run")
_STUDY_TABLES: tuple[tuple[str, type[BaseModel], Json | None], ...] = (
    ("periods", Periods, None),
    ("population", DeclaredPopulation, {}),
    ("ids", Ids, {}),
    ("curator", Curator, None),
    ("gate", Gate, None),
    ("sampling", Sampling, None),
    ("weights", WeightingCells, None),
)  # of [study], with the table of a file that leaves one out
_SHARED = (
    *("groups", "places", "periods", "population", "gate", "weights", "unit", "neighbours", "rho"),
)
_NO_TABLE = "a table of answers goes to 'stream-dp send STUDY FILE'"
_NAMES = "use letters, digits, '.', '_' and '-', at most 64"
_LIMITS = {
    "greater_than_equal": ("must be at least {}", "ge"),
    "less_than_equal": ("must be at most {}", "le"),
    "too_short": ("must have at least {} of them", "min_length"),
    "too_long": ("must have at most {} of them", "max_length"),
    "string_too_long": ("must have at most {} characters", "max_length"),
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


# A table of TOML or JSON is `Json`: anything may stand in it until the model of its
# section has read it. No such table leaves this folder, only a `Study` and a `Run` do.


def parse_study(raw: Json) -> Study:
    """The study in a table with the sections of a study file. Raises UserError with every fault."""
    if not isinstance(raw, dict):
        raise UserError(f"study: must be a dict with the sections of a file, not {raw!r:.80}")
    declared, sections, problems = _sections(raw)
    problems += section_faults(sections, domain_faults)
    if problems:
        # Releases of one declaration share its faults.
        raise UserError(dict.fromkeys(problems))
    return Study(**declared)


def load_study(path: Path | str) -> tuple[Study, Run]:
    """The study in a file and the settings of the service. Raises UserError with every fault."""
    path = Path(path)
    try:
        raw = tomllib.loads(path.read_text("utf-8"), parse_float=Decimal)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; 'stream-dp new {path}' writes one") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a study file, a text in UTF-8; {_NO_TABLE}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {type(error).__name__}") from None
    except tomllib.TOMLDecodeError as error:
        hint = f"; {_NO_TABLE}" if path.suffix != ".toml" else ""
        raise UserError(f"{path}: not a TOML file: {error}{hint}") from None
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
            lines += [
                f"run.input.{line}" for line in run.input.faults(study.attributes, study.periods)
            ]
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
    """The default logs, named after the study: studies in a folder share no files."""
    head = raw.get("study")
    name = head.get("name") if isinstance(head, dict) else None
    return {"log": f"sqlite:{name}.db", "public": f"sqlite:{name}-public.db"}


_M = TypeVar("_M", bound=BaseModel)


def _section(model: type[_M], raw: object, section: str, problems: list[str]) -> _M | None:
    """A section of a file as a model; None if wrong, with the faults in `problems`."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        problems.extend(_lines(error, section, model))
        return None


def _lines(error: ValidationError, section: str, model: type[BaseModel]) -> list[str]:
    """The faults of pydantic for a section, in our words, a line per key."""
    texts: dict[str, str] = {}
    for item in error.errors(include_input=False, include_url=False):
        # pydantic adds the names of a union's members to the path: keep fields and indices.
        path = [str(p) for p in item["loc"] if isinstance(p, int) or str(p).isidentifier()]
        path = [p for p in path if p not in {"int", "str", "Carry", "word", "table", "history"}]
        shape = _SHAPES.get(path[0]) if section.startswith("releases") and path else None
        if shape is not None and item["type"] != "missing":
            path = path[:1]
        key = ".".join([section, *path])
        text = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            keys = _known_keys(model, path[:-1])
            if len(path) == 1 and "rho" in model.model_fields and section != "study":
                keys.append(SHARE)
            if len(path) == 1 and "where" in model.model_fields:
                keys += EXPANDED_KEYS
            if model is Attribute:
                keys.append(SLOTS)
            text = f"unknown key; known here are {', '.join(keys)}"
            if model in (Attribute, WeightingCells) and path[-1] in WEIGHT_KEYS:
                text = NO_WEIGHTS
        elif item["type"] == "missing" and isinstance(item["loc"][-1], int):
            texts[".".join([section, *path[:-1]])] = (
                f"must have at least {item['loc'][-1] + 1} of them"
            )
            continue
        elif item["type"] == "missing" and path == ["rho"] and section != "study":
            key, text = f"{section}.{SHARE}", "is required: a part of study.rho, such as 0.5"
        elif item["type"] == "missing":
            text = "is required"
        elif item["type"] in {"model_type", "model_attributes_type", "dict_type"}:
            text = "must be a table"
        elif item["type"] == "literal_error" and path == ["close"]:
            text = "must be 'marker' or 'schedule'"
        elif item["type"] == "literal_error":
            text = f"must be {item['ctx']['expected']}"
        elif item["type"] in _LIMITS:
            kind, name = _LIMITS[item["type"]]
            text = kind.format(item["ctx"][name])
        elif item["type"] in _TYPES:
            text = _TYPES[item["type"]]
        elif item["type"] == "string_pattern_mismatch":
            text = _NAMES
            if "values" in path or "event" in path:
                text = "use at most 64 characters, without '|', '?', '&' and '='"
        if shape is not None and item["type"] != "missing":
            texts[key] = shape
            continue
        texts[key] = f"{texts[key]}, or {text[:1].lower()}{text[1:]}" if key in texts else text
    # A fault inside a list makes the list too short as well: report only the inner one.
    return [
        f"{path}: {text}"
        for path, text in texts.items()
        if not any(inner.startswith(f"{path}.") for inner in texts)
    ]


def _known_keys(model: type[BaseModel], path: Sequence[str]) -> list[str]:
    """The keys of the possible tables at a path of fields and indices in a section."""
    models = [model]
    for key in path:
        fields = [m.model_fields[key] for m in models if key in m.model_fields]
        if fields:  # otherwise an index, or a name that the user chose
            models = [inner for field in fields for inner in _models(field.annotation)]
    names = (f.alias or name for m in models for name, f in m.model_fields.items())
    return list(dict.fromkeys(names))


def _models(annotation: object) -> list[type[BaseModel]]:
    """The models in a type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for member in get_args(annotation) for model in _models(member)]


def _sections(raw: Json) -> tuple[Json, Sections, list[str]]:
    """The fields of a `Study`, the sound sections, and the faults of all sections.

    The fields make a study only without faults.
    """
    problems: list[str] = []
    fields: Json = {}
    for key in sorted(raw.keys() - set(_SECTIONS)):
        problems.append(f"{key}: unknown section; known are {', '.join(_SECTIONS)}")
    head = dict(raw["study"]) if isinstance(raw.get("study"), dict) else {}
    tables = {key: head.pop(key, absent) for key, _, absent in _STUDY_TABLES}
    declared, lines = _fields(head)
    for key, model, _ in _STUDY_TABLES:
        sub = tables[key]
        if sub is None and key == "periods":
            problems.append(f"study.{key}: is required")
        elif sub is not None:
            if key == "periods" and isinstance(sub, dict):
                sub = _nest_schedule(sub)
            if key == "gate":
                sub = with_rho(sub, "study.gate", declared.get("rho"), 1, problems)
            fields[key] = _section(model, sub, f"study.{key}", problems)
    fields |= declared
    problems += lines
    if "places" in raw:
        fields["places"] = _section(Places, raw["places"], "places", problems)
    counted = isinstance(fields.get("places"), Places) and fields["places"].counted
    attributes = raw.get("attributes", {} if counted else None)
    if not isinstance(attributes, dict) or not (attributes or counted):
        problems.append("attributes: declare at least one, as [attributes.NAME]")
        attributes = {}
    attributes = expanded_attributes(attributes, problems)
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
        has_places="places" in raw,
        numbered_releases=(),
        **{name: fields.get(name) for name in _SHARED},
    )
    expanded = [
        (number, release)
        for number, declaration in enumerate(releases, 1)
        for release in _expanded(declaration, number, sections, problems)
    ]
    sections = replace(
        sections,
        numbered_releases=tuple(
            (i, _release(release, i, sections, problems)) for i, release in expanded
        ),
    )
    fields["releases"] = tuple(sections.releases)
    if sections.batches:
        fields["batches"] = tuple(sections.batches)
    return fields, sections, problems


def _expanded(
    raw: object, number: int, sections: Sections, problems: list[str]
) -> Sequence[object]:
    """The releases that one declaration stands for: one per stratum or wave, or itself.

    raw: the declaration as the file has it. It stays as it is without a key of `EXPANDED_KEYS`.
    number: of the declaration in the file, from 1.
    problems: faults are added as lines; a faulty declaration may give no release.
    """
    if not isinstance(raw, dict) or not set(EXPANDED_KEYS) & raw.keys():
        return [raw]
    section, waves = f"releases[{number}]", None
    if "waves" in raw:
        waves = _section(Waves, raw["waves"], f"{section}.waves", problems)
        if waves is None:
            return []
    declarations, lines = expanded_releases(raw, waves, sections)
    problems += [f"{section}{line}" for line in lines]
    return declarations


def _is_name(name: str, problems: list[str]) -> bool:
    """Whether an attribute may have the name; if not, with a line in `problems`."""
    if re.fullmatch(NAME_PATTERN, name):
        return True
    problems.append(f"attributes.{name}: {_NAMES}")
    return False


def _nest_schedule(periods: Json) -> Json:
    """The table with the keys of a schedule moved into `close`, if `close` is "schedule"."""
    if periods.get("close") != "schedule":
        return periods
    inner = {k: v for k, v in periods.items() if k in {"zone", "at", "grace", "delay"}}
    return {k: v for k, v in periods.items() if k not in inner} | {"close": inner}


def _fields(head: Json) -> tuple[Json, list[str]]:
    """The sound plain keys of [study], and the faults of the unsound keys."""
    try:
        return dict(StudyKeys.model_validate(head)), []
    except ValidationError as error:
        wrong = {str(item["loc"][0]) for item in error.errors() if item["loc"]}
        sample = {"name": "x", "unit": "x", "neighbours": "add_remove", "rho": 1, "delta": "1/2"}
        sound = {key: head[key] for key in head.keys() & StudyKeys.model_fields.keys() - wrong}
        checked = StudyKeys.model_validate({**sample, **sound})
        return {key: value for key, value in checked if key in sound}, [
            f"{line}, {', '.join(key for key, _, _ in _STUDY_TABLES)}"
            if ": unknown key" in line
            else f"{line}: 'add_remove', 'replace_one' or 'replace_in_place'; it decides what is"
            " protected, so there is no default"
            if line == "study.neighbours: is required"
            else line
            for line in _lines(error, "study", StudyKeys)
        ]


def _release(
    raw: object, number: int, sections: Sections, problems: list[str]
) -> Release | DataSetRelease | None:
    """A release; None if wrong, with the faults in `problems`."""
    section, fields = f"releases[{number}]", raw if isinstance(raw, dict) else {}
    neighbours, data_sets = sections.neighbours, number_of_data_sets(fields, sections.periods)
    fields = with_rho(fields, section, sections.rho, data_sets, problems)
    try:
        kind = Kind.named(fields.get("kind"))
    except UserError as error:
        problems.append(f"{section}.kind: {error}")
        return None
    if kind is None:
        problems.append(f"{section}.kind: must be one of {', '.join(Kind)}")
        return None
    model: Any = kind.declaration
    # Where rho follows from another key, 1 stands for it while the other keys are checked.
    unpriced = fields.get(model.priced_by) is not None and "rho" not in fields
    release: Release | DataSetRelease | None
    release = _section(model, fields | {"rho": 1} if unpriced else fields, section, problems)
    if release is None or neighbours is None or not unpriced:
        return release
    priced: Release | DataSetRelease = release.priced(neighbours)
    return priced
