"""Errors of sizes of groups by level on census blocks, and time and memory by groups.

    python benchmarks/sizes.py errors [RUNS] [EPS,...] [gaussian|geometric]
    python benchmarks/sizes.py inputs [RUNS] [EPS,...]
    python benchmarks/sizes.py methods [RUNS]
    python benchmarks/sizes.py time [MOST]

`errors`: earth mover's distance per region of each level (all, county, tract), native Hawaiians
and whites as members of 25,016 blocks, eps of .1 to 2 a level as double-geometric noise, and
discrete Gaussian noise of rho = eps^2 / 2. `before` is before the levels are made consistent,
`after` it; the baselines are plain averages and the paper's weights on the same noisy
values, and the omniscient yardstick, which knows what sizes occur.

`inputs`: the error over the error with the paper's weights, for ten inputs of few and many members:
everybody, whites and Hawaiians of the same blocks, and random shares of them. Gaussian noise.
Inputs of fewer than FEW members, whose distances are a few members, have 12 times the runs.

`methods`: the methods of Kuo et al. beside the default, before and after the levels are made
consistent: Hawaiians at two budgets, and ten regions of 300 groups with very different sizes.

`time`: partly synthetic housing (Kuo et al. 2018, section 6.1): households of 1 to 7, a tenth of a
per mille of groups with sizes of a heavy tail up to 10,000, in 52 states and 3,143 counties. The
baseline of a row is one sort of as many random numbers.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from data_sets import data_file
from kit.region_trees import hawaii, tree
from result_file import record

from stream_dp.batch.sizes.histogram import Regions, Sizes, earth_movers_distance
from stream_dp.batch.sizes.merging import Merge
from stream_dp.batch.sizes.sizes_fit import fit_levels
from stream_dp.batch.sizes.sizes_plan import (
    LevelPlan,
    SizesPlan,
    default_methods,
    level_plan,
    omniscient_error,
)
from stream_dp.batch.synthesizer import FitContext
from stream_dp.privacy.noise import SeededNoise, SystemNoise

EPSILONS = [Fraction(x) for x in ("1/10", "1/5", "1/2", "1", "2")]
SHORT = {"c": "cumulative-squares", "s": "sorted"}
MIXES = ("ccs",)
BOTH = (True, False)
LARGEST = 10_000
BLOCKS = "hawaii_2010_blocks.csv"
HOUSEHOLDS = np.array([0.28, 0.34, 0.15, 0.13, 0.06, 0.025, 0.015])


def plan_of(regions: Regions, mix: str, eps: Fraction, pure: bool) -> SizesPlan:
    levels = tuple(
        LevelPlan("add_remove", SHORT[m], eps if pure else eps**2 / 2, pure) for m in mix
    )
    return SizesPlan(regions, LARGEST, levels)


def distances(levels: object, true: object, regions: Regions) -> np.ndarray:
    """Mean distance per region, by level."""
    return np.array(
        [
            sum(map(earth_movers_distance, level, truth)) / len(truth)
            for level, truth in zip(levels, true, strict=True)  # type: ignore[call-overload]
        ]
    )


def errors(runs: int, epsilons: Sequence[Fraction], noises: Sequence[bool]) -> None:
    for column in ("pop_nhpi", "pop_white"):
        regions, leaves = hawaii(column, data_file(BLOCKS))
        true = regions.sums(leaves)
        distinct = [sum(len(s.size) for s in level) / len(level) for level in true]
        for pure in noises:
            for eps in epsilons:
                noise = "double-geometric" if pure else "Gaussian, rho = eps^2 / 2"
                print(f"\n{column}, eps {float(eps):g}, {noise}")
                for mix in MIXES:
                    rows: dict[str, list[np.ndarray]] = {}
                    plan = plan_of(regions, mix, eps, pure)
                    for seed in range(runs):
                        fitted = fit_levels(leaves, plan, FitContext(SeededNoise(seed)))
                        before = [[e.sizes for e in level.estimates] for level in fitted.levels]
                        rows.setdefault("before", []).append(distances(before, true, regions))
                        merged = {
                            "after": fitted.sizes,
                            "weighted": fitted.merged(Merge.WEIGHTED),
                            "plain": fitted.merged(Merge.PLAIN),
                        }
                        for name, sizes in merged.items():
                            rows.setdefault(name, []).append(distances(sizes, true, regions))
                    deviations = [level.variance**0.5 for level in plan.levels]
                    rows["omniscient"] = [
                        np.array(
                            [
                                omniscient_error(n, deviation)  # type: ignore[arg-type]
                                for n, deviation in zip(distinct, deviations, strict=True)
                            ]
                        )
                    ]
                    means = {name: np.mean(values, axis=0) for name, values in rows.items()}
                    text = "  ".join(
                        f"{name} {' / '.join(f'{x:.1f}' for x in mean)}"
                        for name, mean in means.items()
                    )
                    worst = (means["after"] / means["before"]).max()
                    print(f"  {mix}: {text}  ours over before, at most {worst:.3f}", flush=True)


FEW = 20_000
INPUTS = [
    *((column, share) for column in ("pop", "pop_white") for share in (1.0, 0.1)),
    *(("pop_white", share) for share in (0.3, 0.03)),
    *(("pop_nhpi", share) for share in (1.0, 0.3, 0.1, 0.03)),
]


def inputs(runs: int, epsilons: Sequence[Fraction]) -> None:
    """Prints and records the error over that of the paper's weights: whole, county, tract."""
    for column, share in INPUTS:
        whole, everybody = hawaii(column, data_file(BLOCKS))
        rng = np.random.default_rng(5)
        groups = {
            path: rng.binomial(np.repeat(sizes.size, sizes.groups), share).tolist()
            for path, sizes in zip(whole.leaves, everybody, strict=True)
        }
        regions, leaves = tree(groups)
        members = sum(sizes.members for sizes in leaves)
        true = regions.sums(leaves)
        for eps in epsilons:
            plan = plan_of(regions, MIXES[0], eps, pure=False)
            ours, paper = [], []
            for seed in range(12 * runs if members < FEW else runs):
                fitted = fit_levels(leaves, plan, FitContext(SeededNoise(seed)))
                ours.append(distances(fitted.sizes, true, regions))
                paper.append(distances(fitted.merged(Merge.WEIGHTED), true, regions))
            ratios = np.mean(ours, axis=0) / np.mean(paper, axis=0)
            name = f"{members:,} members, eps {float(eps):g}"
            print(
                f"{column} {share:g}, {name}: {' / '.join(f'{r:.3f}' for r in ratios)}", flush=True
            )
            record("sizes-inputs", name, *ratios)


CHOICE = ("cumulative-squares", "sorted")


def unequal() -> tuple[Regions, list[Sizes]]:
    """Ten regions of 300 groups, whose sizes have a heavy tail."""
    rng = np.random.default_rng(1)
    tail = np.minimum(rng.pareto(1.1, (10, 300)) * 300, LARGEST).astype(np.int64)
    return tree({(f"c{i}",): sizes.tolist() for i, sizes in enumerate(tail)})


def methods(runs: int) -> None:
    """Prints and records the errors of the whole and of the lowest level by method."""
    hawaiians, others = hawaii("pop_nhpi", data_file(BLOCKS)), unequal()
    inputs = [(hawaiians, "Hawaiians", Fraction(1, 200)), (hawaiians, "Hawaiians", Fraction(1, 2))]
    inputs += [(others, "unequal sizes", rho) for rho in (Fraction(1, 200), Fraction(1, 2))]
    for (regions, leaves), name, rho in inputs:
        true, rows = regions.sums(leaves), {}
        default = default_methods(regions)
        absolute = [method.removesuffix("-squares") for method in default]
        candidates = [[(m,) for m in chosen] for chosen in (default, absolute)]
        candidates += [[("naive",)] * regions.depth, [CHOICE] * regions.depth]
        for levels in candidates:
            plans = tuple(level_plan("add_remove", names, rho) for names in levels)
            plan = SizesPlan(regions, LARGEST, plans)
            whole = []
            for seed in range(runs):
                fitted = fit_levels(leaves, plan, FitContext(SeededNoise(seed)))
                before = [[e.sizes for e in level.estimates] for level in fitted.levels]
                whole.append([distances(s, true, regions) for s in (before, fitted.sizes)])
            (first, _), (top, lowest) = np.mean(whole, axis=0)[:, [0, -1]]
            for place, value in (("whole, before", first), ("whole", top), ("lowest", lowest)):
                rows.setdefault(place, []).append(value)
        for place, values in rows.items():
            print(f"{name}, rho {float(rho):g}, {place}: {' / '.join(f'{v:,.0f}' for v in values)}")
            record("papers-kuo18-methods", f"{name}, rho {float(rho):g}, {place}", *values)


def housing(groups: int) -> tuple[Regions, list[Sizes]]:
    """About so many groups in 3,143 counties of unequal size."""
    rng = np.random.default_rng(1)
    weights = rng.pareto(1.1, 3143) + 0.01
    counts = np.maximum(np.round(groups * weights / weights.sum()), 1).astype(np.int64)
    states = rng.integers(0, 52, 3143)
    paths, leaves = {}, {}
    for county, (state, count) in enumerate(zip(states.tolist(), counts.tolist(), strict=True)):
        large = count // 10_000
        small = rng.multinomial(count - large, HOUSEHOLDS)
        tail = np.minimum(8 * (1 + rng.pareto(0.9, large)), LARGEST).astype(np.int64)
        path = (f"{state:02}", f"{county:04}")
        paths[path] = count
        leaves[path] = Sizes.of(
            np.concatenate([np.arange(1, 8), tail]),
            np.concatenate([small, np.ones(large, np.int64)]),
        )
    regions = Regions.of(("state", "county"), paths)
    return regions, [leaves[path] for path in regions.leaves]


def timing(most: int) -> None:
    heads = ("groups", "seconds", "sort, s", "ratio", "peak GiB", "distance / yardstick")
    print("".join(f"{head:>12}" for head in heads))
    for groups in (10**5, 10**6, 10**7, 10**8, 24 * 10**7):
        if groups > most:
            return
        regions, leaves = housing(groups)
        levels = tuple(
            LevelPlan("add_remove", m, Fraction(1, 200)) for m in default_methods(regions)
        )
        plan = SizesPlan(regions, LARGEST, levels)
        begun = time.perf_counter()
        fitted = fit_levels(leaves, plan, FitContext(SystemNoise()))
        sizes = fitted.sizes
        seconds = time.perf_counter() - begun
        begun = time.perf_counter()
        np.sort(np.random.default_rng(1).random(min(groups, 10**7)))
        sort = (time.perf_counter() - begun) * groups / min(groups, 10**7)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        true = regions.sums(leaves)
        yardstick = [
            sum(len(s.size) for s in level) / len(level) * declared.variance**0.5
            for level, declared in zip(true, plan.levels, strict=True)
        ]
        ratio = " / ".join(f"{x:.2f}" for x in distances(sizes, true, regions) / yardstick)
        row = f"{groups:>12}{seconds:>12.1f}{sort:>12.2f}{seconds / sort:>12.1f}{peak:>12.2f}"
        print(f"{row}  {ratio}", flush=True)


def main() -> None:
    what, *rest = sys.argv[1:] or ["errors"]
    if what == "inputs":
        chosen = [Fraction(eps) for eps in rest[1].split(",")] if rest[1:] else EPSILONS
        inputs(int(rest[0]) if rest else 2, chosen)
        return
    if what == "methods":
        methods(int(rest[0]) if rest else 3)
        return
    if what == "time":
        timing(int(float(rest[0])) if rest else 24 * 10**7)
    else:
        epsilons = [Fraction(eps) for eps in rest[1].split(",")] if rest[1:] else EPSILONS
        errors(int(rest[0]) if rest else 10, epsilons, [w == "geometric" for w in rest[2:]] or BOTH)


if __name__ == "__main__":
    main()
