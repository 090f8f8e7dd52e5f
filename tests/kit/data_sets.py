"""Published data sets whose records are the truth, with measurements of chosen noise."""

import tomllib
from decimal import Decimal

import numpy as np
import pyarrow as pa

from kit.households import TEXT
from kit.studies import MARKER, MONTHS, attribute, study_toml
from stream_dp.answers.tables.table_facts import PublishedTables
from stream_dp.batch.data.domain import Hierarchy
from stream_dp.batch.groups.workload.exact_counts import exact_answers
from stream_dp.batch.groups.workload.queries import GROUP, PERSON, all_marginals
from stream_dp.batch.people.people_table import People, study_people
from stream_dp.batch.people.residual_counts import all_residuals, residual
from stream_dp.batch.synthesizer import release_domain
from stream_dp.release.published_tables import coded_people, coded_tables, column_values
from stream_dp.studyfile import parse_study

PEOPLE_TEXT = study_toml(
    name="people",
    unit="person",
    neighbours="replace_one",
    rho=3,
    periods={**MONTHS, **MARKER},
    size=300,
    attributes={
        "age": attribute(["0-29", "30-39", "40+"], missing="0-29"),
        "sex": attribute(["f", "m"], missing="f"),
        "work": attribute(["none", "some", "half", "full"], missing="none"),
    },
    releases=[
        {"name": "table", "kind": "mixture", "attributes": ["age", "sex", "work"], "every": 1}
        | {"rho": 1}
    ],
    run={"log": "sqlite:a.db", "public": "sqlite:b.db"},
)


def declared(text):
    study = parse_study(tomllib.loads(text, parse_float=Decimal))
    return study, study.batches[0]


def published(study, release, tables, rows):
    """rows: query, value, variance of each measurement"""
    texts, values, variances = zip(*rows, strict=True) if rows else ((), (), ())
    errors = np.sqrt(np.array(variances, float))
    measurements = pa.table(
        {"query": pa.array(texts, pa.string()), "value": pa.array(values, pa.int64())}
        | {"standard_error": errors}
    )
    columns = column_values(study, release)
    return PublishedTables(study, release, "2021-01", columns, tables, measurements)


def people_table(noise=0.0, *, moves=False, ways=3, again=(), rules=(), kept=False):
    """The truth as the records, and its residuals. again: sets that are measured once more.

    kept: whether nobody of the first age works.
    """
    text = PEOPLE_TEXT.replace('kind = "mixture"', f'kind = "mixture"\nrules = {[*rules]}')
    if moves:
        text = text.replace('"replace_one"', '"add_remove"').replace("size = 300", "")
    study, release = declared(text)
    rng = np.random.default_rng(1)
    codes = rng.integers(0, [3, 2, 4], (300, 3))
    if kept:
        codes[codes[:, 0] == 0, 2] = 0
    people = People(study_people(study, release), codes)
    residuals = all_residuals(people.domain, ways, 100)
    rows = []
    sets = [a for a in residuals.sets if a or moves]
    for times, own in enumerate((*sets, *again)):
        texts = residuals.texts(residuals.rows([residuals.numbers[own]]))
        values, variance = residual(people, own).ravel(), 40.0 + 7 * times
        values = values + (noise * rng.normal(0, np.sqrt(variance), values.size)).astype(int)
        rows += [(t, int(v), variance) for t, v in zip(texts, values, strict=True)]
    tables = {"people": coded_people(column_values(study, release)["people"], people.codes)}
    return published(study, release, tables, rows), residuals, people


def groups_table(measured=None, noise=0.0):
    """Households, and the exact or noisy cells of marginals."""
    study, release = declared(TEXT)
    domain = release_domain(study, release)
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 5, 60)
    group_of = np.repeat(np.arange(60), sizes)
    groups = np.stack([rng.integers(0, 2, 60), sizes - 1], axis=1)
    people = rng.integers(0, domain.person_values, (group_of.size, len(domain.person)))
    truth = Hierarchy(domain, groups, people, group_of)
    rows = []
    for number, marginal in enumerate(measured(domain) if measured else ()):
        queries = marginal.queries()
        exact, variance = exact_answers(truth, queries), 9.0 + number
        draws = noise * rng.normal(0, np.sqrt(variance), len(queries))
        for i, value in enumerate(exact + draws):
            rows.append((queries.text(i, domain), round(float(value)), variance))
    names = column_values(study, release)
    return published(study, release, coded_tables(names, groups, people, group_of), rows)


def every_pair(domain):
    return all_marginals(domain, 2, (GROUP, PERSON))
