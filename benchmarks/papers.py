"""What the papers report, and the commands that repeat the nearest figures here.

    python benchmarks/papers.py [--short] [bun24 | liu22 | vietri22 | kuo18 | match3 ...]

Prints a paper's statement, then runs its commands. `--short` takes the fewest repetitions. All of
them take less than an hour on two cores.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Paper:
    """statement: what the paper reports. commands: scripts with arguments, whole and short."""

    statement: str
    commands: tuple[tuple[str, str], ...]


PAPERS = {
    "bun24": Paper(
        "Bun, Gaboardi, Neunhoeffer, Zhang (2024): at rho = .005, 12 periods and windows of 3 a"
        " pattern's noise has a standard deviation of 31.6; no pattern is off by more than 129.9"
        " with probability .95.",
        (
            ("paper/compare.py --repetitions 60", "paper/compare.py --repetitions 4 poverty-added"),
            ("paper/panels.py --repetitions 40", ""),
            ("paper/all_ones.py", "paper/all_ones.py --repetitions 20"),
            ("paper/separate_counters.py", "paper/separate_counters.py"),
        ),
    ),
    "liu22": Paper(
        "Liu and Wu (2022): HPD-Fixed and MWEM have about equal errors (figures without numbers).",
        (("households.py reduced 3", "households.py reduced 1"),),
    ),
    "vietri22": Paper(
        "Vietri and others (2022), RAP++: 2 to 5 times as fast as PGM, with F1 as good or better.",
        (
            ("people_numbers.py nist --eps 1", "people_numbers.py nist --eps 1 --seeds 1"),
            ("people_numbers.py nist --eps 1 --seeds 1 --methods locations", ""),
        ),
    ),
    "kuo18": Paper(
        "Kuo, Chiu, Kifer, Hay, Machanavajjhala (2018): native Hawaiians by census block, three"
        " levels, Hc with consistency: 1862 / 1071 / 470 at eps .1 a level, 235 / 122 / 53 at 1.",
        (
            ("sizes.py errors 10 0.1,1 geometric", "sizes.py errors 1 1 geometric"),
            ("sizes.py methods", "sizes.py methods 1"),
        ),
    ),
    "match3": Paper(
        "McKenna, Miklau, Sheldon (2021): the synthesizer that won the 2018 NIST challenge;"
        " two phases, rare values merged below 3 standard deviations.",
        (("people.py --seeds 1 survey rare", "people.py --seeds 1 rare"),),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("papers", nargs="*", metavar="PAPER", help=", ".join(PAPERS))
    parser.add_argument("--short", action="store_true", help="the fewest repetitions")
    options = parser.parse_args()
    if unknown := {*options.papers} - {*PAPERS}:
        parser.error(f"no paper {', '.join(sorted(unknown))}; there are {', '.join(PAPERS)}")
    for name in options.papers or PAPERS:
        paper = PAPERS[name]
        print(f"{name}: {paper.statement}", flush=True)
        for whole, short in paper.commands:
            if command := short if options.short else whole:
                script, *arguments = command.split()
                path = ROOT / "benchmarks" / script
                print(f"\n$ python benchmarks/{command}", flush=True)
                subprocess.run([sys.executable, str(path), *arguments], check=True)
        print()


if __name__ == "__main__":
    main()
