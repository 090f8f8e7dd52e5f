"""What `check` says of data sets: what will be measured, with which noise, at which cost."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from kit.households import TEXT
from kit.kinds_of_releases import study_of
from kit.studies import MARKER, attribute, study_toml

from stream_dp.batch.data.domain import Column
from stream_dp.batch.kinds import planned_phases
from stream_dp.batch.people.pair_filter import cell_deviation
from stream_dp.batch.people.people_table import PeopleDomain
from stream_dp.batch.people.residual_counts import all_residuals, centred
from stream_dp.errors import UserError
from stream_dp.planning.plan import plan_study
from stream_dp.planning.study_summary import summary
from stream_dp.privacy.zcdp import epsilon
from stream_dp.study import DataSetRelease, Study
from stream_dp.study.families import TABLE_FAMILIES, Family, Kind, kinds_of
from stream_dp.study.study_text import study_text
from stream_dp.studyfile import parse_study


def parsed(text: str) -> Study:
    return parse_study(tomllib.loads(text, parse_float=Decimal))


RELATIONS = ("add_remove", "replace_one", "replace_in_place")


def table_toml(relation: str, sizes: Mapping[str, int], missing: object) -> str:
    """A study with a table of all attributes, which have so many values each."""
    return study_toml(
        name="people",
        unit="person",
        neighbours=relation,
        rho=8,
        periods={"first": "2021-01", "every": "month", "count": 4, **MARKER},
        size=None if relation == "add_remove" else 100,
        attributes={name: attribute(list(range(n)), missing=missing) for name, n in sizes.items()},
        releases=[
            {
                **{"name": "table", "kind": "mixture", "attributes": [*sizes]},
                **{"every": 2, "rho": 4},
            }
        ],
        run={"log": "sqlite:p.db", "public": "sqlite:q.db"},
    )


def people(relation: str = "add_remove", missing: object = "absent") -> Study:
    return parsed(table_toml(relation, {"a": 2, "b": 3, "c": 5}, missing))


def households(kind: str) -> Study:
    return parsed(TEXT.replace('kind = "independent"', f'kind = "{kind}"'))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("missing", ["absent", 0])
def test_the_phases_of_a_table_spend_rho(relation: str, missing: object) -> None:
    study = people(relation, missing)
    (planned,) = summary(plan_study(study)).data_sets
    moves = relation == "add_remove" or missing == "absent"
    assert any("or below" in p.title for p in planned.phases) == moves
    *measured, triples, again = (p for p in planned.phases if "or below" not in p.title)
    if moves:
        *measured, triples, again = planned.phases[:5]
    assert len(measured) == 2 + moves
    assert sum(p.rho for p in measured) + triples.rho == 4
    assert triples.rho == again.rho
    assert [p.candidates for p in planned.phases[moves : 4 + moves]] == [3, 3, 1, 3]
    sizes = [n + (missing == "absent") for n in (2, 3, 5)]
    assert triples.queries == math.prod(sizes)
    assert planned.phases[moves].queries == sum(sizes)
    stated = planned.as_dict()
    assert stated["epsilon_of_each"] == str(epsilon(Fraction(4), study.delta))
    assert stated["epsilon_of_all"] == str(epsilon(Fraction(8), study.delta))
    assert relation in stated["relations_proved"]  # type: ignore[operator]


@pytest.mark.parametrize("relation", RELATIONS)
def test_what_little_budget_measures_is_planned(relation: str) -> None:
    """A public number of people decides; a private one is asked for, and all cases are shown."""
    study = people(relation, 0)
    (release,) = study.batches or ()
    titles = {}
    for rho in (Fraction(4), Fraction(1, 5000)):
        own = release.model_copy(update={"rho": rho})
        titles[rho] = [p.title for p in planned_phases(study, own)]
    if relation != "add_remove":
        assert titles[Fraction(4)][:2] == ["single columns", "pairs of columns"]
        assert titles[Fraction(1, 5000)] == ["single columns"]
        return
    for own in titles.values():
        (first,) = (t for t in own if t.startswith("from "))
        (other,) = (t for t in own if t.startswith("or below"))
        assert first.split(" people")[0].split()[1] == other.split(" people")[0].split()[2]


@pytest.mark.parametrize("relation", RELATIONS)
def test_rounds_are_planned_as_they_begin(relation: str) -> None:
    text = table_toml(relation, {f"a{i}": 3 for i in range(30)}, missing=0)
    text = text.replace('kind = "mixture"', 'kind = "mixture"\nrounds = 16')
    plan = plan_study(parsed(text))
    assert "pairs of columns picked in rounds" in str(plan.releases[0].facts["mechanism"])
    (planned,) = summary(plan).data_sets
    assert sum(p.rho for p in planned.phases) == 4
    *_, singles, pairs = planned.phases
    assert (singles.candidates, pairs.candidates, pairs.queries) == (30, 435, 435 * 9)
    assert pairs.picked == 16 * 7
    assert "112 of 435 candidates" in pairs.text
    assert "up to 7 picked in each of 16 rounds at most" in pairs.text
    # A residual of a pair has nine tenths of a pick's part of rho, its cell a ninth of an entry.
    far = {"add_remove": 36, "replace_one": 108, "replace_in_place": 108}[relation]
    own = math.sqrt(far / (2 * float(pairs.rho) * 0.9 / 112)) / 9 * 2 / 3
    assert own < pairs.least < own + singles.most
    all_ = parsed(text.replace("rounds = 16", "rounds = 0"))
    (planned,) = summary(plan_study(all_)).data_sets
    assert "pairs again" in planned.phases[-1].title


def test_a_cell_has_the_noise_of_all_that_it_is_rebuilt_from() -> None:
    """Against the matrix that makes a marginal of all measured entries."""
    columns = tuple(Column(f"c{i}", tuple(range(n))) for i, n in enumerate((2, 3, 4)))
    residuals = all_residuals(PeopleDomain(columns, True, False), 3, 100)
    precisions = {a: 1 / (2 + i) for i, a in enumerate(residuals.sets)}
    for asked in ((0,), (0, 2), (0, 1, 2)):
        shape = tuple(residuals.domain.sizes[c] for c in asked)
        variance = np.zeros(shape)
        for ways in range(len(asked) + 1):
            for part in combinations(asked, ways):
                own = [residuals.domain.sizes[c] for c in part]
                for entry in np.ndindex(*own):
                    unit = np.zeros(own)
                    unit[entry] = 1
                    interaction = centred(unit) / math.prod(own)
                    spread = interaction.reshape(
                        [n if c in part else 1 for c, n in zip(asked, shape, strict=True)]
                    ) / (math.prod(shape) / math.prod(own))
                    variance = variance + np.square(spread) / precisions[part]
        cell = cell_deviation(residuals, asked, precisions)
        assert np.sqrt(variance) == pytest.approx(np.full(shape, cell))


@pytest.mark.parametrize("kind", ["independent", "mwem", "hpd-fixed"])
def test_the_phases_of_groups_spend_rho(kind: str) -> None:
    study = households(kind)
    (planned,) = summary(plan_study(study)).data_sets
    assert sum(phase.rho for phase in planned.phases) == planned.release.rho
    assert all(0 < phase.picked <= phase.candidates for phase in planned.phases)
    first = planned.phases[0]
    if kind == "independent":  # m marginals of people, of squared sensitivity 2: m / rho
        variance = len(planned.release.attributes) / planned.release.rho
        assert first.least == first.most == pytest.approx(math.sqrt(variance))


@pytest.mark.parametrize("name", [kind for family in TABLE_FAMILIES for kind in kinds_of(family)])
def test_a_kind_declares_what_its_releases_may_declare(name: Kind) -> None:
    """Its settings are keys of its releases, and the relations are those that a study may have."""
    kind, family = name.data_set, name.family
    if family is Family.EVENTS:
        made = parse_study(study_of(name))
    elif family is Family.PEOPLE:
        made = people("replace_in_place")
    else:
        made = households(name)
    (release,) = made.batches or ()
    declared = name.declaration if family is Family.PEOPLE else type(release)
    own = declared.model_fields.keys() - DataSetRelease.model_fields.keys()
    assert {*kind.settings} <= own
    for relation in RELATIONS:
        if family is Family.PEOPLE:
            assert relation in kind.relations
            continue
        text = TEXT.replace('kind = "independent"', f'kind = "{name}"')
        if family is Family.EVENTS:
            text = study_text(made).replace('"replace_one"', '"replace_in_place"')
        changed = text.replace('"replace_in_place"', f'"{relation}"')
        if relation in kind.relations:
            assert parsed(changed).neighbours == relation
        else:
            with pytest.raises(UserError, match="is not proved"):
                parsed(changed)


def test_people_read_it_in_words() -> None:
    short = summary(plan_study(people()))
    text = short.text(long=True)
    assert "  table (mixture): share 1, rho = 8; data sets: 2" in short.text()
    assert "data set table (mixture): 2 of them, each with rho = 4, eps = " in text
    assert "people on, all pairs of columns: 3 candidates, " in text
    assert "people, single columns, with " in text
    assert "standard deviation of a cell" in text
    assert "publishes: people" in text
    assert "add_remove, replace_one, replace_in_place" in text


@pytest.mark.parametrize(
    ("rho", "sentence", "warns"),
    [
        ("4", "measured: single columns and all pairs of them", False),
        ("0.0002", "measured: single columns", True),
    ],
)
def test_a_sentence_says_what_is_measured(rho: str, sentence: str, warns: bool) -> None:
    """And a warning says if columns are measured only one by one."""
    text = table_toml("replace_one", {"a": 2, "b": 3, "c": 5}, 0)
    text = text.replace('kind = "mixture"', 'kind = "table"').replace("rho = 4", f"rho = {rho}")
    (planned,) = summary(plan_study(parsed(text))).data_sets
    assert planned.fit.measured.sentence == sentence
    assert [("only single columns are measured" in w) for w in planned.warnings] == [True] * warns
