"""The ledger: exact, refuses before anything is drawn, all or nothing, never gives back."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_dp.privacy.ledger import BudgetExceeded, Charge, Ledger

rhos = st.fractions(0, 1, max_denominator=1000)
batches = st.lists(st.lists(rhos, max_size=4), max_size=8)


@given(rhos, batches)
def test_the_filter_is_the_running_sum_and_a_refused_batch_leaves_no_trace(total, plan):
    ledger, expected = Ledger(total), []
    for period, batch in enumerate(plan, 1):
        charges = [Charge("r", period, rho) for rho in batch]
        if sum(expected) + sum(batch) <= total:
            ledger = ledger.charge(*charges)
            expected += batch
        else:
            before = ledger
            with pytest.raises(BudgetExceeded):
                ledger.charge(*charges)
            assert ledger == before
        assert sum(ledger.costs.values()) == sum(expected)
        assert ledger.spent == sum(expected) <= total
        assert ledger.left == total - ledger.spent >= 0


def test_a_budget_is_spent_to_the_last_fraction_and_no_further():
    third = Charge("r", 1, Fraction(1, 30))
    full = Ledger(Fraction(1, 10)).charge(third, third, third)
    assert full.left == 0
    assert full.charge(Charge("r", 2, Fraction(0))).spent == Fraction(1, 10)
    with pytest.raises(BudgetExceeded):
        full.charge(Charge("r", 2, Fraction(1, 10**30)))


def test_a_ledger_is_a_value():
    empty = Ledger(Fraction(1))
    empty.charge(Charge("r", 1, Fraction(1, 2)))
    assert empty.spent == 0


def test_a_refusal_says_what_was_asked_and_what_is_left():
    ledger = Ledger(Fraction(1, 10)).charge(Charge("a", 1, Fraction(1, 20)))
    with pytest.raises(BudgetExceeded) as refused:
        ledger.charge(Charge("b", 2, Fraction(1, 10)))
    for word in ("b at period 2", "3/20", "1/10", "1/20"):
        assert word in str(refused.value)


def test_no_charge_is_negative():
    with pytest.raises(ValueError, match="negative"):
        Ledger(Fraction(1)).charge(Charge("r", 1, Fraction(1, 2)), Charge("r", 1, Fraction(-1, 4)))
