"""`stream-dp audit`: a lower bound on what a study costs, from runs on simulated people.

The audit has the worst pair, repeated runs in both worlds, and the bounds on rho. No log is opened:
the noise of an audit hides nobody, and no data is read.
"""

from __future__ import annotations

import argparse
import hashlib
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import msgspec
from tqdm import tqdm

import stream_dp
from stream_dp import __version__
from stream_dp.errors import Inconsistent, UserError
from stream_dp.json_object import Json
from stream_dp.privacy.noise import NoiseSource, SeededNoise, SystemNoise, system_entropy
from stream_dp.release.signatures import AuditStatement, repeatable_statement
from stream_dp.study import DataSetRelease, Release, Study

from ..process.command_output import VIOLATION, Output
from ..storage.atomic_files import write_new_file
from ..storage.deployment import Deployment
from .histories import Progress, WorstPair
from .rho_bounds import APART, TwoScores, best_bound, counted_bound, gaussian_bound
from .study_runs import StudyRuns, runs_of


def run(options: argparse.Namespace) -> Output:
    deployment, file = Deployment.load(options.study), options.statement
    if options.repeat is not None:
        if options.release is not None or file is not None:
            raise UserError("--repeat: the statement names what is audited; leave all else out")
        return _repeated(deployment.study, options.repeat)
    study, signer = deployment.study, None
    if file is not None:
        signer = deployment.signing_key("signing")
        if signer is None:
            raise UserError(f"--statement {file}: name the study's key as [run.signing]")
        if file.exists():
            raise UserError(f"--statement {file}: is there already; name a new file")
        if not file.parent.is_dir():
            raise UserError(f"--statement {file}: its folder does not exist; make it first")
    release = None if options.release is None else study.declared(options.release)
    if options.release is not None and release is None:
        names = ", ".join(r.name for r in (*study.releases, *(study.batches or ())))
        raise UserError(f"release '{options.release}': the study declares {names}")
    with tqdm(
        desc=options.release or study.name, total=options.runs, disable=None, leave=False
    ) as bar:

        def progress() -> None:
            bar.update()

        # The noise of a statement can be repeated. It hides nobody: all people are simulated.
        seed = None if signer is None else int.from_bytes(system_entropy(6))
        source = SystemNoise() if seed is None else SeededNoise(seed)
        result = audit(study, release, source, runs=options.runs, progress=progress)
        result = replace(result, seed=seed)
    if signer is not None:
        statement = signer.attest(result.statement.payload(study))
        write_new_file(file, statement + "\n", public=True)
    return Output(result.as_dict(), result.text(), VIOLATION if result.violation else 0)


def _repeated(study: Study, file: Path) -> Output:
    """Repeats the audit of a statement. Raises Inconsistent if its figures are others."""
    stated = repeatable_statement(file, study)
    assert stated.seed is not None
    release = None if stated.release is None else study.declared(stated.release)
    prepared = PreparedAudit.of(study, release)
    pair = replace(prepared.pair, first=stated.pair[0], second=stated.pair[1])
    prepared = replace(prepared, pair=pair, size=stated.people)
    result = replace(prepared.run(SeededNoise(stated.seed), stated.runs), seed=stated.seed)
    found = result.statement
    figures = ("rho_declared", "rho_lower_bound", "rho_lower_bound_counted", "violation")
    for name in figures:
        one, other = getattr(stated, name), getattr(found, name)
        if not math.isclose(one, other, rel_tol=1e-6):
            code = "" if found.code_sha256 == stated.code_sha256 else "; it was made by other code"
            raise Inconsistent(
                f"{file}: states {name} {one:.6g}, the audit gives {other:.6g}{code}"
            )
    text = f"the audit of {file}, repeated with its seed, gives the figures that it states"
    return Output(result.as_dict(), f"{result.text()}\n{text}", VIOLATION * found.violation)


@cache
def code_sha256() -> str:
    """The SHA-256 of the installed sources of stream-dp: of the names and bytes of all files."""
    root, digest = Path(stream_dp.__file__).parent, hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        data = file.read_bytes()
        digest.update(f"{file.relative_to(root).as_posix()} {len(data)}\n".encode() + data)
    return digest.hexdigest()


RUNS, LEAST_RUNS, MOST_RUNS = 1000, 50, 10**6  # in each world
CONFIDENCE = 0.95
ALARM = 1e-4  # the probability that a release without a fault is reported as a violation
ASSUMPTION = "scores are normal, with one variance for both worlds"


@dataclass(frozen=True)
class AuditResult:
    """The result of an audit.

    study: the declaration.
    release, kind: their names; None for all releases together.
    subject: what is audited, in words.
    rho: the declared cost.
    pair: the worst pair, and what it costs by the declared variances.
    scores: of all runs.
    seed: of the noise; None for the system's entropy.
    """

    study: Study
    release: str | None
    kind: str | None
    subject: str
    rho: Fraction
    pair: WorstPair
    scores: TwoScores
    seed: int | None = None

    @property
    def pair_rho(self) -> float:
        return self.pair.rho

    @property
    def lower_bound(self) -> float:
        """The lower bound on rho for normal scores, at `CONFIDENCE`."""
        return gaussian_bound(self.scores, 1 - CONFIDENCE)

    @property
    def counted_bound(self) -> float:
        """The lower bound on rho without an assumption, at `CONFIDENCE`."""
        return counted_bound(self.scores, 1 - CONFIDENCE)

    @property
    def violation(self) -> bool:
        """Whether more than the declared rho is spent, at a confidence of 1 - `ALARM`."""
        return bool(self.excesses)

    @property
    def excesses(self) -> list[str]:
        """What costs more than it declares: "all", or the names of parts."""
        parts = [("all", self.rho, self.scores), *self.scores.alone]
        error = ALARM / len(parts)
        return [name for name, rho, scores in parts if best_bound(scores, error) > rho]

    @property
    def statement(self) -> AuditStatement:
        """What is stated in public."""
        return AuditStatement(
            study=self.study.name,
            release=self.release,
            kind=self.kind,
            audited=self.subject,
            rho_declared=float(self.rho),
            rho_lower_bound=self.lower_bound,
            rho_lower_bound_counted=self.counted_bound,
            confidence=CONFIDENCE,
            assumption=ASSUMPTION,
            runs=len(self.scores.first),
            violation=self.violation,
            pair=(self.pair.first, self.pair.second),
            people=self.scores.size,
            seed=self.seed,
            code_version=__version__,
            code_sha256=code_sha256(),
        )

    def as_dict(self) -> Json:
        return {
            **msgspec.to_builtins(self.statement),
            "rho_of_pair": self.pair_rho,
            "violation_confidence": 1 - ALARM,
        }

    def text(self) -> str:
        rho, scores = float(self.rho), self.scores
        people = "one person" if scores.size == 1 else f"{scores.size} people alike"
        name = "all releases" if self.release is None else f"{self.release} ({self.kind})"
        verdict = (
            f"VIOLATION: more is spent than declared ({', '.join(self.excesses)});"
            " report it as SECURITY.md says"
            if self.violation
            else "no violation: the bounds are below the declared rho"
        )
        return "\n".join(
            [
                f"audit of {name} in {self.study.name}: {self.subject}",
                f"  declared rho:               {rho:.6g}",
                f"  rho of the worst pair:      {self.pair_rho:.6g}, by the declared variances",
                f"  rho is at least:            {self.lower_bound:.6g}"
                f" ({100 * self.lower_bound / rho:.1f} % of the declared), if {ASSUMPTION}",
                f"  without this assumption:    {self.counted_bound:.6g}",
                *(
                    f"  {part} alone: rho is at least {best_bound(alone, 1 - CONFIDENCE):.6g}"
                    f" of {float(declared):.6g}"
                    for part, declared, alone in scores.alone
                ),
                f"  confidence of each bound:   {100 * CONFIDENCE:g} %",
                f"  runs: {len(scores.first)} in each of two worlds that differ by {people}",
                verdict,
            ]
        )


@dataclass(frozen=True)
class PreparedAudit:
    """A declared release, or all of a study, whose worst pair is known.

    release: None for all releases together.
    size: the number of people in whom the worlds differ.
    """

    study: Study
    release: Release | DataSetRelease | None
    audited: StudyRuns
    pair: WorstPair
    size: int

    @staticmethod
    def of(study: Study, release: Release | DataSetRelease | None = None) -> PreparedAudit:
        """Searches the worst pair. Raises UserError for a release that cannot be audited."""
        audited = runs_of(study, release)
        pair = audited.worst_pair()
        if pair.rho <= 0:
            name = study.name if release is None else release.name
            raise UserError(f"audit: no simulated person changes what '{name}' publishes")
        return PreparedAudit(study, release, audited, pair, group_size(audited, pair))

    def run(self, source: NoiseSource, runs: int, progress: Progress = lambda: None) -> AuditResult:
        """Runs both worlds.

        source: the product's noise; it is drawn for simulated people alone.
        runs: in each world.
        progress: called after a run in both worlds.
        """
        return AuditResult(
            study=self.study,
            release=None if self.release is None else self.release.name,
            kind=None if self.release is None else self.release.kind,
            subject=self.audited.subject,
            rho=self.audited.rho,
            pair=self.pair,
            scores=self.audited.scores(self.pair, self.size, runs, source, progress),
        )


def audit(
    study: Study,
    release: Release | DataSetRelease | None,
    source: NoiseSource,
    *,
    runs: int = RUNS,
    progress: Progress = lambda: None,
) -> AuditResult:
    """Audits a declared release, or all together, on simulated people; see `PreparedAudit.run`.

    Raises UserError for a release that cannot be audited, and for too few runs.
    """
    if runs < LEAST_RUNS:
        raise UserError(f"--runs: at least {LEAST_RUNS} runs tell anything; write a larger number")
    if runs > MOST_RUNS:
        raise UserError(f"--runs: {MOST_RUNS:,} runs are the most; write a smaller number")
    return PreparedAudit.of(study, release).run(source, runs, progress)


def group_size(audited: StudyRuns, pair: WorstPair) -> int:
    """The number of people by which worlds differ, about `APART` standard deviations apart."""
    size = round(APART / math.sqrt(2 * pair.rho))
    return max(1, min(size, audited.most))
