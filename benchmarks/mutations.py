"""Whether the tests find faults: plants one mutation at a time and runs the tests that must fail.

Each mutation replaces a text that occurs exactly once in the product, in a copy of the tree. A text
that is gone or occurs twice ends the run: the table below then needs an edit. With --control the
tests also run without any mutation, and have to pass.

python benchmarks/mutations.py [NAME ...]         the named mutations, or all of them
python benchmarks/mutations.py --check            only finds the texts
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("stream_dp", "services")
FILES = ("tests", "deploy", "docs", "examples", "benchmarks", "pyproject.toml", "README.md")
_clock = itertools.count(1_000_000_000, 2)  # of written files: each differs from its compiled one


@dataclass(frozen=True)
class Mutation:
    """A planted fault.

    old, new: the text, and what takes its place.
    tests: files or functions below tests/, of which one must fail.
    """

    name: str
    old: str
    new: str
    tests: tuple[str, ...]


def _m(name: str, old: str, new: str, *tests: str) -> Mutation:
    return Mutation(name, old, new, tests)


NOISE, TABLES = "privacy/test_noise.py", "privacy/test_exact_tables.py"
LARGE = "test_a_large_draw_has_the_law_of_a_small_one_and_5_percent_off_is_noticed"
CHARGED = "test_what_is_published_costs_what_is_charged_and_no_more"
SELECTIONS = "test_selections_are_the_exponential_mechanism_and_a_scale_5_percent_off_is_noticed"
WINDOW, LATE = "statistical/test_window_errors.py", "statistical/test_late_entry.py"
RESIDUALS = "statistical/test_residual_errors.py"
DECLARED = "test_estimates_have_their_declared_errors_and_no_others"
HOUSEHOLDS = "batch/test_hpd_answers.py"
KILLS = "crash/test_kills.py"
FUZZ, SERVICE = "population/test_fuzz_population.py", "services/releaser/test_fuzz_service.py"

# fmt: off
MUTATIONS = (
    # Noise of a wrong scale.
    _m("table +5 %", "Law.gaussian(variance), size)",
       "Law.gaussian(variance * Fraction(441, 400)), size)", TABLES),
    _m("table -5 %", "Law.gaussian(variance), size)",
       "Law.gaussian(variance * Fraction(361, 400)), size)", TABLES),
    _m("sampler +5 %", "_measurement(scale_above(variance))",
       "_measurement(scale_above(variance) * 1.05)", f"{TABLES}::{LARGE}"),
    _m("sampler -5 %", "_measurement(scale_above(variance))",
       "_measurement(scale_above(variance) * 0.95)", f"{TABLES}::{LARGE}"),
    _m("selection +5 %", "_choice(picks, scale_above(variance))",
       "_choice(picks, scale_above(variance) * 1.05)", f"{NOISE}::{SELECTIONS}"),
    _m("selection -5 %", "_choice(picks, scale_above(variance))",
       "_choice(picks, scale_above(variance) * 0.95)", f"{NOISE}::{SELECTIONS}"),
    _m("geometric +5 %", "_from_table(Law.geometric(decay), size)",
       "_from_table(Law.geometric(decay * Fraction(20, 21)), size)", TABLES),
    _m("geometric -5 %", "_from_table(Law.geometric(decay), size)",
       "_from_table(Law.geometric(decay * Fraction(21, 20)), size)", TABLES),
    _m("seeded table +5 %", "support, cumulative = _table(variance)\n",
       "support, cumulative = _table(variance * Fraction(441, 400))\n",
       f"{NOISE}::test_seeded_noise_is_the_discrete_gaussian"),
    _m("window -5 %", "return ((self.noise, self._measured.size),)",
       "return ((self.noise * Fraction(361, 400), self._measured.size),)",
       f"{WINDOW}::test_three_symbols_have_variance_s2_at_every_time_as_well"),
    # Sensitivities and costs.
    _m("gaussian cost", "return Fraction(sensitivity2) / (2 * variance)",
       "return Fraction(sensitivity2) / (4 * variance)", "privacy/test_zcdp.py"),
    _m("geometric cost", "return change - 2 * powers / (1 + q)",
       "return change - 3 * powers / (1 + q)", "privacy/test_geometric.py"),
    _m("replacement of residuals", "total = cost + 2 * self._change(i, gap, differs)",
       "total = cost + self._change(i, gap, differs)", "continual/test_residuals.py"),
    _m("rounding of presence", "return (2 * self.releases + self._rounding,)",
       "return (self.releases + self._rounding,)", "continual/test_histogram_costs.py"),
    _m("noise of a window", "return self.costs[-1] / (2 * self.rho)",
       "return self.costs[-1] / (4 * self.rho)", f"statistical/test_audit.py::{CHARGED}"),
    _m("paths of counters", "cost[:-1, :-1] -= 2 * weight * products",
       "cost[:-1, :-1] -= weight * products", "continual/test_paths.py"),
    _m("couples", "SPOUSE: 6,", "SPOUSE: 5,", "batch/test_batch_sensitivity.py"),
    _m("children", "HAS_PARENT: max(4, 2 * c * c),", "HAS_PARENT: max(4, 2 * c),",
       "batch/test_batch_sensitivity.py"),
    _m("events", "return 2 * every if others * cells > 1", "return every if others * cells > 1",
       "batch/test_event_costs.py"),
    _m("ledger", "if charged.spent > self.total:", "if charged.spent > 2 * self.total:",
       "privacy/test_ledger.py"),
    _m("strata", "(max(values.values()) for", "(min(values.values()) for",
       "privacy/test_parallel.py"),
    _m("residuals -5 %",
       "return tuple((variances[i], int(n)) for i, n in zip(kinds, sizes, strict=True))",
       "return tuple((variances[i] * Fraction(361, 400), int(n)) for i, n in zip(kinds, sizes))",
       f"{RESIDUALS}::{DECLARED}"),
    _m("selected fits", "better = finite & (value < c.best_error)",
       "better = finite & (value > c.best_error)",
       "batch/test_hpd_fit.py::test_a_fit_reaches_answers_that_a_model_has"),
    _m("steps of a fit", "c.params - rate * (", "c.params - rate / 50 * (",
       "batch/test_hpd_fit.py::test_a_fit_reaches_answers_that_a_model_has"),
    _m("no empty groups", "nobody = nobody * (1 - first)", "nobody = nobody * 1",
       f"{HOUSEHOLDS}::test_an_answer_is_the_sum_over_all_households"),
    # Stated errors and intervals.
    _m("stated variance", "variances[self._measured] = exact_variance(self.noise)",
       "variances[self._measured] = exact_variance(self.noise) * 0.7",
       f"{RESIDUALS}::test_a_padded_panel_has_the_errors_of_its_estimates_and_a_rounding"),
    _m("shares", "noise = self.variances - 2 * shares * self.together + of_people",
       "noise = self.variances + of_people", "statistical/test_coverage.py"),
    _m("interval", "QUANTILE = NormalDist().inv_cdf((1 + LEVEL) / 2)",
       "QUANTILE = 0.9 * NormalDist().inv_cdf((1 + LEVEL) / 2)",
       f"{LATE}::test_no_default_is_wrong_by_those_who_enter_late"),
    _m("late arrivals", "variances[self.nobody] = self._direct_noise",
       "variances[self.nobody] = 2 * self._direct_noise", f"{RESIDUALS}::{DECLARED}"),
    # Log: fencing, order, hashes, what is lost.
    _m("fencing of a file", "if self.over or not self._lock.holds():", "if self.over:",
       "log/test_sqlite.py", "log/test_role_lock.py"),
    _m("fencing of a cluster", "return bool(committed.metadata == self._name)", "return True",
       "kafka/test_instances.py"),
    _m("aborted records", '"isolation.level": "read_committed",',
       '"isolation.level": "read_uncommitted",', "log/kafka/test_kafka_transactions.py"),
    _m("append times", "time = max(append_time, time)", "time = append_time",
       "log/test_sqlite.py"),
    _m("chain", "if message.previous != previous:", "if False:", "log/test_message.py"),
    _m("hash of a part", "(name, len(data), hashlib.sha256(data).hexdigest())",
       "(name, len(data), hashlib.sha256(data[:1]).hexdigest())", "log/test_message.py"),
    _m("publication before the decision",
       "                run.journal.commit(end, self.context.at)\n",
       "                run.publisher.publish(end.entry, until_idle)\n"
       "                run.journal.commit(end, self.context.at)\n",
       f"{KILLS}::test_a_kill_at_a_step"),
    _m("decided twice", "if count < len(entry.published):", "if count <= len(entry.published):",
       f"{KILLS}::test_a_kill_at_a_step", "services/releaser/test_recovery.py"),
    _m("witness", "self.witness.advance_to(end.entry.message)", "pass",
       "services/releaser/test_witness.py"),
    _m("older witness", "if len(entries) < seen.entries:", "if len(entries) < 0:",
       "services/releaser/test_witness.py"),
    _m("damaged snapshot", 'hashlib.file_digest(file, "sha256").hexdigest() != digest', "False",
       "services/storage/test_snapshots.py", "population/test_population.py"),
    _m("signature", "if not is_signed(self.keys[-1], message.manifest, message.signature):",
       "if False:", "services/releaser/test_signatures.py"),
    # People.
    _m("one lost cell", "self.accounting.pending += len(cells)",
       "self.accounting.pending += max(0, len(cells) - 1)",
       f"{FUZZ}::test_the_population_is_what_a_dictionary_would_be"),
    _m("a refused person's cells", "unplaced.append(column.rows[coded & (slots_with_code < 0)])",
       "pass", f"{FUZZ}::test_the_population_is_what_a_dictionary_would_be"),
    _m("the first word counts", "row_of[person[rows]] = rows  #",
       "row_of[person[rows][::-1]] = rows[::-1]  #",
       f"{FUZZ}::test_the_population_is_what_a_dictionary_would_be",
       "population/test_final_cells.py"),
    _m("late reports", "if period <= closed:", "if period < closed:", "population/test_judging.py",
       "population/test_fuzz_reports.py",
       f"{FUZZ}::test_the_population_is_what_a_dictionary_would_be"),
    _m("half a hash", "begins[1:] |= lo[order[1:]] != lo[order[:-1]]", "pass",
       f"{FUZZ}::test_half_a_hash_in_common_and_one_question_only", "population/test_hashing.py",
       "population/test_final_cells.py"),
    # Doors.
    _m("door: send", "fitting = {n: c for n, c in cells if c is not None and len(c) == width}",
       "fitting = {n: (c + [''] * width)[:width] for n, c in cells if c is not None}",
       "noninterference/test_sent_files.py", "services/commands/test_wrong_files.py"),
    _m("door: table reader", "if DAMAGED in header:", "if False:",
       "services/commands/test_wrong_files.py", "population/test_table_files.py"),
    _m("door: schema", '"multipleOf": scale.step,', "", "population/test_numbers.py"),
    _m("door: monitor",
       "            if user is not None:\n                await self._application(",
       "            if True:\n                await self._application(",
       "services/monitor/test_operator.py"),
    _m("door: restore", "if len(present) > len(decided) and present[: len(decided)] == decided:",
       "if False:", "services/storage/backups"),
    _m("door: decoder", "whole_refusal(0 < len(name) <= LONGEST_ID,", "whole_refusal(True,",
       "population/test_judging.py", "population/test_report.py"),
)
# fmt: on


def located(mutation: Mutation, root: Path) -> Path:
    """Finds the one file of the product with the text of a mutation. Ends the program otherwise."""
    found = [
        (path, path.read_text().count(mutation.old))
        for folder in PRODUCT
        for path in sorted((root / folder).rglob("*.py"))
    ]
    places = [(path, count) for path, count in found if count]
    if len(places) != 1 or places[0][1] != 1:
        names = ", ".join(f"{path.relative_to(root)} ({count})" for path, count in places)
        sys.exit(f"mutation '{mutation.name}': its text must occur once, not in: {names or 'any'}")
    return places[0][0]


def passes(root: Path, tests: tuple[str, ...]) -> bool:
    """Runs tests in the copy; tells whether all pass. Ends the program if they cannot be run."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += [f"tests/{test}" for test in tests]
    environment = {**os.environ, "PYTHONPATH": str(root), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}:\n{done.stdout[-3000:]}{done.stderr[-2000:]}")
    return done.returncode == 0


def written(path: Path, text: str) -> None:
    """Writes a file with a time of its own, so that no compiled file of another text is read."""
    path.write_text(text)
    moment = next(_clock)
    os.utime(path, (moment, moment))


def planted(root: Path, mutation: Mutation) -> bool:
    """Plants a mutation in the copy, runs its tests, and takes it back; tells whether found."""
    path = located(mutation, root)
    text = path.read_text()
    written(path, text.replace(mutation.old, mutation.new))
    try:
        return not passes(root, mutation.tests)
    finally:
        written(path, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--control", action="store_true")
    options = parser.parse_args()
    chosen = [m for m in MUTATIONS if not options.names or m.name in options.names]
    for mutation in chosen:
        located(mutation, ROOT)
    print(f"{len(chosen)} mutations, each at one place")
    if options.check:
        return
    with tempfile.TemporaryDirectory(prefix="stream-dp-") as folder:
        root = Path(folder)
        for name in (*PRODUCT, *FILES):
            source, ignore = ROOT / name, shutil.ignore_patterns("__pycache__", "*.egg-info")
            if source.is_dir():
                shutil.copytree(source, root / name, symlinks=True, ignore=ignore)
            else:
                shutil.copy(source, root / name)
        for name in (".kafka", ".tools"):
            (root / name).symlink_to(ROOT / name)
        tests = tuple(dict.fromkeys(test for m in chosen for test in m.tests))
        if options.control and not passes(root, tests):
            sys.exit("a test fails without a mutation")
        missed = 0
        for mutation in chosen:
            begun = time.monotonic()
            found = planted(root, mutation)
            missed += not found
            seconds = time.monotonic() - begun
            print(
                f"{'found' if found else 'NOT FOUND':>9} {seconds:6.1f} s  {mutation.name}",
                flush=True,
            )
    print(f"{len(chosen) - missed} of {len(chosen)} found")
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
