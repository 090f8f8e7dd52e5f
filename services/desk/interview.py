"""The interview: from answers about a table to a study and the command that sends the table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

from stream_dp.errors import UserError
from stream_dp.json_object import Json
from stream_dp.population.tables.column_layout import EACH_ROW
from stream_dp.population.tables.text_files import PACKED
from stream_dp.population.tables.value_texts import Coding
from stream_dp.study import Study
from stream_dp.study.field_types import ABSENT
from stream_dp.study.period_texts import label_of_unit, require_period
from stream_dp.study.periods import Periods, PeriodUnit
from stream_dp.studyfile import parse_study

from .column_proposals import (
    MOST_VALUES,
    PAIR,
    TableHeader,
    attribute_names,
    known_coding,
    period_length,
    study_name,
)
from .questions import NONE, ONE, Questions, joined, listed, whole_number

# By length of a period, a label.
_EXAMPLES = {
    "day": "2026-01-31",
    "week": "2026-W05",
    "month": "2026-01",
    "quarter": "2026-Q1",
    "year": "2026",
    "step": "1",
}
_ONCE = (
    "each row is a person of its own: the guarantee does not cover a person who has several rows,"
    " or rows in several files"
)
_MOST_PERIODS, _MOST_PEOPLE = 600, 10**9
_BUDGET = Fraction(1, 100)  # that each release has until the precision is known


@dataclass(frozen=True)
class Interview:
    """The answers of an interview.

    study: with a budget that the precision does not determine yet.
    options: of `stream-dp send` for the table.
    half_width: the wanted half-width of a share's 95 % interval, at every period.
    """

    study: Study
    options: tuple[str, ...]
    half_width: float


@dataclass
class _Draft:
    """The name of the study, the options of `send`, the study's names of columns, and codings.

    codings: the attributes that `send` must be told about: whether columns hold codes or labels.
    """

    name: str
    options: list[str] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)
    codings: dict[Coding, list[str]] = field(default_factory=dict)


def interview(
    questions: Questions,
    file: Path,
    header: TableHeader,
    values: Mapping[str, list[str]],
    *,
    description: str = "",
    sources: Mapping[str, str] | None = None,
    labels: Mapping[str, Mapping[str, str]] | None = None,
) -> Interview:
    """Asks about a table of which only the header is known. Raises UserError.

    values: by column, the proposed values.
    description: of the study, beside the operator's own words.
    sources: by column, the hash of the public table that its proposed values are from.
    labels: by column, the labels of the file by code.
    """
    draft = _Draft(questions.ask("Name of the study", _sound_name, _file_name(file)))
    attributes, period = _columns(questions, header, draft)
    periods = _periods(questions, draft, header, period)
    people = _people(questions)
    sources = sources or {}
    declared = dict[str, Json]()
    for column, name in attributes.items():
        proposed = header.of_column(values, column) or []
        declared[name] = _attribute(questions, column, proposed, sources.get(column))
        named = header.of_column(labels or {}, column) or {}
        if coding := known_coding(named, proposed, [str(v) for v in declared[name]["values"]]):
            draft.codings.setdefault(coding, []).append(name)
    releases = [
        release
        for name, attribute in declared.items()
        for release in _releases(questions, name, attribute, periods["count"], people)
    ]
    percent = questions.ask("How precise must shares be, +- percentage points", _percent, "1")
    study = parse_study(
        {
            "study": {
                "name": draft.name,
                "description": description,
                "unit": people["unit"],
                "neighbours": people["neighbours"],
                "rho": str(_BUDGET * len(releases)),
                "delta": people["delta"],
                "periods": periods,
                "population": people["population"],
            },
            "attributes": declared,
            "releases": releases,
        }
    )
    if draft.columns:
        pairs = ",".join(f"{column}={name}" for column, name in draft.columns.items())
        draft.options += ["--columns", pairs]
    for coding, names in draft.codings.items():
        draft.options += [f"--{coding}", ",".join(names)]
    return Interview(study, tuple(draft.options), percent / 100)


def _columns(
    questions: Questions, header: TableHeader, draft: _Draft
) -> tuple[dict[str, str], str]:
    """Asks for ids, periods and published columns.

    Returns the attributes by column, and the column of periods: the pattern of these columns in a
    wide table, and `ONE` if all rows are of one period.
    """
    ids = questions.ask(
        f"Column that identifies a person; HOUSEHOLD{PAIR}NUMBER for two,"
        f" {EACH_ROW} if each row is one of its own",
        lambda answer: _identifying(answer, header.names),
        header.person,
    )
    if len(ids) == 2:
        draft.options += ["--group", ids[0], "--member", ids[1]]
    elif ids != ["person"]:
        draft.options += ["--person", *ids]
    names = [name for name in header.names if name not in ids]
    if ids == [EACH_ROW]:
        questions.show(_ONCE)
    period = questions.choose(
        f"Column of the period; {NONE} if each period has a column, {ONE} if all rows are of one",
        [*names, NONE, ONE],
        header.period or (NONE if header.wide else ONE),
    )
    if period == NONE:
        pattern = questions.ask(
            "Pattern of these columns, {} for what differs",
            lambda answer: _sound_pattern(answer, header),
            header.wide,
        )
        attribute = questions.ask(
            "Name of what they hold", _sound_name, study_name(pattern.replace("{}", "")) or "value"
        )
        draft.options += ["--attribute", attribute]
        return {pattern: attribute}, pattern
    if period not in ("period", ONE):
        draft.options += ["--period", period]
    rest = [name for name in names if name and name != period]
    published = questions.ask(
        "Columns to publish, with commas between them",
        lambda answer: _among(listed(answer), rest),
        joined(rest),
    )
    attributes = attribute_names(published)
    draft.columns |= {column: name for column, name in attributes.items() if column != name}
    return attributes, period


def _identifying(answer: str, names: Sequence[str]) -> list[str]:
    """The column of ids, or the columns of groups' keys and members' numbers."""
    pair = answer.split(PAIR)
    if answer not in names and len(pair) == 2 and set(pair) <= {*names}:
        return pair
    if answer not in names and answer != EACH_ROW:
        raise UserError(
            f"write one of {', '.join(names)}, two with {PAIR} between them, or {EACH_ROW} if no"
            " column identifies persons"
        )
    return [answer]


def _periods(questions: Questions, draft: _Draft, header: TableHeader, period: str) -> Json:
    """Asks for the length, the first and the number of periods."""
    wide = period if period not in header.names and period != ONE else ""
    length = questions.choose(
        "Length of a period", list(_EXAMPLES), period_length("month" if wide else header.period)
    )
    first = questions.ask(
        f"First period, such as {_EXAMPLES[length]}",
        lambda answer: _sound_period(length, answer),
        "1" if length == "step" else "",
    )
    columns = header.matching(wide) if wide else []

    def read(answer: str) -> Periods:
        texts = listed(answer) if length == "step" and not wide and "," in answer else []
        count = len(texts) or whole_number(answer, 1, _MOST_PERIODS)
        periods = Periods.model_validate({"every": length, "first": first, "count": count})
        if wide:
            draft.columns |= header.period_columns(wide, periods)
        if texts:
            draft.options += ["--map", _meanings(texts, periods)]
        return periods

    named = ", or their texts in order, such as 0,6,12" if length == "step" and not wide else ""
    declared = questions.ask(f"Number of periods{named}", read, str(len(columns) or 12))
    count = declared.count
    if period == ONE:
        chosen = questions.ask(
            "Period of all rows", lambda answer: require_period(declared, answer), first
        )
        draft.options += ["--period", chosen]
    return {"every": length, "first": first, "count": count, "close": "marker"}


def _meanings(texts: Sequence[str], periods: Periods) -> str:
    """The `--map` of `send` for the texts of all periods, in order. Raises UserError."""
    if fault := next((text for text in texts if set(text) & set('=:{}"')), ""):
        raise UserError(f"'{fault}' cannot be a text of a period; write, for example, 0,6,12")
    pairs = zip(texts, periods.labels, strict=True)
    return "period:" + ",".join(f"{text}={label}" for text, label in pairs)


def _people(questions: Questions) -> Json:
    """Asks who is protected and how many people there are."""
    unit = questions.ask("Who is protected, one ...", _sound_name, "person")
    public = questions.choose(f"Is the number of {unit}s public", ("yes", "no"), "yes")
    bound = "Number of" if public == "yes" else "At most how many"
    size = questions.whole(f"{bound} {unit}s", 1, _MOST_PEOPLE)
    delta = f"1e-{max(6, len(str(size)) + 1)}"
    relation: Json = {"neighbours": "add_remove", "population": {}, "rows": size}
    if public == "yes":
        relation = {"neighbours": "replace_one", "population": {"size": size}}
    return {"unit": unit, "delta": delta, **relation}


def _attribute(questions: Questions, column: str, proposed: list[str], source: str | None) -> Json:
    """Asks for the values of a column and for the meaning of a missing answer.

    source: the hash of the public table that the proposed values are from.
    """

    def read(answer: str) -> list[int | str]:
        values = _range(answer) or listed(answer)
        if len(values) < 2:
            raise UserError("write at least two values, such as yes,no or 0..10")
        return [int(v) if re.fullmatch("0|[1-9][0-9]{0,17}", v) else v for v in values]

    shown = joined(proposed) if len(proposed) <= MOST_VALUES else ""
    values = questions.ask(f"Values of '{column}', such as yes,no or 0..10", read, shown)
    texts = [str(value) for value in values]
    missing = questions.choose(
        f"Somebody without an answer to '{column}' counts as", [*texts, ABSENT], ABSENT
    )
    # Of texts such as yes,no the first is what figures show; of numbers the last, as usual.
    interest = {} if isinstance(values[-1], int) else {"interest": values[0]}
    taken = {"values_from": source} if source and {*texts} <= {*proposed} else {}
    return {
        "values": values,
        **taken,
        **interest,
        "missing": missing if missing == ABSENT else values[texts.index(missing)],
    }


def _releases(
    questions: Questions,
    name: str,
    attribute: Json,
    periods: int,
    people: Mapping[str, Any],
) -> list[Json]:
    """Asks for the releases of an attribute. A value that is counted becomes its `interest`."""
    values = attribute["values"]
    rows = {"rows": people["rows"]} if "rows" in people else {}
    common = {"attribute": name, "rho": str(_BUDGET), **rows}
    width = questions.whole(
        f"Patterns of '{name}' over how many periods", 1, min(periods, 12), str(min(3, periods))
    )
    releases: list[Json] = [
        {"name": f"{name}-patterns", "kind": "window", "width": width, **common}
    ]
    texts = [str(value) for value in values]
    event = questions.choose(
        f"Value of '{name}' to count over all periods so far; {NONE} for none",
        [*texts, NONE],
        NONE,
    )
    if event != NONE:
        attribute["interest"] = values[texts.index(event)]
        totals = {"kind": "cumulative", "event": [values[texts.index(event)]], **common}
        releases.append({"name": f"{name}-totals", **totals})
    return releases


def _range(answer: str) -> list[str]:
    low, dots, high = (part.strip() for part in answer.partition(".."))
    if not dots or not (low.isdecimal() and high.isdecimal()):
        return []
    if not 0 < int(high) - int(low) < 10_000:
        raise UserError("a range goes up, by less than 10,000")
    return [str(value) for value in range(int(low), int(high) + 1)]


def _file_name(file: Path) -> str:
    """A name of a study after a file, packed or not."""
    return study_name(Path(file.stem).stem if file.suffix.lower() in PACKED else file.stem)


def _sound_name(answer: str) -> str:
    if study_name(answer) != answer:
        raise UserError("use letters, digits, '.', '_' and '-', at most 64")
    return answer


def _sound_period(length: str, answer: str) -> str:
    label = label_of_unit(cast(PeriodUnit, length), answer)
    if label is None:
        raise UserError(f"write a {length} such as {_EXAMPLES[length]}")
    return label


def _sound_pattern(answer: str, header: TableHeader) -> str:
    if answer.count("{}") != 1 or not header.matching(answer):
        raise UserError("write a pattern with one {} that fits columns of the table, such as m{}")
    return answer


def _among(names: list[str], columns: list[str]) -> list[str]:
    for name in names:
        if name not in columns:
            raise UserError(f"there is no column '{name}'; there are {', '.join(columns)}")
    return names


def _percent(answer: str) -> float:
    try:
        points = float(answer.removesuffix("%"))
    except ValueError:
        points = 0.0
    if not 0.001 <= points <= 50:
        raise UserError("write a number from 0.001 to 50")
    return points
