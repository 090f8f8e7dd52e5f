"""The fast sampler: its tables, its decision on every small word, and its law beside OpenDP's."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency

from stream_dp.privacy import noise
from stream_dp.privacy.exact_tables import Law, decided, exponential, table
from stream_dp.privacy.noise import SeededNoise, SystemNoise, discrete_gaussian, double_geometric

LAWS = [
    Law.gaussian(Fraction(1, 100)),
    Law.gaussian(Fraction(1, 4)),
    Law.gaussian(Fraction(1)),
    Law.gaussian(Fraction(100, 7)),
    Law.geometric(Fraction(1, 10)),
    Law.geometric(Fraction(2)),
]


def exact_floors(law, bits):
    """floor(2^bits F(k)) by k, from 120 digits: another arithmetic than the library's."""
    with localcontext(prec=120):
        slope, bend = (Decimal(x.numerator) / x.denominator for x in (law.slope, law.bend))
        weights, k = [], 0
        while not weights or weights[-1] > Decimal(10) ** -60:
            weights.append((-(slope * k + bend * k * (k - 1) / 2)).exp())
            k += 1
        total = weights[0] + 2 * sum(weights[1:])
        floors, below = {}, Decimal(0)
        for k in range(1 - len(weights), len(weights)):
            below += weights[abs(k)]
            floors[k] = int((below / total * 2**bits).to_integral_value("ROUND_FLOOR"))
        return floors


@given(st.fractions(0, 1000, max_denominator=10**6), st.integers(20, 300))
@settings(max_examples=60, deadline=None)
def test_the_bounds_of_an_exponential_enclose_it_and_nearly_meet(exponent, bits):
    low, high = exponential(exponent, bits)
    with localcontext(prec=600):
        value = (-Decimal(exponent.numerator) / exponent.denominator).exp() * 2**bits
        assert low <= value <= high
    assert high - low <= 2


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("bits", [8, 16, 64, 128])
def test_every_entry_is_the_exact_probability_rounded_down(law, bits):
    entries = table(law, bits)
    exact = exact_floors(law, bits)
    assert entries.floors[0] == 0
    assert entries.floors[-1] == (1 << bits) - 1
    assert list(entries.floors) == [exact[entries.first + i] for i in range(len(entries.floors))]


@pytest.mark.parametrize("guide_from", [0, 2])
@pytest.mark.parametrize("law", LAWS)
def test_all_words_of_16_bits_are_decided_as_the_exact_law_has_it(law, guide_from, monkeypatch):
    """Words of 8 bits and, on a tie, 8 more: every one of the 65,536 continuations is tried.

    With a guide to the table, and without one.

    Of the words of 16 bits, exactly those that are an entry of the table of 16 bits need more.
    """
    monkeypatch.setattr(noise, "_BITS", 8)
    monkeypatch.setattr(noise, "_GUIDED", 3)
    monkeypatch.setattr(noise, "_GUIDE_FROM", guide_from)
    noise._words_of.cache_clear()
    noise._guide.cache_clear()
    seen = {}
    needed_more = 0
    for first in range(256):
        for second in range(256):
            given_bytes = [bytes([second])]

            def entropy(size, given_bytes=given_bytes):
                assert size == 1
                return given_bytes.pop()

            monkeypatch.setattr(noise, "system_entropy", entropy)
            try:
                (value,) = noise._values(law, np.array([first], np.uint64)).tolist()
            except IndexError:  # two words do not decide
                needed_more += 1
                continue
            seen[value] = seen.get(value, 0) + 1
            if given_bytes:  # decided by the first word: so are its other continuations
                seen[value] += 255
                break
    noise._words_of.cache_clear()
    noise._guide.cache_clear()
    exact = exact_floors(law, 16)
    least, *_ = exact
    expected = {
        k: between
        for k, floor in exact.items()
        if (between := floor - (exact[k - 1] if k > least else -1) - 1) > 0
    }
    assert seen == expected
    assert needed_more == len({floor for floor in exact.values() if floor >> 16 == 0})


def test_a_tie_is_decided_by_further_words():
    law = Law.gaussian(Fraction(1))
    entries = table(law, 64)
    for place in (0, len(entries.floors) // 2, len(entries.floors) - 1):
        word = entries.floors[place]
        low = decided(law, word, 64, lambda: 1)
        high = decided(law, word, 64, lambda: (1 << 64) - 2)
        assert low <= entries.first + place <= high
        assert low < high


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(400)])
def test_a_large_draw_has_the_law_of_a_small_one_and_5_percent_off_is_noticed(variance):
    """Words and tables against OpenDP's sampler, which small draws use."""
    size = noise._TABLE_FROM
    large = discrete_gaussian(variance, 1 << 17)
    middling = np.concatenate([discrete_gaussian(variance, 2 * size) for _ in range(128)])
    small = np.concatenate([discrete_gaussian(variance, size - 1) for _ in range(128)])
    assert same_law(large, small)
    assert same_law(middling, small)
    off = discrete_gaussian(variance * Fraction(105, 100) ** 2, 1 << 17)
    assert not same_law(off, small)


def same_law(first, second, alarm=1e-12):
    """Whether two samples have one law, by a chi-squared test on their common quantiles."""
    cuts = np.unique(np.quantile(second, np.linspace(0, 1, 40)[1:-1], method="nearest"))
    counts = [
        np.bincount(np.searchsorted(cuts, s), minlength=len(cuts) + 1) for s in (first, second)
    ]
    counts = np.array(counts)[:, np.sum(counts, 0) > 0]
    return chi2_contingency(counts).pvalue > alarm


@pytest.mark.parametrize("decay", [Fraction(1, 10), Fraction(1), Fraction(5, 2)])
@pytest.mark.parametrize("source", [SystemNoise(), SeededNoise(5)])
def test_double_geometric_noise_has_its_variance(decay, source):
    def fits(sample):
        ratio = np.exp(-float(decay))
        variance = 2 * ratio / (1 - ratio) ** 2
        squares = sample.astype(float) ** 2 / variance
        near = abs(squares.mean() - 1) < 8 * squares.std() / len(squares) ** 0.5
        return near and abs(sample.mean()) < 8 * (variance / len(sample)) ** 0.5

    size = 200_000
    assert fits(source.geometric(decay, size))
    assert not fits(source.geometric(decay * Fraction(100, 105), size))
    assert not fits(source.geometric(decay * Fraction(100, 95), size))


def test_noise_that_hardly_falls_is_refused():
    with pytest.raises(ValueError, match="must fall"):
        table(Law(Fraction(0), Fraction(0)), 64)
    with pytest.raises(ValueError, match="2\\^-12"):
        double_geometric(Fraction(1, 5000), 10)
