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
