"""Coverage of regressions: `python benchmarks/regressions.py [--seeds 200] [--fits 5] [TABLE...]`.

survey: people of a travel survey joined with their households (59,762 x 12), as `mixture`. census:
people of Massachusetts with an income in the American Community Survey (6,514 x 12), as `rap` with
ages and incomes in bins. Both are measured under add_remove at eps 1 and, for the second, eps 5
(delta = 1e-9). The truth of a model is its fit to the true people, with numbers as the means of
their bins. An interval covers if it contains the truth.

covered: of all coefficients of all fits that are not refused. refused: of the fits. width: the
median interval over that of a fit of the true people as a sample. The naive figures are of fits of
synthetic people, of `--fits` of the seeds. Needs pandas and, for the naive figures, JAX.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from data_sets import data_file
from numpy.typing import NDArray
from result_file import record
from scorer import scored_table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kit.studies import STEPS, attribute, small_study

from stream_dp.answers.tables.regression import Regression, regress
from stream_dp.answers.tables.table_facts import PublishedTables
from stream_dp.batch.people.people_plan import PeoplePlan, people_plan
from stream_dp.batch.people.people_synthesizer import Unlearnt, fit_people, fit_plan
from stream_dp.batch.people.people_table import People, study_people
from stream_dp.batch.rounds.phases import NoisyAnswers
from stream_dp.batch.synthesizer import FitContext
from stream_dp.errors import UserError
from stream_dp.privacy.noise import SeededNoise
from stream_dp.privacy.zcdp import rho_within
from stream_dp.release.published_tables import binned, coded_people, column_values
from stream_dp.study import Numbers, PeopleRelease, Study

Codes = NDArray[np.int64]
DELTA = Fraction(1, 10**9)
LOGISTIC = "logistic: "
AGES = [20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80]
INCOMES = [0, 100, 5000, 10000, 20000, 30000, 40000, 50000, 60000, 80000, 100000, 150000, 250000]


@dataclass(frozen=True, eq=False)
class Table:
    """People and the models about them.

    attributes: of the study file.
    answers: (people, columns) the codes of their values.
    """

    kind: str
    attributes: dict[str, dict[str, object]]
    answers: Codes
    models: Sequence[str]


def survey() -> Table:
    table = scored_table("survey")
    words = {"SUBREG_GRP": "r", "SUBREGCluster": "c", "HHDwelling": "d", "PGender": "g"}
    first = {"HHSize": 1, "HHIncome": 1, "per_num": 1}
    named = {
        "PEmp": ["works", "part", "none", "child"],
        "POcc": [*(f"o{i}" for i in (1, 10, 2, 3, 4, 5, 6, 7, 8, 9)), "none"],
        "PComm": ["none", "active", "auto", "other", "transit", "home"],
    }
    attributes = {}
    for name, size in table.sizes.items():
        values = named.get(name) or [first.get(name, 0) + i for i in range(size)]
        values = [f"{words[name]}{v + 1}" for v in values] if name in words else values
        attributes[name] = attribute(values, values[0])
    codes = table.codes.copy()
    age = list(table.sizes).index("PAge")  # its texts are in the order 0, 1, 10, 2, ...
    codes[:, age] = np.array([0, 1, 10, 2, 3, 4, 5, 6, 7, 8, 9])[codes[:, age]]
    return Table("mixture", attributes, codes, SURVEY_MODELS)


SURVEY_MODELS = (
    "HHIncome ~ PAge + PGender",
    "HHIncome ~ PAge + PGender + PEmp",
    "HHIncome ~ factor(PAge)",
    "HHIncome ~ HHSize + HHChildren + HHDwelling",
    "HHIncome ~ SUBREG_GRP",
    "HHIncome ~ POcc",
    "HHIncome ~ PAge*PGender",
    "HHSize ~ HHIncome + PAge + SUBREGCluster",
    "per_num ~ HHSize + PAge",
    "HHChildren ~ HHIncome + PAge",
    "PEmp=works ~ PAge + PGender + HHChildren",
    "PEmp=works ~ PGender*HHChildren",
    "PComm=transit ~ HHIncome + PAge + SUBREGCluster",
    "PComm=transit ~ HHIncome + HHDwelling + HHSize + PGender + PAge + HHChildren",
    "logistic: HHDwelling ~ HHIncome + HHSize",
    "logistic: PGender ~ PEmp",
    "logistic: PEmp=works ~ PAge + PGender",
    "logistic: PComm=transit ~ HHIncome + SUBREGCluster",
    "logistic: HHChildren ~ PAge + HHIncome + PGender",
    "logistic: HHDwelling ~ HHIncome + HHSize + HHChildren",
)


def census() -> Table:
    with data_file("nist_ma2019.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["PINCP"] != "N"]
    listed = {
        "SEX": {"1": "m", "2": "f"},
        "MSP": {"1": "married", "2": "apart", "6": "single"},
        "HISP": {"0": "no"},
        "RAC1P": {"1": "white", "2": "black", "6": "asian"},
        "NOC": {v: int(v) for v in "012"} | {"N": 0},
        "OWN_RENT": {"0": "quarters", "1": "owns", "2": "rents"},
        "EDU": {str(v): v for v in range(3, 13)} | {"1": 3, "2": 3},
        "DREM": {"2": "no"},
        "DPHY": {"2": "no"},
        "PUMA": {},
    }
    rest = {"MSP": "ended", "HISP": "yes", "RAC1P": "other", "NOC": 3, "DREM": "yes", "DPHY": "yes"}
    attributes, columns = {}, []
    for name, words in listed.items():
        told = [words.get(row[name], rest.get(name, f"p{row[name][-5:]}")) for row in rows]
        values = sorted({*told})
        attributes[name] = attribute(values, values[0])
        columns.append([values.index(value) for value in told])
    for name, least, most, step, bins in (
        ("AGEP", 0, 99, 1, AGES),
        ("PINCP", -9000, 1_400_000, 100, INCOMES),
    ):
        number = {"least": least, "most": most, "step": step}
        attributes[name] = {"number": number, "bins": bins, "missing": bins[0]}
        columns.append([int((float(row[name]) - least) // step) for row in rows])
    return Table("rap", attributes, np.array(columns, np.int64).T, CENSUS_MODELS)


CENSUS_MODELS = (
    "PINCP ~ AGEP + SEX",
    "PINCP ~ AGEP + SEX + EDU",
    "PINCP ~ EDU",
    "PINCP ~ factor(EDU)",
    "PINCP ~ MSP + NOC + SEX",
    "PINCP ~ AGEP + EDU + OWN_RENT + SEX + MSP",
    "PINCP ~ SEX*EDU",
    "AGEP ~ OWN_RENT + MSP",
    "EDU ~ AGEP + SEX + PUMA",
    "EDU ~ RAC1P + HISP",
    "OWN_RENT=owns ~ AGEP + PINCP",
    "OWN_RENT=owns ~ MSP + NOC + PUMA",
    "DPHY=yes ~ AGEP + EDU",
    "DREM=yes ~ DPHY + AGEP",
    "logistic: OWN_RENT=owns ~ AGEP",
    "logistic: OWN_RENT=owns ~ AGEP + MSP",
    "logistic: MSP=married ~ AGEP",
    "logistic: DPHY ~ AGEP",
    "logistic: SEX ~ MSP",
    "logistic: OWN_RENT=owns ~ EDU + MSP",
)

TABLES = {"survey": (survey, "1"), "census": (census, "1"), "census-five": (census, "5")}


@dataclass(frozen=True, eq=False)
class Measured:
    """A table in a study, whose measurements are repeated with simulated noise."""

    study: Study
    release: PeopleRelease
    people: People
    layouts: dict[tuple[int, ...], list[Any]] = field(default_factory=dict)

    @cached_property
    def plan(self) -> PeoplePlan:
        return people_plan(self.people.domain, self.release)

    @staticmethod
    def of(table: Table, eps: str, rules: Mapping[str, object] | None = None) -> Measured:
        rho = rho_within(Fraction(eps), DELTA)
        declared = {"name": "people", "kind": table.kind, "rho": str(rho), **(rules or {})}
        study = small_study(
            neighbours="add_remove",
            rho=str(rho * 2),
            periods=STEPS,
            size=None,
            attributes=table.attributes,
            releases=[declared | {"attributes": list(table.attributes), "at": ["1"]}],
        )
        (release,) = study.batches
        assert isinstance(release, PeopleRelease)
        domain = study_people(study, release)
        return Measured(study, release, People.of_answers(domain, table.answers))

    def published(self, rows: People, noisy: NoisyAnswers) -> PublishedTables:
        """The tables as they would be published. rows: the synthetic people."""
        exact = column_values(self.study, self.release)
        coded = coded_people(exact["people"], rows.answers)
        columns, tables = binned(exact, {"people": coded})
        numbers = {n: v for n, v in exact["people"].items() if isinstance(v, Numbers)}
        if noisy.candidates not in self.layouts:
            texts = pa.array(self.plan.workload.texts(noisy.rows), pa.string())
            self.layouts[noisy.candidates] = [texts, np.sqrt(noisy.noise)]
        texts, errors, *rows_of = self.layouts[noisy.candidates]
        measurements = pa.table(
            {"query": texts, "value": pa.array(noisy.values, pa.int64()), "standard_error": errors}
        )
        published = PublishedTables(
            self.study, self.release, "1", columns, tables, measurements, numbers
        )
        if rows_of:  # the same for every seed, and takes longer than a model
            vars(published)["rows_of"] = rows_of[0]
        else:
            self.layouts[noisy.candidates].append(published.rows_of)
        return published

    def measured(self, seed: int, *, fitted: bool = False) -> tuple[NoisyAnswers, People | None]:
        """Noisy answers and, if asked, the synthetic people that are fitted to them."""
        context = FitContext(SeededNoise(seed))
        if fitted:
            fit = fit_people(self.people, self.release, context)
            return fit.answers, fit.sample(seed)
        return fit_plan(self.people, self.plan, context, lambda seed: Unlearnt()).answers, None


def fitted(published: PublishedTables, model: str) -> Regression | None:
    """The model; None if it is refused."""
    text = model.removeprefix(LOGISTIC)
    try:
        return regress(published, text, logistic=text != model)
    except UserError as refused:
        if "noise" not in str(refused):
            raise
        return None


def true_fit(
    measured: Measured, noisy: NoisyAnswers, model: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The coefficients of the true people, and the widths of intervals as of a sample."""
    published = measured.published(measured.people, noisy)
    vars(published)["variances"] = 1e-6 * published.variances  # so that nothing is refused
    fit = fitted(published, model)
    assert fit is not None
    naive = [c.naive for c in fit.coefficients if c.naive is not None]
    truth = np.array([value for value, _ in naive])
    return truth, np.array([high - low for _, (low, high) in naive])


def widths(fit: Regression) -> NDArray[np.float64]:
    return np.array([c.interval[1] - c.interval[0] for c in fit.coefficients])


def covers(fit: Regression, truth: NDArray[np.float64]) -> list[bool]:
    ends = np.array([c.interval for c in fit.coefficients])
    return ((ends[:, 0] <= truth) & (truth <= ends[:, 1])).tolist()


@dataclass(frozen=True, eq=False)
class Trial:
    """One model in one seed.

    covered: by coefficient, whether its interval covers; None if the model is refused.
    width: the median interval, over that of the true people as a sample.
    naive: by coefficient, whether the interval of the synthetic rows covers; empty without rows.
    """

    covered: list[bool] | None
    width: float = 0.0
    naive: tuple[bool, ...] = ()


def trials(name: str, seeds: Sequence[int], fits: int) -> dict[str, list[Trial]]:
    """Every model of a table in every seed. fits: the first seeds, of which people are fitted."""
    make, eps = TABLES[name]
    table = make()
    measured = Measured.of(table, eps)
    few = People.of_answers(measured.people.domain, table.answers[:500])
    truths = dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]()
    result: dict[str, list[Trial]] = {model: [] for model in table.models}
    for seed in seeds:
        noisy, synthetic = measured.measured(seed, fitted=seed <= fits)
        published = measured.published(synthetic or few, noisy)
        for model in table.models:
            if model not in truths:
                truths[model] = true_fit(measured, noisy, model)
            truth, sample = truths[model]
            if (fit := fitted(published, model)) is None:
                result[model].append(Trial(None))
                continue
            naive = [
                c.naive[1][0] <= true <= c.naive[1][1]
                for c, true in zip(fit.coefficients, truth, strict=True)
                if synthetic is not None and c.naive is not None
            ]
            width = float(np.median(widths(fit) / sample))
            result[model].append(Trial(covers(fit, truth), width, tuple(naive)))
    return result


def report(name: str, results: dict[str, list[Trial]]) -> None:
    """Prints and records the figures of a table."""
    every = []
    for model, of_model in results.items():
        known = [trial for trial in of_model if trial.covered is not None]
        flat = [one for trial in known for one in trial.covered or ()]
        share = float(np.mean(flat)) if flat else None
        refused = 1 - len(known) / len(of_model)
        width = float(np.median([trial.width for trial in known])) if known else None
        of_rows = [one for trial in known for one in trial.naive]
        rows = float(np.mean(of_rows)) if of_rows else None
        shown = ["-" if v is None else f"{v:.3f}" for v in (share, refused, width, rows)]
        print(f"{name:>14}  {model:<80}" + "".join(f"{v:>9}" for v in shown), flush=True)
        formula = f"`{model.removeprefix(LOGISTIC)}`" + ", logistic" * model.startswith(LOGISTIC)
        record(f"regressions-{name}", formula, share, refused, width, rows)
        every.append((share, refused, rows))
    shares, left, naive = zip(*every, strict=True)
    known_shares = [share for share in shares if share is not None]
    of_naive = [rows for rows in naive if rows is not None]
    ends = (min(known_shares), max(known_shares))
    means = [
        float(np.mean(values)) if values else None for values in (known_shares, left, of_naive)
    ]
    record("regressions", name, means[0], *ends, *means[1:])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tables", nargs="*", default=[*TABLES], metavar="TABLE")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--fits", type=int, default=2, help="seeds of which people are fitted")
    options = parser.parse_args()
    for name in options.tables:
        began = time.process_time()
        report(name, trials(name, range(1, options.seeds + 1), options.fits))
        print(f"{name}: {time.process_time() - began:.0f} CPU s")
