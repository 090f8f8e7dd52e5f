"""Counts and the accounting of cells are the same on Kafka, on SQLite and by a plain model."""

import gc

import pytest
from kit.real_panels import PANELS
from load import compare
from load_reports import generate

PANEL = PANELS / "oulad_submit_monthly.csv"


@pytest.mark.skipif(not PANEL.exists(), reason="the panel of shared/data is not here")
def test_kafka_and_sqlite_agree_with_the_model(kafka):
    try:
        lines, equal = compare(generate(20_000), kafka)
    finally:
        gc.unfreeze()
    assert equal, "\n".join(lines)


@pytest.mark.skipif(not PANEL.exists(), reason="the panel of shared/data is not here")
def test_a_load_repeats_and_has_the_wanted_size():
    load, again, other = generate(2_000), generate(2_000), generate(2_000, seed=2)
    assert len(load) == 2_000
    assert load == again != other
