"""Two tables in one call: a fit, its samples, and what is refused."""

import numpy as np
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
    "kind": "independent",
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
    numbers = fit().sample()
    assert [table.schema for table in numbers] == [HOMES.schema, PEOPLE.schema]


def ordinary():
    """300 households, of more kinds than `mwem` can list, and with empty cells."""
    rng = np.random.default_rng(1)
    size = rng.integers(1, 6, 300)
    home = np.repeat(np.arange(300), size)
    age = rng.integers(0, 9, len(home))
    work = np.where(age < 2, None, np.where(age < 6, "at work", "retired"))
    homes = pa.table({"home": np.arange(300), "region": rng.choice(["north", "south"], 300)})
    people = pa.table({"home": home, "age": age, "work": pa.array(work.tolist(), pa.string())})
    values = {"age": range(9), "work": ["at work", "retired", None]}
    return homes, people, {**DECLARED, "most": 5, "person_values": values}


def test_the_default_fits_an_ordinary_file():
    """The kind is the one of the least errors that is installed, and the result names it."""
    homes, people, declared = ordinary()
    del declared["rho"], declared["kind"]
    fitted = stream_dp.fit_tables(
        homes, people, **declared, epsilon=3, delta=1e-6, rounds=1, simulation_seed=1
    )
    assert fitted.kind == "hpd-fixed"
    assert "hpd-fixed" in repr(fitted)
    assert 2.99 < fitted.epsilon <= 3
    _, synthetic = fitted.sample()
    assert synthetic["age"].type == pa.int64()
    assert {*synthetic["work"].to_pylist()} == {"at work", "retired", None}
    with pytest.raises(stream_dp.UserError, match="choose kind 'independent' or 'hpd-fixed'"):
        stream_dp.fit_tables(homes, people, **declared, rho=1, kind="mwem")


def test_without_jax_the_default_says_what_it_does_not_learn(monkeypatch):
    monkeypatch.setattr("stream_dp.batch.fit_tables.find_spec", lambda _: None)
    homes, people, declared = ordinary()
    with pytest.warns(UserWarning, match="without JAX the kind is 'independent'") as caught:
        fitted = stream_dp.fit_tables(homes, people, **{**declared, "kind": None})
    assert fitted.kind == "independent"
    assert caught[0].filename == __file__
    empty = fitted.sample()[1]["work"].null_count / fitted.sample()[1].num_rows
    assert abs(empty - people["work"].null_count / people.num_rows) < 0.1


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
        ({"epsilon": 1, "delta": 1e-6}, "rho, epsilon: give one of the two"),
        ({"rho": None, "epsilon": 1}, "delta: is needed with epsilon"),
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
