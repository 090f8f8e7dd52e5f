"""Two tables in one call: a fit, its samples, and what is refused."""

import pyarrow as pa
import pytest

import stream_dp

HOMES = pa.table({"home": [1, 2], "region": ["north", "south"]})
PEOPLE = pa.table({"home": [1, 1, 2], "work": ["yes", "no", "yes"]})
DECLARED = {
    "key": "home",
    "group_values": {"region": ["north", "south"]},
    "person_values": {"work": ["yes", "no"]},
    "most": 2,
    "rho": "1/10",
}


def fit(people=PEOPLE, **changes):
    return stream_dp.fit_tables(HOMES, people, **{**DECLARED, "simulation_seed": 1, **changes})


@pytest.mark.parametrize("kind", ["mwem", "independent"])
def test_samples_are_tables_that_a_seed_repeats(kind):
    fitted = fit(kind=kind)
    homes, people = fitted.sample(seed=3)
    assert homes.num_rows == 2
    assert set(people["work"].to_pylist()) <= {"yes", "no"}
    assert fitted.sample(seed=3) == (homes, people)
    assert fit(kind=kind).sample(seed=3) == (homes, people)


def test_key_library_and_types_come_back():
    """A program that takes the tables takes the samples, too."""
    pandas = pytest.importorskip("pandas", "2.2")
    homes = pandas.DataFrame(
        {
            "region": pandas.Categorical(["north", "south"], categories=["south", "north"]),
            "home": ["h1", "h2"],
            "rooms": pandas.array([1, 2], dtype="Int8"),
        }
    )
    people = pandas.DataFrame({"home": ["h1", "h1", "h2"], "work": [True, False, True]})
    groups = {"region": ["south", "north"], "rooms": [1, 2]}
    declared = {**DECLARED, "group_values": groups, "person_values": {"work": ["true", "false"]}}
    fitted = stream_dp.fit_tables(homes, people, **declared, simulation_seed=1)
    synthetic_homes, synthetic_people = fitted.sample(seed=3)
    assert synthetic_homes.dtypes.equals(homes.dtypes)
    assert [*synthetic_people.columns] == ["home", "work"]
    assert synthetic_people.home.dtype == people.home.dtype
    assert {*synthetic_people.home} == {*synthetic_homes.home}
    assert not synthetic_homes.isna().any().any()
    numbers = stream_dp.fit_tables(HOMES, PEOPLE, **DECLARED, simulation_seed=1).sample()
    assert [table.schema for table in numbers] == [HOMES.schema, PEOPLE.schema]


def test_noise_is_the_systems_own_by_default():
    answers = {
        tuple(fit(simulation_seed=None).model.measurements.values.tolist()) for _ in range(4)
    }
    assert len(answers) > 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "gan"}, "kind 'gan' is none of independent, mwem, hpd-fixed, hpd-gen"),
        ({"rho": 0}, "rho: must be above 0"),
        ({"rounds": 0}, "rounds must be a whole number from 1 on"),
        ({"person_values": {}}, "at least one column"),
        ({"most": 1}, "of more than 1 members"),
        ({"key": "house"}, "no column 'house'"),
        ({"person_values": {"work": ["yes"]}}, "undeclared or empty 'work'"),
    ],
)
def test_what_cannot_be_fitted_is_refused(changes, words):
    with pytest.raises(stream_dp.UserError, match=words):
        fit(**changes)
