"""Figures of a data set of groups and their members: marginals, and two-way tables on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import pyarrow as pa

from stream_dp.answers.tables.table_answer import answering
from stream_dp.answers.tables.table_facts import PublishedTables
from stream_dp.client import LEVEL, PublicLog
from stream_dp.errors import UserError
from stream_dp.release.published_tables import binned
from stream_dp.study.group_releases import KEY_COLUMN

from .charts import Bar, bars
from .marks import Chart

_MOST_BARS = 12  # of one column; the rest is one bar
_MOST_CELLS = 400  # of a two-way table


@dataclass(frozen=True)
class Marginal:
    """The values of a column with their shares of the rows of its table."""

    table: str
    column: str
    chart: Chart
    rows: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class TwoWay:
    """The rows of a table by two of its columns, as shares with a shade from 0 to 4.

    caption: what the shares are.
    """

    table: str
    caption: str
    across: str
    down: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]


@dataclass(frozen=True)
class DataSetFigures:
    """The figures of a data set.

    measured: the noisy answers that it was fitted to: query, value, 95 % interval, as texts.
    pairs: the two-way tables that can be asked for, as `table:column:column`.
    regions: how many regions sizes are released of; 0 for synthetic rows.
    """

    name: str
    period: str
    periods: tuple[str, ...]
    groups: int
    people: int
    group: str
    mechanism: str
    marginals: tuple[Marginal, ...]
    measured: tuple[tuple[str, str, str], ...]
    measured_count: int
    pairs: tuple[str, ...]
    regions: int = 0


def data_set_figures(public: PublicLog, name: str, period: str | None) -> DataSetFigures:
    """The figures of a data set. Raises UserError without a data set."""
    data_set = public.data_set(name, period)
    certificate = data_set.certificate
    values_of, tables = binned(certificate.columns, data_set.check())
    marginals, pairs = [], []
    for which, columns in values_of.items():
        names = [c for c in tables[which].column_names if c in columns]
        for column in names:
            marginals.append(_marginal(which, column, columns[column], tables[which][column]))
        pairs += [f"{which}:{a}:{b}" for a, b in combinations(names, 2)]
    unit = public.study.groups.unit if public.study.groups is not None else "group"
    return DataSetFigures(
        name=name,
        period=certificate.period,
        periods=tuple(public.periods_of(name)),
        groups=certificate.groups,
        people=certificate.people,
        group=unit,
        mechanism=certificate.mechanism,
        marginals=tuple(marginals),
        measured=_measured(data_set.measurements.slice(0, 200)),
        measured_count=certificate.measured,
        pairs=tuple(pairs),
    )


def _marginal(which: str, column: str, values: Sequence[int | str], codes: pa.Array) -> Marginal:
    counts = np.bincount(codes.to_numpy(), minlength=len(values))
    total = max(1, int(counts.sum()))
    rows = tuple(
        (str(value), f"{int(count):,}", f"{count / total:.2%}")
        for value, count in zip(values, counts, strict=True)
    )
    shown = [Bar(str(v), float(c) / total) for v, c in zip(values, counts, strict=True)]
    if len(shown) > _MOST_BARS:
        rest = sum(bar.share for bar in shown[_MOST_BARS - 1 :])
        shown = [*shown[: _MOST_BARS - 1], Bar("all others", rest)]
    summary = ", ".join(f"{bar.name} {bar.share:.1%}" for bar in shown)
    chart = bars(
        shown, f"% of the synthetic {which}", f"{column} of the synthetic {which}: {summary}."
    )
    return Marginal(which, column, chart, rows)


def _measured(table: pa.Table) -> tuple[tuple[str, str, str], ...]:
    return tuple(
        (
            row["query"],
            f"{row['value']:,.0f}",
            f"{row['value'] - 1.96 * row['standard_error']:,.0f} to"
            f" {row['value'] + 1.96 * row['standard_error']:,.0f}",
        )
        for row in table.to_pylist()
    )


def two_way(public: PublicLog, name: str, period: str | None, pair: str) -> TwoWay:
    """The two-way table of `table:column:column`. Raises UserError for an unknown pair."""
    published = public.published_tables(name, period)
    which, _, columns = pair.partition(":")
    values_of = published.columns.get(which, {})
    for down in values_of:
        for across in values_of:
            if columns == f"{down}:{across}" and down != across and KEY_COLUMN not in values_of:
                return _crossed(published, which, (down, across))
    raise UserError(f"release '{name}': has no two columns '{pair}' in one table")


def _crossed(published: PublishedTables, which: str, names: tuple[str, str]) -> TwoWay:
    table = published.tables[which]
    down, across = (published.columns[which][name] for name in names)
    if len(down) * len(across) > _MOST_CELLS:
        raise UserError(f"{names[0]} by {names[1]}: has too many cells for a page; download it")
    codes = [table[name].to_numpy().astype(np.int64) for name in names]
    counts = np.bincount(codes[0] * len(across) + codes[1], minlength=len(down) * len(across))
    shares = counts.reshape(len(down), len(across)) / max(1, int(counts.sum()))
    largest = max(float(shares.max(initial=0.0)), 1e-12)
    errors = _estimates(published, which, names)
    texts = [f"{share:.2%}" for share in shares.ravel()] if errors is None else errors
    caption = f"shares of the synthetic {which}"
    if errors is not None:
        caption = f"estimated shares of {which}, with half the width of their {LEVEL:.0%} intervals"
    rows = tuple(
        (
            str(value),
            tuple(
                (texts[i * len(across) + j], round(4 * share / largest))
                for j, share in enumerate(row)
            ),
        )
        for i, (value, row) in enumerate(zip(down, shares, strict=True))
    )
    columns = tuple(map(str, across))
    return TwoWay(which, caption, across=names[1], down=names[0], columns=columns, rows=rows)


def _estimates(published: PublishedTables, which: str, names: tuple[str, str]) -> list[str] | None:
    """The estimates of all cells, with half-widths of intervals; None if an interval is missing."""
    kind, texts = answering(published), []
    table = f"{which}: " if "groups" in published.tables else ""
    for value, second in product(*(published.columns[which][name] for name in names)):
        query = f"{table}{names[0]}={value} & {names[1]}={second}"
        answer = kind.answer(published, query, count=False)
        if answer.standard_error is None or answer.interval is None:
            return None
        low, high = answer.interval
        texts.append(f"{answer.value:.2%} ± {(high - low) / 2:.2%}")
    return texts
