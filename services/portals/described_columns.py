"""Columns of published tables in words: the type, a label, and the labels of the values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from stream_dp.answers.query import event_words
from stream_dp.study import DataSetRelease, Family, Release, SizesRelease, Study, TableRelease
from stream_dp.study.families import PANEL_FAMILIES, Registry
from stream_dp.study.field_types import ABSENT
from stream_dp.study.group_releases import KEY_COLUMN, PERSON_COLUMN, SIZE_COLUMN, EventsRelease

ColumnType = Literal["integer", "number", "string"]
_Answers = dict[str, tuple[str, str]]  # by column, the attribute and the label
_Words = tuple[Mapping[str, str], _Answers]  # labels by column, and the columns of answers

# Of tables of noisy answers, estimates and sizes.
_LABELS = {
    "period": "the period of the answer",
    "query": "the question that is answered",
    "value": "the unbiased noisy answer",
    "variance": "the variance of the noise, an exact fraction",
    "standard_error": "the standard error of the privacy noise",
    "entry": "the entry of the measured list of sizes",
    "level": "the level of regions; all is every region together",
}


@dataclass(frozen=True)
class DescribedColumn:
    """A column.

    values: the possible values with a label each; empty if they are not listed.
    codes: the values of a column of numbers that are no numbers.
    """

    name: str
    type: ColumnType
    label: str
    values: tuple[tuple[int | str, str], ...] = ()
    codes: tuple[int, ...] = ()


def described_columns(
    study: Study,
    release: Release | DataSetRelease,
    table: str,
    schema: pa.Schema,
    values: Mapping[str, tuple[int | str, ...]],
) -> tuple[DescribedColumn, ...]:
    """The columns of a table of a release. values: by column, the listed ones."""
    labels: Mapping[str, str] = {**_LABELS, **_size_labels(study)}
    answers = _Answers()
    if table not in {"measurements", "estimates"}:
        labels, answers = _WORDS[release.family](study, release, schema.names)
    described = []
    for column in schema:
        attribute, label = answers.get(column.name, ("", labels.get(column.name, column.name)))
        listed = values.get(column.name, ())
        texts = _value_labels(study, release, attribute, listed)
        declared = study.attributes.get(attribute)
        codes = () if declared is None else declared.special or ()
        if codes:
            label += f"; codes that are no numbers: {', '.join(map(str, codes))}"
        values_in_words = tuple(zip(listed, texts, strict=True))
        described.append(
            DescribedColumn(column.name, _type(column.type), label, values_in_words, codes)
        )
    return tuple(described)


def _panel_words(study: Study, release: Release, columns: Sequence[str]) -> _Words:
    """Columns are named by the period, and of products by the period and the attribute."""
    named = _Answers()
    for column in columns[1:]:
        period, _, attribute = column.partition(" ")
        attribute = attribute or release.attributes[0]
        named[column] = attribute, f"{attribute} in {period}"
    return {"row": f"the number of the synthetic {study.unit}"}, named


def _table_words(study: Study, release: TableRelease, columns: Sequence[str]) -> _Words:
    """Labels of columns, and by column of an answer its attribute and label."""
    answers = _Answers()
    for answer in release.answers:
        ago = f", {answer.ago} periods before" if answer.ago else ""
        answers[answer.column] = answer.attribute, f"{answer.attribute} of the person{ago}"
    for name, source in release.derived_from.items():
        answers[name] = "", f"{name}, derived from {source}"
    return _group_labels(study), answers


def _event_words(study: Study, release: EventsRelease, columns: Sequence[str]) -> _Words:
    unit = release.events.unit
    labels = {
        PERSON_COLUMN: f"the number of the synthetic {study.unit}",
        SIZE_COLUMN: f"how many {unit}s the {study.unit} has",
        **{name: f"{name} of the {unit}" for name in release.events.columns},
    }
    return labels, {name: (name, f"{name} of the {study.unit}") for name in release.attributes}


def _size_words(study: Study, release: SizesRelease, columns: Sequence[str]) -> _Words:
    return {**_LABELS, **_size_labels(study)}, _Answers()


_WORDS: Registry[Family, Callable[..., _Words]] = Registry(
    "columns of tables in words",
    Family,
    {
        **dict.fromkeys(PANEL_FAMILIES, _panel_words),
        Family.PEOPLE: _table_words,
        Family.HOUSEHOLDS: _table_words,
        Family.EVENTS: _event_words,
        Family.SIZES: _size_words,
    },
)


def _group_labels(study: Study) -> dict[str, str]:
    """The labels of groups' columns, of the role, and of the added key and size."""
    if study.groups is None:
        return {}
    unit = study.groups.unit
    labels = {name: f"{name} of the {unit}" for name in study.groups.attributes}
    if study.groups.roles is not None:
        labels[study.groups.roles.column] = f"the role in the {unit}"
    numbers = {
        KEY_COLUMN: f"the number of the synthetic {unit}",
        SIZE_COLUMN: f"how many members the {unit} has",
    }
    return {**labels, **numbers}


def _size_labels(study: Study) -> dict[str, str]:
    if study.places is None:
        return {}
    unit = study.places.unit
    return {
        **{name: f"the {name} of the {unit}s" for name in study.places.regions},
        "size": f"how many people a {unit} has; the largest size stands for larger ones, too",
        "groups": f"the published number of {unit}s of this size",
    }


def _value_labels(
    study: Study,
    release: Release | DataSetRelease,
    attribute: str,
    values: Sequence[int | str],
) -> list[str]:
    """The labels of listed values, of which an attribute declares that of its value of interest."""
    if release.patterns is None and release.totals is not None:
        event = event_words(study, release.totals)  # its panels have 1 for the event, and 0
        labels = {"1": event, "0": f"not {event}"}
    else:
        labels = _declared_labels(study, attribute)
    labels[ABSENT] = "no answer, or not among the people"
    return [labels.get(str(value), str(value)) for value in values]


def _declared_labels(study: Study, attribute: str) -> dict[str, str]:
    """The label of the value of interest; the other one of two values is 'not' and the label."""
    declared = study.attributes.get(attribute)
    label = None if declared is None else declared.value_label
    if declared is None or label is None or not declared.listed:
        return {}
    interest = str(declared.listed[-1] if declared.interest is None else declared.interest)
    labels = {interest: label}
    if len(declared.listed) == 2:
        labels |= {str(v): f"not {label}" for v in declared.listed if str(v) != interest}
    return labels


def _type(kind: pa.DataType) -> ColumnType:
    if pa.types.is_integer(kind):
        return "integer"
    return "number" if pa.types.is_floating(kind) else "string"
