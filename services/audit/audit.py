"""`stream-dp audit`: a lower bound on what a release costs, from runs on simulated people.

The audit has the worst pair, repeated runs in both worlds, and the bounds on rho. No log is opened:
the noise of an audit hides nobody, and no data is read.

A data set of groups runs on simulated groups and members, a release of sizes on simulated places. A
person moves from a place in one region to a place in another. Several people alike move from one
place, which changes sorted sizes most, or each from a place of its own, which changes cumulative
counts most.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain

import msgspec
import numpy as np
import pyarrow as pa
from tqdm import tqdm

from stream_dp import __version__
from stream_dp.errors import UserError
from stream_dp.json_object import Json
from stream_dp.privacy.noise import NoiseSource, SystemNoise
from stream_dp.release.audit_statement import AuditStatement
from stream_dp.study import DataSetRelease, Family, Release, SizesRelease, Study
from stream_dp.study.families import Registry
from stream_dp.study.group_releases import Groups

from ..intake.place_table import PlacesTable
from ..intake.roster import Members, Roster
from ..process.command_output import VIOLATION, Output
from ..storage.atomic_files import write_new_file
from ..storage.deployment import Deployment
from .data_set_runs import DataSetRuns
from .histories import (
    AuditedRelease,
    Cell,
    History,
    Progress,
    WorstPair,
    random_people,
    simulated_people,
)
from .panel_runs import PanelRuns
from .rho_bounds import TwoScores, counted_bound, gaussian_bound
from .watched_fits import repeated_fit, watched_fit


def run(options: argparse.Namespace) -> Output:
    deployment, file = Deployment.load(options.study), options.statement
    study, signer = deployment.study, None
    if file is not None:
        signer = deployment.signing_key("signing")
        if signer is None:
            raise UserError(f"--statement {file}: name the study's key as [run.signing]")
        if file.exists():
            raise UserError(f"--statement {file}: is there already; name a new file")
        if not file.parent.is_dir():
            raise UserError(f"--statement {file}: its folder does not exist; make it first")
    release = study.declared(options.release)
    if release is None:
        names = ", ".join(r.name for r in (*study.releases, *(study.batches or ())))
        raise UserError(f"release '{options.release}': the study declares {names}")
    with tqdm(desc=release.name, total=options.runs, disable=None, leave=False) as bar:

        def progress() -> None:
            bar.update()

        result = audit(study, release, SystemNoise(), runs=options.runs, progress=progress)
    if signer is not None:
        statement = signer.attest(result.statement.payload(study))
        write_new_file(file, statement + "\n", public=True)
    return Output(result.as_dict(), result.text(), VIOLATION if result.violation else 0)


_PLACES = 60  # in each of two regions
_LEAVING, _JOINING = (0,), (1,)  # histories: in a place of the first region, or of the second


class SizesRuns(DataSetRuns):
    """The first data set of a release of sizes; see `histories.AuditedRelease`.

    together: whether all people alike are in the same place.
    """

    def __init__(self, study: Study, release: SizesRelease) -> None:
        """Raises UserError for a release from a table of counts, or whose cap is 1."""
        if release.attribute is None:
            raise UserError(
                f"audit: '{release.name}' is measured from a table of counts, not from reports;"
                " the audit sends reports; audit the same release with an attribute of places"
            )
        if release.largest < 2:
            raise UserError(f"audit: '{release.name}' has sizes up to 1; the audit needs 2")
        super().__init__(study, release)
        self.together, self.largest = True, release.largest
        self.keys = tuple(f"place {i:03}" for i in range(2 * _PLACES))
        assert self.study.places is not None
        columns = self.study.places.regions
        self.table = PlacesTable(
            columns=columns,
            regions=tuple(tuple(f"{name} {r}" for name in columns) for r in (1, 2)),
            place_counts=np.array([_PLACES, _PLACES], np.int64),
            keys=self.keys,
            region_of=np.repeat(np.arange(2), _PLACES),
        )
        label = study.periods.labels[self.number - 1]
        self.cells = (Cell(label, release.attribute, (*self.keys, None)),)
        self.subject += f", of {2 * _PLACES} simulated places in two regions"

    def _cells(self) -> tuple[Cell, ...]:
        return ()

    def _people(self, history: History | None, size: int) -> dict[str, History]:
        """Canaries at the places of a history, and others at the places that canaries may join.

        history: of the canaries, None if they are nowhere.
        """
        place = None if history is None else history[0]
        canaries: dict[str, History] = {}
        if place is not None:
            for i in range(size):
                canaries[f"canary {i}"] = (place * _PLACES + (0 if self.together else i),)
        # With nobody there, a move would leave the sizes of both regions together as they are.
        number = max(size, 1)
        joined = [0] * number if self.together else range(number)
        others = {f"other {i}": (_PLACES + place,) for i, place in enumerate(joined)}
        return {**others, **canaries}

    def _tables(self, people: Mapping[str, History]) -> dict[str, pa.Table]:
        study = self.table.of_study(self.study)
        simulated = simulated_people(study, self.cells, people, self.number)
        return self._snapshot(simulated.population, self.table)

    def worst_pair(self) -> WorstPair:
        """The costlier of two ways to join: all in one place, or each in one of their own.

        The cost of a shift d of the exact values is sum of d^2 / variance / 2, for `size` people at
        once; as it grows with the square of their number, it is divided by that.
        """
        second = None if self.study.neighbours == "add_remove" else _LEAVING
        wanted = round(_APART / math.sqrt(2 * float(self.rho)))
        found = list[tuple[float, bool, int]]()
        for together in (True, False):
            self.together = together
            room = self.largest // 2 if together else _PLACES
            size = max(1, min(wanted, room, self.most))
            reference = watched_fit(self._fit(second, size), None)
            moved = repeated_fit(self._fit(_JOINING, size), reference)
            shift = [b.exact - a.exact for a, b in zip(reference, moved, strict=True)]
            variances = list(chain.from_iterable(run.variances for run in reference))
            cost = float((np.concatenate(shift) ** 2 / variances).sum() / 2)
            found.append((cost / size**2, together, size))
            self._references = [reference]
        rho, self.together, self.most = max(found)
        return WorstPair(_JOINING, second, rho)


_RELATED = 3  # people of a group with roles, at most: head, spouse, child


class HouseholdRuns(DataSetRuns):
    """The first data set of a release of groups; see `histories.AuditedRelease`.

    The people in whom the worlds differ are each a group of their own, or, where groups declare
    roles, the head of one with a spouse and a child.
    """

    def __init__(self, study: Study, release: DataSetRelease) -> None:
        """Raises UserError if this installation cannot fit the release."""
        super().__init__(study, release)
        if self.study.groups is not None and self.study.groups.roles is not None:
            self.most, self.others = max(1, self.most // _RELATED), self.others // _RELATED

    def _tables(self, people: Mapping[str, History]) -> dict[str, pa.Table]:
        declared = self.study.groups
        assert declared is not None
        roster, relatives = simulated_roster(declared, list(people))
        reporting = {**people, **random_relatives(self, relatives)}
        simulated = simulated_people(self.study, self.cells, reporting, self.number, roster.persons)
        members = Members(
            roster.codes(self.study),
            np.array([simulated.slots[person] for person in roster.persons], np.int64),
            roster.group_of,
            roster.role_codes(self.study),
        )
        return self._snapshot(simulated.population, members)


def random_relatives(runs: DataSetRuns, relatives: list[str]) -> dict[str, History]:
    """The histories of relatives at random, the same in both worlds."""
    histories = random_people(runs.cells, len(relatives), "relative").values()
    return dict(zip(relatives, histories, strict=True))


def simulated_roster(declared: Groups, heads: list[str]) -> tuple[Roster, list[str]]:
    """A group for each head, and the ids of the relatives in it."""
    roles = declared.roles
    kin = [] if roles is None else [str(roles.spouse), str(roles.child)][: declared.most - 1]
    persons, group_of, told, relatives = list[str](), list[int](), list[str](), list[str]()
    for group, head in enumerate(heads):
        members = [head, *(f"{head}, {role}" for role in kin)]
        relatives += members[1:]
        persons += members
        group_of += [group] * len(members)
        told += [] if roles is None else [str(roles.head), *kin]
    roster = Roster(
        attributes={
            name: [str(attribute.symbols[0])] * len(heads)
            for name, attribute in declared.attributes.items()
        },
        persons=persons,
        group_of=np.array(group_of, np.int64),
        roles=None if roles is None else told,
    )
    return roster, relatives


RUNS, LEAST_RUNS, MOST_RUNS = 1000, 50, 10**6  # in each world
CONFIDENCE = 0.95
ALARM = 1e-4  # the probability that a release without a fault is reported as a violation
_APART = 4.0  # standard deviations that the worlds are to be apart
ASSUMPTION = "scores are normal, with one variance for both worlds"


@dataclass(frozen=True)
class AuditResult:
    """The result of an audit.

    study: the declaration.
    release, kind: their names.
    subject: the audited part of the release, in words.
    rho: the declared cost.
    pair_rho: what the worst pair costs by the declared variances.
    scores: of all runs.
    """

    study: Study
    release: str
    kind: str
    subject: str
    rho: Fraction
    pair_rho: float
    scores: TwoScores

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
        """Whether the release costs more than declared, at a confidence of 1 - `ALARM`."""
        bounds = gaussian_bound(self.scores, ALARM), counted_bound(self.scores, ALARM)
        return max(bounds) > self.rho

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
            code_version=__version__,
        )

    def as_dict(self) -> Json:
        return {
            **msgspec.to_builtins(self.statement),
            "rho_of_pair": self.pair_rho,
            "people": self.scores.size,
            "violation_confidence": 1 - ALARM,
        }

    def text(self) -> str:
        rho, scores = float(self.rho), self.scores
        people = "one person" if scores.size == 1 else f"{scores.size} people alike"
        verdict = (
            "VIOLATION: the release costs more than it declares; report it as SECURITY.md says"
            if self.violation
            else "no violation: the bounds are below the declared rho"
        )
        return "\n".join(
            [
                f"audit of {self.release} ({self.kind}) in {self.study.name}: {self.subject}",
                f"  declared rho:               {rho:.6g}",
                f"  rho of the worst pair:      {self.pair_rho:.6g}, by the declared variances",
                f"  rho is at least:            {self.lower_bound:.6g}"
                f" ({100 * self.lower_bound / rho:.1f} % of the declared), if {ASSUMPTION}",
                f"  without this assumption:    {self.counted_bound:.6g}",
                f"  confidence of each bound:   {100 * CONFIDENCE:g} %",
                f"  runs: {len(scores.first)} in each of two worlds that differ by {people}",
                verdict,
            ]
        )


AUDITED: Registry[Family, Callable[..., AuditedRelease]] = Registry(
    "audits of releases",
    Family,
    {
        Family.WINDOW: PanelRuns,
        Family.CUMULATIVE: PanelRuns,
        Family.JOINT: PanelRuns,
        Family.PEOPLE: DataSetRuns,
        Family.HOUSEHOLDS: HouseholdRuns,
        Family.EVENTS: DataSetRuns,
        Family.SIZES: SizesRuns,
    },
)


@dataclass(frozen=True)
class PreparedAudit:
    """A declared release whose worst pair is known.

    size: the number of people in whom the worlds differ.
    """

    study: Study
    release: Release | DataSetRelease
    audited: AuditedRelease
    pair: WorstPair
    size: int

    @staticmethod
    def of(study: Study, release: Release | DataSetRelease) -> PreparedAudit:
        """Searches the worst pair. Raises UserError for a release that cannot be audited."""
        audited = AUDITED[release.family](study, release)
        pair = audited.worst_pair()
        if pair.rho <= 0:
            raise UserError(f"audit: no simulated person changes what '{release.name}' publishes")
        return PreparedAudit(study, release, audited, pair, group_size(audited, pair))

    def run(self, source: NoiseSource, runs: int, progress: Progress = lambda: None) -> AuditResult:
        """Runs both worlds.

        source: the product's noise; it is drawn for simulated people alone.
        runs: in each world.
        progress: called after a run in both worlds.
        """
        return AuditResult(
            study=self.study,
            release=self.release.name,
            kind=self.release.kind,
            subject=self.audited.subject,
            rho=self.audited.rho,
            pair_rho=self.pair.rho,
            scores=self.audited.scores(self.pair, self.size, runs, source, progress),
        )


def audit(
    study: Study,
    release: Release | DataSetRelease,
    source: NoiseSource,
    *,
    runs: int = RUNS,
    progress: Progress = lambda: None,
) -> AuditResult:
    """Audits a declared release on simulated people; see `PreparedAudit.run`.

    Raises UserError for a release that cannot be audited, and for too few runs.
    """
    if runs < LEAST_RUNS:
        raise UserError(f"--runs: at least {LEAST_RUNS} runs tell anything; write a larger number")
    if runs > MOST_RUNS:
        raise UserError(f"--runs: {MOST_RUNS:,} runs are the most; write a smaller number")
    return PreparedAudit.of(study, release).run(source, runs, progress)


def group_size(audited: AuditedRelease, pair: WorstPair) -> int:
    """The number of people by which worlds differ, about `_APART` standard deviations apart."""
    size = round(_APART / math.sqrt(2 * pair.rho))
    return max(1, min(size, audited.most))
