"""Orders of numbers that names suggest: what is proposed, and names that only look like it."""

import pytest

from stream_dp.study import Attribute
from stream_dp.study.column_advice import likely_orders

NUMBERS = Attribute(values=(1, 2, 3), missing="absent")
YEARS = Attribute(values=(1990, 2000), missing="absent")
WORDS = Attribute(values=("a", "b"), missing="absent")


def proposed(*names, attribute=NUMBERS):
    return {*likely_orders(dict(zip(names, names, strict=True)), dict.fromkeys(names, attribute))}


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("job_start_year", "job_end_year"),
        ("ContractStartDate", "ContractEndDate"),
        ("unemployment_began_yr", "unemployment_ended_yr"),
        ("admission_date", "discharge_date"),
        ("age_started_smoking", "age_stopped_smoking"),
        ("year_of_first_marriage", "year_of_last_marriage"),
        ("hours_min", "hours_max"),
        ("lowest_weight", "highest_weight"),
        ("age_first_job", "age"),
        ("AgeAtMarriage", "PAge"),
        ("age_left_school", "current_age"),
        ("years_of_schooling", "age"),
        ("years_employed", "age"),
        ("birth_year", "hired_year"),
        ("yob", "year_first_diagnosed"),
        ("hh_children", "hh_size"),
        ("HHChildren", "HHSize"),
        ("family_children", "household_size"),
    ],
)
def test_names_of_numbers_in_order_are_proposed(low, high):
    assert proposed(low, high) == proposed(high, low) == {f"{low} <= {high}"}
    assert not proposed(low, high, attribute=WORDS)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("wage_start", "wage_end"),
        ("wage_start_year", "wage_end_year"),
        ("score_first_year", "score_last_year"),
        ("work_start_hour", "work_end_hour"),
        ("season_start_month", "season_end_month"),
        ("arrival_year", "departure_year"),
        ("low_income", "high_income"),
        ("net_income", "gross_income"),
        ("lower_secondary", "upper_secondary"),
        ("start", "end"),
        ("from", "to"),
        ("mother_age", "age"),
        ("mother_age_at_first_birth", "age"),
        ("age_at_death", "age"),
        ("expected_retirement_age", "age"),
        ("pension_start_age", "age"),
        ("age_group", "age"),
        ("years_to_retirement", "age"),
        ("years_until_pension", "age"),
        ("birth_year", "built_year"),
        ("birth_year", "car_year"),
        ("mother_birth_year", "hired_year"),
        ("n_children", "hh_size"),
        ("household_adults", "family_size"),
        ("children_in_class", "class_size"),
    ],
)
def test_names_that_only_look_like_it_are_not_proposed(low, high):
    assert not proposed(low, high)


def test_declared_years_tell_what_a_name_leaves_open():
    assert proposed("start", "end", attribute=YEARS) == {"start <= end"}
    assert not proposed("wage_start", "wage_end", attribute=YEARS)


def test_labels_are_read_in_the_place_of_names():
    texts = {
        "q1": "Age of respondent",
        "q2": "Age at first job",
        "q3": "In which year did you start your current job?",
        "q4": "In which year did you end your current job?",
        "q5": "Year of birth",
        "q6": "Age of your partner",
        "q7": "Age at which you would like to retire",
    }
    rules = {*likely_orders(texts, dict.fromkeys(texts, NUMBERS))}
    assert rules == {"q2 <= q1", "q3 <= q4", "q5 <= q3"}


def test_a_rule_that_a_study_refuses_is_not_proposed():
    hundreds = Attribute(number={"least": 0, "most": 900, "step": 100}, missing="absent")
    attributes = {"hours_min": hundreds, "hours_max": NUMBERS}
    assert not [*likely_orders({name: name for name in attributes}, attributes)]
    assert [
        *likely_orders({name: name for name in attributes}, dict.fromkeys(attributes, hundreds))
    ]
