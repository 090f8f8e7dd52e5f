"""Faults of data sets and of groups, against the other sections of a study file."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from fractions import Fraction

from stream_dp.errors import UserError

from .data_sets import DataSetRelease
from .groups import KEY_COLUMN, SIZE_COLUMN, BatchRelease, Groups, check_relation
from .periods import Periods
from .sections import Sections


def batch_faults(batch: DataSetRelease, sections: Sections) -> Iterator[str]:
    """Faults of a batch release, to be put after its place in the file."""
    periods = sections.periods
    if (batch.every is None) == (batch.at is None):
        yield ": declare every = N periods, or at = [PERIODS]: one of both"
    elif periods is not None and batch.every is not None and batch.every > periods.count:
        yield f".every: {batch.every} periods is over the horizon of {periods.count}"
    labels = periods.labels if periods is not None else ()
    for label in batch.at or ():
        if labels and label not in labels:
            yield f".at: '{label}' is none of the study's periods {labels[0]} to {labels[-1]}"
    if len(set(batch.at or ())) < len(batch.at or ()):
        yield ".at: a period stands there twice"
    if len(set(batch.attributes)) < len(batch.attributes):
        yield ".attributes: an attribute stands there twice"
    unknown = [name for name in batch.attributes if name not in sections.attribute_names]
    for name in unknown:
        yield f".attributes: no attribute '{name}' is declared"
    if isinstance(batch, BatchRelease):
        yield from _grouped_faults(batch, sections)


def _grouped_faults(batch: BatchRelease, sections: Sections) -> Iterator[str]:
    """Faults of a batch release of groups with their members."""
    if batch.rows is not None and not batch.kind.startswith("hpd"):
        yield f".rows: '{batch.kind}' fits no mixture; leave it out"
    if not sections.has_groups:
        yield f": '{batch.kind}' is about groups of people: declare [groups]"
    elif sections.groups is not None and all(n in sections.attributes for n in batch.attributes):
        groups = sections.groups
        if groups.roles is not None and batch.kind == "independent":
            yield ": 'independent' knows nothing of [groups.roles]; take another kind"
        if KEY_COLUMN in {*groups.attributes, *batch.attributes}:
            yield f": the name '{KEY_COLUMN}' is reserved for the key of a group"


def groups_faults(sections: Sections) -> Iterator[str]:
    """Faults of `[groups]` and of the study's unit and relation, each with its place."""
    batches = [b for b in sections.batches if isinstance(b, BatchRelease)]
    if (
        sections.has_groups
        and not batches
        and all(r is not None for _, r in sections.numbered_releases)
    ):
        yield "groups: no release uses it: declare a batch release, or remove it"
    groups = sections.groups
    if groups is not None:
        yield from role_column_faults(groups, sections.attribute_names)
    if groups is not None and sections.unit == groups.unit:
        yield (
            f"study.unit: '{groups.unit}' is what groups are called; what is protected is a member"
            " of one, such as a person"
        )
    if batches and sections.neighbours is not None:
        try:
            check_relation(sections.neighbours)
        except UserError as error:
            yield from (f"study.{line}" for line in error.lines)


def role_column_faults(groups: Groups, attributes: Collection[str]) -> Iterator[str]:
    """Faults of the roles' column, against every attribute: a release may use any of them."""
    roles = groups.roles
    if roles is None:
        return
    if roles.column in attributes or roles.column in groups.attributes:
        yield f"groups.roles.column: '{roles.column}' is an attribute; a role is nobody's answer"
    if roles.column in {KEY_COLUMN, SIZE_COLUMN}:
        yield f"groups.roles.column: the name '{roles.column}' is reserved"
    if len({str(v) for v in roles.values}) < len(roles.values):
        yield "groups.roles: head, spouse, child and others must be different values"
    if roles.children >= max(groups.most, 2):
        yield f"groups.roles.children: must be fewer than groups.most = {groups.most}"


def batch_cost(batch: DataSetRelease, periods: Periods | None) -> Fraction:
    """The rho of all data sets of a batch release together; of one where periods have a fault."""
    if batch.at is not None:
        return batch.rho * len(batch.at)
    return batch.rho * (periods.count // (batch.every or 1) if periods is not None else 1)
