"""Every key of a study file, from the models that read it.

Types, limits and defaults are those of the models' JSON schema; the words are the string that
stands below a field in the source.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args

from pydantic import BaseModel

from stream_dp.study import (
    Attribute,
    Carry,
    CumulativeRelease,
    Curator,
    DeclaredPopulation,
    Gate,
    Input,
    JointRelease,
    MatchRelease,
    PeopleRelease,
    Run,
    Scale,
    Study,
    StudyKeys,
    WindowRelease,
)
from stream_dp.study.declared_sections import Sampling, WeightingCells
from stream_dp.study.families import RELATIONS, Kind
from stream_dp.study.group_releases import (
    MOST_SLOTS,
    BatchRelease,
    Events,
    EventsRelease,
    GroupAttribute,
    Groups,
    RoleColumn,
)
from stream_dp.study.periods import Periods, Schedule
from stream_dp.study.place_releases import Places, SizesRelease
from stream_dp.study.table_releases import Derived, History, Marginal
from stream_dp.study.thresholds import Linear
from stream_dp.studyfile.shorthands import EXPANDED_KEYS, SHARE, Waves

# By heading: the model, and words before its keys.
SECTIONS: dict[str, tuple[type[BaseModel], str]] = {
    "`[study]`": (StudyKeys, "The protected unit, the relation of neighbours and the budget."),
    "`[study.periods]`": (Periods, "The horizon, and the way in which a period closes."),
    '`[study.periods]` with `close = "schedule"`': (
        Schedule,
        "These keys are in the same table as `close`. A period closes on the day after its last"
        " day, at the local time `at` plus `grace`.",
    ),
    "`[study.population]`": (DeclaredPopulation, "The number of units, if this number is public."),
    "`[study.curator]`": (
        Curator,
        "The publisher of the releases, and their terms of use. The table is published, and"
        " metadata beside the releases repeat it.",
    ),
    "`[study.gate]`": (
        Gate,
        "For unattended studies: if few people from earlier periods answer in a period, the gate"
        " [holds the period for the operator](../how-to/operations.md#a-held-period)."
        " `stream-dp check` prints how often the gate errs.",
    ),
    "`[study.sampling]`": (
        Sampling,
        "How the people were drawn from a population; see [Survey"
        " practice](../how-to/survey-practice.md).",
    ),
    "`[study.weights]`": (WeightingCells, "Weighting cells with public totals of people."),
    "`[attributes.NAME]`": (
        Attribute,
        "A question and its possible answers. Declare at least one attribute.",
    ),
    "`number = { ... }`": (
        Scale,
        "The whole numbers that are answers, instead of listed `values`.",
    ),
    "`missing = { ... }`": (
        Carry,
        "Carry forward: for a missing answer, the person's last answer counts again.",
    ),
    '`[[releases]]` with `kind = "window"`': (
        WindowRelease,
        "A panel with the numbers of all patterns of the last periods.",
    ),
    '`[[releases]]` with `kind = "cumulative"`': (
        CumulativeRelease,
        "A panel with the numbers of people who have had the event in at least b periods.",
    ),
    '`[[releases]]` with `kind = "joint"`': (JointRelease, "One panel for patterns and totals."),
    "`waves = { ... }`": (
        Waves,
        "A table in a panel release. The table declares one release for each value of a fixed"
        " attribute, each with separate periods.",
    ),
    "`[groups]`": (
        Groups,
        "The groups that people belong to. A separate table states the group of each person.",
    ),
    "`[groups.attributes.NAME]`": (GroupAttribute, "A property of a group."),
    "`[groups.roles]`": (RoleColumn, "The roles of the members of a group, if relatives matter."),
    "`[[releases]]` of people": (
        PeopleRelease,
        "A synthetic table with a row for each person. Some periods have a new table.",
    ),
    '`[[releases]]` with `kind = "table"` or `"match"`': (
        MatchRelease,
        "A table of people that is measured in two phases. The keys of other tables of people"
        " apply.",
    ),
    "`{ of = [...], weight = ... }`": (
        Marginal,
        'An entry of `marginals` in a release with `kind = "match"`.',
    ),
    "`[releases.derived.NAME]` of people": (
        Derived,
        "A column that is a public function of another column.",
    ),
    "`{ weights = {...} }` or `{ random = ... }`": (
        Linear,
        "An entry of `linear` in a table of people: sums of numbers, whose thresholds are"
        " measured.",
    ),
    "`{ of = ..., last = ... }`": (
        History,
        "An entry of `attributes` in a table of people: the answers to one attribute in the last"
        " periods, a column for each period.",
    ),
    "`[[releases]]` of groups with their members": (
        BatchRelease,
        "A synthetic data set of groups and their members. Some periods have a new data set.",
    ),
    '`[[releases]]` with `kind = "hpd-events"`': (
        EventsRelease,
        "People and their events, such as trips; see [Publish people with their"
        " trips](../how-to/people-and-events.md).",
    ),
    "`[releases.events]`": (Events, "The events of a release of people with their events."),
    "`[places]`": (
        Places,
        "The places that people are in. A separate table lists all places.",
    ),
    '`[[releases]]` with `kind = "sizes"`': (
        SizesRelease,
        "For every region, the number of places with each number of people.",
    ),
    "`[run]`": (
        Run,
        "The logs, folders and processes of the study. The keys of `[run]` may change during a"
        " study, are not part of the study's hash, and are not published. An environment variable"
        " whose name is `STREAM_DP_` and the key in capitals overrides the key, except if the value"
        " is a table.",
    ),
    "`[run.input]`": (
        Input,
        "How records of another shape become reports; see [Feed reports from other"
        " platforms](../how-to/other-shapes.md).",
    ),
}
# Keys of a declaration that are read before the models see it.
SHARE_WORDS = (
    "In place of `rho`: the part of `study.rho` that this costs, for all periods or data sets"
    ' together, such as `0.5` or `"1/3"`. Shares add up to at most 1.'
)
EXPANDED = {
    "strata": "The name of a fixed attribute. The declaration stands for a release `NAME-VALUE` of"
    " each value. Under `add_remove` all strata together cost as much as one. Under replacement"
    " several strata cost at least twice the cost of adding or removing one person. Needs `rows`, a"
    " cap on the private sizes of strata.",
    "waves": "A table (see below) that declares a release `NAME-VALUE` of each value of a fixed"
    " attribute, each with separate periods.",
}
SLOT_WORDS = (
    "How many answers a person gives in a period, one for each event: the declaration stands for"
    " the attributes `NAME_1`, `NAME_2` and so on."
)
# Keys of a study that are sections of their own.
_TABLES = {
    *("periods", "population", "curator", "gate", "sampling", "weights"),
    *("attributes", "releases", "groups", "places", "batches"),
}
# What a study file may leave out although the model asks for it.
_DEFAULTS = {(Run, "log"): "`sqlite:NAME.db`", (Run, "public"): "`sqlite:NAME-public.db`"}


def words(model: type[BaseModel]) -> dict[str, str]:
    """By field: the string below it in the source of its class, or of a base."""
    texts: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if not issubclass(cls, BaseModel) or cls is BaseModel:
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
        assert isinstance(tree, ast.ClassDef)
        for field, below in zip(tree.body, tree.body[1:], strict=False):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    texts[name] = " ".join(text.split())
    return texts


def inline(study: type[BaseModel] = Study) -> dict[str, type[BaseModel]]:
    """By key, the models of inline tables that stand among the plain keys of `[study]`."""
    keys = study.model_fields.keys() - StudyKeys.model_fields.keys() - _TABLES
    return {key: _model(study.model_fields[key].annotation) for key in sorted(keys)}


def _model(annotation: Any) -> type[BaseModel]:
    """The one model in an annotation such as `Ids | None`."""
    kinds = (annotation, *get_args(annotation))
    (model,) = (k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel))
    return model


def sections() -> dict[str, tuple[type[BaseModel], str]]:
    """`SECTIONS`, and one for each inline table with its model's first sentence."""
    more = {
        f"`[study]` with `{key} = {{ ... }}`": (
            model,
            inspect.cleandoc(model.__doc__ or "").split(". ")[0].rstrip(".") + ".",
        )
        for key, model in inline().items()
    }
    return SECTIONS | more


def models() -> set[str]:
    """The names of all models that a study file or `[run]` can hold."""
    names = {Study.__name__, Run.__name__}
    for model in (Study, Run):
        shapes = model.model_json_schema().get("$defs", {})
        names |= {name for name, shape in shapes.items() if "enum" not in shape}
    return names


def kinds_table() -> str:
    """Every kind of release with its sentence and the neighbouring relations it is proved for."""
    lines = ["| `kind` | family | what it publishes | `neighbours` |", "|---|---|---|---|"]
    for kind in Kind:
        relations = RELATIONS if kind.data_set is None else kind.data_set.relations
        proved = ", ".join(f"`{relation}`" for relation in relations)
        lines.append(f"| `{kind}` | {kind.family} | {kind.about} | {proved} |")
    return "\n".join(lines)


def markdown() -> str:
    parts = ["## Kinds of releases\n\n" + kinds_table()]
    written: dict[tuple[str, str, str, str], str] = {}  # a key of a release, and its section
    for heading, (model, about) in sections().items():
        rows = _section_rows(model)
        if heading.startswith("`[[releases]]`"):
            repeated = [row for row in rows if row in written]
            rows = [row for row in rows if row not in written]
            about += "".join(_references(repeated, written))
            written |= dict.fromkeys(rows, heading)
        lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
        lines += [f"| {' | '.join(row)} |" for row in rows]
        parts.append(f"## {heading}\n\n{about}\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def _section_rows(model: type[BaseModel]) -> list[tuple[str, str, str, str]]:
    """The rows of a model, with the keys that are read before the model sees a declaration."""
    rows = [*_rows(model)]
    if model is StudyKeys:
        rows += [row for row in _rows(Study) if row[0].strip("`") in inline()]
    if model is not StudyKeys and "rho" in model.model_fields:
        rows.append((f"`{SHARE}`", "number", "none", SHARE_WORDS))
    if model in (WindowRelease, CumulativeRelease, JointRelease):
        rows += [(f"`{key}`", "see text", "none", EXPANDED[key]) for key in EXPANDED_KEYS]
    if model is Attribute:
        rows.append(("`slots`", f"whole number, 1 to {MOST_SLOTS}", "none", SLOT_WORDS))
    return rows


def _references(
    rows: list[tuple[str, str, str, str]], written: dict[tuple[str, str, str, str], str]
) -> Iterator[str]:
    """A sentence for each section that has some of the rows."""
    for heading in dict.fromkeys(written[row] for row in rows):
        keys = ", ".join(row[0] for row in rows if written[row] == heading)
        slug = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        plain = heading.replace("`[[releases]]` ", "")
        yield f" As in releases [{plain}](#{slug}): {keys}."


def _rows(model: type[BaseModel]) -> Iterator[tuple[str, str, str, str]]:
    schema, meaning = model.model_json_schema(), words(model)
    for name, field in model.model_fields.items():
        declared = field.alias or name
        key = schema["properties"][declared]
        if declared in schema.get("required", ()):
            priced = name == "rho" and model is not StudyKeys
            default = "by `share`" if priced else _DEFAULTS.get((model, name), "required")
        elif key.get("default") in (None, "", []) or isinstance(key["default"], dict):
            default = "none"
        else:
            default = f"`{json.dumps(key['default'])}`"
        value = _value(key, schema.get("$defs", {}))
        # "as in a window release": the choices stand there.
        choices = () if ", as in a " in meaning[name] else _choices(model, name)
        yield f"`{declared}`", value, default, " ".join([meaning[name], *choices])


def _choices(model: type[BaseModel], name: str) -> Iterator[str]:
    """A line for each member of a field's enumeration, with the sentence about it."""
    annotation = model.model_fields[name].annotation
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, Enum):
            yield from (f"`{json.dumps(choice.value)}`: {choice.about}" for choice in kind)


def _value(key: dict[str, Any], shapes: dict[str, Any]) -> str:
    """What a key takes, in words.

    key: its JSON schema
    shapes: the shapes that the schema refers to, by name
    """
    key = shapes.get(key.get("$ref", "").rpartition("/")[2], key)
    options = key.get("anyOf") or key.get("oneOf")
    if options:
        kinds = [_value(option, shapes) for option in options if option.get("type") != "null"]
        if {"number", "fraction"} <= set(kinds):
            kinds.remove("fraction")
        return " or ".join(dict.fromkeys(kinds))
    if "const" in key:
        return f"`{json.dumps(key['const'])}`"
    if "enum" in key:
        return ", ".join(f"`{json.dumps(choice)}`" for choice in key["enum"])
    if key.get("format") in ("fraction", "time"):
        return {"fraction": "fraction", "time": "time of day"}[key["format"]]
    match key.get("type"):
        case "integer":
            low, high = key.get("minimum"), key.get("maximum")
            if low is None:
                return "whole number"
            return f"whole number, {low} to {high}" if high else f"whole number, from {low}"
        case "array":
            return f"list of {_value(key['items'], shapes)}"
        case "boolean":
            return "`true` or `false`"
        case "string":
            return "name" if "A-Za-z0-9" in key.get("pattern", "") else "text"
        case "number":
            return "number"
    return "table"
