"""The privacy cost of published noise, by definition: recompute_costs.py STUDY.toml CHECK.json OUT

CHECK.json is from `stream-dp check STUDY.toml --json`, and OUT/NAME of every release from
`stream-dp export PUBLIC NAME OUT/NAME --format csv`. The cost of two neighbours is the sum over all
noisy values of their squared difference, divided by twice the variance of the noise. All neighbours
are tried, and the largest cost is computed as a fraction. The script has numpy, the standard
library and the formulas of docs/mechanisms, and nothing of stream-dp. The exit code is 1 if a cost
is above its charge.
"""

import csv
import itertools
import json
import math
import sys
import tomllib
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
from recompute_table_costs import Skipped, independent_cost, sizes_cost, table_cost

PANELS = ("window", "cumulative", "joint")
KINDS = (*PANELS, "table", "mixture", "rap", "match", "independent", "sizes")
MOST_ALONE, MOST_IN_PAIRS = 1 << 20, 1 << 12  # that are tried


class Histories:
    """Histories of one person, as codes (n, periods), and their part in every noisy value."""

    def __init__(self, study, release, codes, weights):
        attribute = study["attributes"][release["attribute"]]
        self.symbols, missing = symbols_of(attribute), str(attribute.get("missing"))
        self.filled = self.symbols.index(missing) if missing in self.symbols else -1
        self.weights = weights
        self.codes, self.width = codes, release.get("width")
        events = [self.symbols.index(str(value)) for value in release.get("event", ())]
        happened = np.isin(codes, events)
        self.event = np.where(happened, happened.cumsum(axis=1), 0)  # its number, or 0
        self.present = cache(lambda s: (codes[:, sorted(s)] != self.filled).all(axis=1))

    def part(self, query, t, horizon):
        """What each history adds to a noisy value of period t (from 1 on), (n,) whole numbers."""
        kind, _, rest = query.partition(" ")
        if kind == "people":
            return np.ones(len(self.codes), np.int64)
        if kind == "coupled":
            return self._coupled(int(rest.split()[1]), int(rest.split()[3]))
        window = self.codes[:, t - self.width : t].T
        if kind == "pattern":
            wanted = [self.symbols.index(symbol) for symbol in rest.split(" ")]
            return np.equal(window.T, wanted).all(axis=1).astype(np.int64)
        if kind == "presence":
            sets, factor = presence_factor(self.width, horizon, len(self.symbols))
            words = enumerate(rest.split(" "), t - self.width)
            row = factor[sets.index({i for i, word in words if word == "present"})]
            return sum(c * self.present(s) for c, s in zip(row, sets, strict=True) if c)
        product = np.ones(len(self.codes), np.int64)  # a residual
        for column, word in zip(window, rest.split(", "), strict=True):
            if word != "?":
                product *= self._contrast(word)[column]
        return product

    def _contrast(self, word):
        """By symbol, for `a|b - 2 * c`: 1 for a and b, -2 for c, and 0 for all others."""
        plus, minus = word.split(" - ")
        times, _, last = minus.rpartition(" * ")
        row = np.zeros(len(self.symbols), np.int64)
        row[[self.symbols.index(symbol) for symbol in plus.split("|")]] = 1
        row[self.symbols.index(last)] = -int(times or 1)
        return row

    def _coupled(self, b, t):
        """y_b(t), by the weights of this threshold and period."""
        if (b, t) not in self.weights:
            raise Skipped("its weights are missing: run write_total_weights.py")
        own, below = self.weights[b, t]
        part = (self.event[:, b - 1 : t] == b) @ own
        return part + (self.event[:, b - 2 : t - 1] == b - 1) @ below if below.size else part


def symbols_of(attribute):
    return [str(x) for x in attribute["values"]] + ["absent"] * (attribute["missing"] == "absent")


def weights_of(folder):
    """By threshold and period, the whole numbers in weights.csv; none without the file."""
    if not (folder / "weights.csv").exists():
        return {}
    with (folder / "weights.csv").open(encoding="utf-8") as lines:
        return {
            (int(row["b"]), int(row["t"])): tuple(
                np.array(row[name].split(), np.int64) for name in ("own", "below")
            )
            for row in csv.DictReader(lines)
        }


@cache
def presence_factor(k, horizon, q):
    """The sets of periods (from 0 on), and C in units of 2^-20, where X = C'C."""
    sets = []
    for i in range(horizon):
        for bits in range(1 << min(k - 1, i)):
            sets.append(frozenset({i, *(i - g for g in range(1, k) if bits >> (g - 1) & 1)}))
    x = np.zeros((len(sets), len(sets)))
    for (i, a), (j, b) in itertools.product(enumerate(sets), repeat=2):
        windows = max(0, min(min(a | b) + k, horizon) - max(*a, *b, k - 1))
        x[i, j] = windows * (-1) ** (len(a) + len(b)) * ((q / (q - 1)) ** len(a & b) - 1)
    factor = np.linalg.cholesky(x[::-1, ::-1])[::-1, ::-1].T
    return sets, np.rint(factor * (1 << 20)).astype(np.int64)


def panel_cost(study, release, labels, rows, weights):
    """The largest cost up to the last period that can be tried; this period; and what was tried."""
    if {"strata", "waves", "where", "counter"} & {*release}:
        raise Skipped("strata and separate counters are not recomputed")
    if not isinstance(release["attribute"], str):
        raise Skipped("several attributes are not recomputed")
    q = len(symbols_of(study["attributes"][release["attribute"]]))
    alone = study["study"]["neighbours"] == "add_remove"
    periods = min(len(labels), int(math.log(MOST_ALONE if alone else MOST_IN_PAIRS, q) + 1e-9))
    codes = np.indices((q,) * periods, np.int8).reshape(periods, -1).T
    asked = [(r["query"], labels.index(r["period"]) + 1, Fraction(r["variance"])) for r in rows]
    asked = [one for one in asked if one[1] <= periods]
    histories, squares, scaled = Histories(study, release, codes, weights), np.zeros(len(codes)), []
    for query, t, variance in asked:
        part = histories.part(query, t, len(labels)) / math.sqrt(2 * variance)
        squares += part**2
        if not alone:
            scaled.append(part)
    pair, most = [squares.argmax()], -1.0
    for i in range(0, 0 if alone else len(codes), 256):
        inner = np.array(scaled)[:, i : i + 256].T @ np.array(scaled)
        costs = squares[i : i + 256, None] + squares - 2 * inner
        if costs.max() > most:
            most, at = costs.max(), np.unravel_index(costs.argmax(), costs.shape)
            pair = [at[0] + i, at[1]]
    histories, cost = Histories(study, release, codes[pair], weights), Fraction(0)
    for query, t, variance in asked:
        part = histories.part(query, t, len(labels)).tolist()
        cost += Fraction(part[0] - (0 if alone else part[1])) ** 2 / (2 * variance)
    return cost, labels[periods - 1], f"{q}^{periods} histories" + (", each alone" * alone)


def recompute(study, check, folder):
    """Prints the cost of every release beside its charge; the largest share of a charge."""
    worst = 0.0
    declared = {release["name"]: release for release in study["releases"]}
    for name, kind, charges in ((r["name"], r["kind"], r["charges"]) for r in check["releases"]):
        try:
            if kind not in KINDS or name not in declared:
                raise Skipped(f"{kind} and strata are not recomputed")
            charged = [label for label in charges if Fraction(charges[label])]
            if kind == "sizes":
                phases = next(d["phases"] for d in check["data_sets"] if d["name"] == name)
                cost, tried = sizes_cost(study, declared[name], phases)
            else:
                with (Path(folder) / name / "measurements.csv").open(encoding="utf-8") as lines:
                    rows = list(csv.DictReader(lines))
            if kind in PANELS:
                cost, last, tried = panel_cost(
                    study, declared[name], [*charges], rows, weights_of(Path(folder) / name)
                )
                charged = [x for x in charged if [*charges].index(x) <= [*charges].index(last)]
            elif kind == "independent":
                cost, tried = independent_cost(study, rows)
            elif kind != "sizes":
                cost, tried = table_cost(study, declared[name], rows)
        except Skipped as why:
            print(f"{name}: not recomputed: {why}")
            continue
        charged = charged if kind in PANELS else charged[-1:]
        charge = sum(Fraction(charges[label]) for label in charged)
        worst = max(worst, cost / charge)
        share = "equal to" if cost == charge else f"{float(cost / charge):.9f} of"
        print(f"{name}: {float(cost):.9g} is {share} the charge {charge} up to {charged[-1]}")
        print(f"  tried: {tried}")
    return float(worst)


if __name__ == "__main__":
    study_file, check_file, folder = sys.argv[1:]
    declaration = tomllib.loads(Path(study_file).read_text("utf-8"))
    check_output = json.loads(Path(check_file).read_text("utf-8"))
    sys.exit(recompute(declaration, check_output, folder) > 1 + 1e-9)
