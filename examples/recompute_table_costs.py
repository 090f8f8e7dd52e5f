"""The costs of noisy tables and of sizes by definition, for recompute_costs.py."""

import itertools
import math
import operator
import re
from fractions import Fraction

MOST_PATTERNS = 1 << 16  # of agreement between two rows that are tried
MOST_ANSWERS = 1 << 10  # of numbers in sums that are tried


class Skipped(Exception):
    """Why a release is not recomputed."""


def table_cost(study, release, rows):
    """The largest cost of the residuals of a table, and what was tried."""
    blocks, seen = [], set()
    for row in rows:
        cell = dict(x.split("=", 1) for x in row["query"].split(", ") if "=" in x)
        if not blocks or {*cell} != {*blocks[-1][0]} or row["query"] in seen:
            blocks.append(({name: set() for name in cell}, Fraction(row["variance"])))
            seen = set()
        seen.add(row["query"])
        for name, value in cell.items():
            blocks[-1][0][name].add(value)
    declared, sums = {name: set() for name in release["attributes"]}, {}
    for name, values in itertools.chain.from_iterable(values.items() for values, _ in blocks):
        if name not in declared and "*" not in name:
            raise Skipped(f"column {name}, which is made of others, is not recomputed")
        declared.setdefault(name, set()).add(len(values))
        if "*" in name:
            sums[name] = values
    if study["study"]["neighbours"] == "add_remove":
        lengths = [
            math.prod(len(v) * (len(v) - 1) for v in values.values()) for values, _ in blocks
        ]
        return sum(n / (2 * s) for n, (_, s) in zip(lengths, blocks, strict=True)), "every row"
    # Two rows agree in a column, or differ, or differ until their values are merged into one.
    states = [("agree", "differ", "merged")[: 2 + (len(n) > 1)] for n in declared.values()]
    if math.prod(map(len, states)) > MOST_PATTERNS:
        raise Skipped("too many patterns of agreement")
    costs, possible = [], possible_agreements(study, sums)
    for pattern in itertools.product(*states):
        state, cost = dict(zip(declared, pattern, strict=True)), Fraction(0)
        if sums and tuple(state[name] == "agree" for name in possible[0]) not in possible[1]:
            continue
        for values, variance in blocks:
            length = inner = 1  # of the vector n e_x - 1 of a value x, over all columns
            for name, n in ((name, len(own)) for name, own in values.items()):
                merged = state[name] == "merged" and n < max(declared[name])
                length *= n * (n - 1)
                inner *= n * (n - 1) if state[name] == "agree" or merged else -n
            cost += Fraction(length - inner) / variance
        costs.append(cost)
    return max(costs), f"{len(costs)} patterns of agreement of two rows"


def possible_agreements(study, sums):
    """The columns of sums of numbers, and whether two rows agree in each: of all pairs of rows.

    sums: by a column such as 2*age-1*income, its cells such as ..10, 11..20, 21.. and absent.
    """
    terms = {name: re.findall(r"([+-]?[0-9]+)\*(\w+)", name) for name in sums}
    names = sorted({number for own in terms.values() for _, number in own})
    answers = []
    for name in names:
        attribute = study["attributes"][name]
        scale = attribute["number"]
        points = range(scale["least"], scale["most"] + 1, scale.get("step", 1))
        none = ["absent"] * (attribute["missing"] == "absent") + attribute.get("special", [])
        answers.append([(x, sum(x >= edge for edge in attribute["bins"])) for x in points])
        answers[-1] += [(None, word) for word in none]
    if math.prod(map(len, answers)) > MOST_ANSWERS:
        raise Skipped("sums of too many numbers")
    rows = set()
    for answered in itertools.product(*answers):
        row, value = [code for _, code in answered], dict(zip(names, answered, strict=True))
        for name, own in terms.items():
            numbers = [(int(weight), value[number][0]) for weight, number in own]
            ends = [int(cell.split("..")[1]) for cell in sums[name] if re.search(r"\.\.-?\d", cell)]
            absent = any(x is None for _, x in numbers)
            row.append(
                "absent" if absent else sum(sum(w * x for w, x in numbers) > e for e in ends)
            )
        rows.add(tuple(row))
    pairs = itertools.product(rows, repeat=2)
    return (*names, *sums), {tuple(map(operator.eq, *pair)) for pair in pairs}


def independent_cost(study, rows):
    """The cost of marginals of single columns: an answer changes two cells of each by 1."""
    if "roles" in study["groups"]:
        raise Skipped("roles are not recomputed")
    queries = ((row["query"].partition("="), row["variance"]) for row in rows)
    columns = {name: Fraction(s) for (name, _, _), s in queries if name.startswith("people: ")}
    return sum(1 / s for s in columns.values()), "all answers of a person"


def at_most(sizes, most):
    """How many places have at most s people, for every s."""
    return [sum(n <= s for n in sizes) for s in range(most + 1)]


METHODS = {
    "cumulative": at_most,
    "cumulative-squares": at_most,
    "sorted": lambda sizes, most: sorted(sizes),
    "naive": lambda sizes, most: [sizes.count(s) for s in range(most + 1)],
}


def sizes_cost(study, release, phases):
    """The largest cost of a person who enters, leaves or moves, among a few small places.

    Two places are in one region, and for every level another place parts from them there. So all
    ways are tried in which two places can share regions.
    """
    methods = [phase["title"].rpartition(": ")[2] for phase in phases]
    if "epsilon" in release or not {*methods} <= {*METHODS}:
        raise Skipped("double-geometric noise and choices between methods are not recomputed")
    if min(phase["least"] for phase in phases) < 1:
        raise Skipped("so little noise that its variance is not its parameter")
    depth, most = len(phases) - 1, min(release["largest"], 3)
    paths = [(0,) * depth] * 2 + [(0,) * i + (1,) * (depth - i) for i in range(depth)]

    def values(places):
        noted = []
        for level, (method, phase) in enumerate(zip(methods, phases, strict=True)):
            for region in sorted({path[:level] for path in paths}):
                own = [n for n, p in zip(places, paths, strict=True) if p[:level] == region]
                noted += [x / (2**0.5 * phase["least"]) for x in METHODS[method](own, most)]
        return noted

    tables = {p: values(p) for p in itertools.product(range(most + 1), repeat=len(paths))}
    ones = [tuple(int(i == j) for j in range(len(paths))) for i in range(len(paths))]
    nobody = (0,) * len(paths)
    relation = study["study"]["neighbours"]
    moves = itertools.product(ones, ones if relation != "add_remove" else [nobody])
    cost = 0.0
    for (to, away), (places, own) in itertools.product(moves, tables.items()):
        moved = tuple(n + a - b for n, a, b in zip(places, to, away, strict=True))
        if moved in tables:
            apart = zip(own, tables[moved], strict=True)
            cost = max(cost, sum((x - y) ** 2 for x, y in apart))
    return Fraction(cost), f"{len(tables)} tables of {len(paths)} places"
