"""Every number of a cost is a Fraction, however a caller writes it."""

import copy
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import stream_dp
from stream_dp.privacy.exact_numbers import exact_number

HUNDREDTH = [0.01, "0.01", "1/100", "1e-2", Decimal("0.01"), Fraction(1, 100), np.float64(0.01)]
WINDOW = {"values": (0, 1), "width": 2, "horizon": 4, "neighbours": "replace_one", "rows": 10}
TOTALS = {"horizon": 4, "neighbours": "replace_one", "rows": 10}


@pytest.mark.parametrize("number", HUNDREDTH, ids=repr)
def test_a_number_is_exactly_what_is_written(number):
    hundredth = Fraction(1, 100)
    window = stream_dp.FixedWindow(**WINDOW, rho=number, failure=number)
    totals = stream_dp.Cumulative(**TOTALS, rho=number, size_share=number)
    assert (window.rho, window.failure) == (totals.rho, totals.size_share) == (hundredth,) * 2
    assert sum(window.charges) == sum(totals.charges) == hundredth
    assert stream_dp.gaussian_rho(number, number) == Fraction(1, 2)
    assert stream_dp.epsilon(number, number) == stream_dp.epsilon(hundredth, hundredth)
    for noise in (stream_dp.SystemNoise(), stream_dp.SeededNoise(1)):
        assert len(noise.draw([(number, 3)]).noise[0]) == 3


@pytest.mark.parametrize(
    "word", ["", "a", "1/0", "1e9999999", None, True, float("nan"), float("inf"), [1]]
)
def test_what_is_no_number_is_one_sentence(word):
    with pytest.raises(ValueError, match=r"^rho: must be a number such as 0\.01 or '1/100', not "):
        exact_number("rho", word)


def test_a_mechanism_is_copied_whole():
    window = stream_dp.FixedWindow(**WINDOW, rho=0.01)
    assert replace(window, rho="1/7").rho == Fraction(1, 7)
    assert copy.deepcopy(window) == window
    assert hash(window) == hash(stream_dp.FixedWindow(**WINDOW, rho="1/100"))
    with pytest.raises(AttributeError):
        window.rho = 1
    with pytest.raises(TypeError, match="rho"):
        stream_dp.FixedWindow(**WINDOW)
