"""Lower bounds of the error of totals, for all Gaussian mechanisms.

A mechanism measures the entries z of all thresholds with noise of precision X, online or not. Its
cost at 2 rho = 1 bounds z' X z for every history z, or for every difference of two histories under
replacement. For a measure on histories with second moments M = E[z z'], tr(M X) is at most the
largest cost, 1. The mean variance of the cells of S = D z is tr(D X^-1 D') / cells, and by Cauchy
and Schwarz its product with tr(M X) is at least the squared nuclear norm of D M^1/2 over cells. So
every measure gives a lower bound of the root mean square error. The history with an event in every
period gives 1.

`python -m kit.totals_bounds` in `tests` computed the table. Its measures are mixtures of birth
processes, whose constants maximise the bound at a few numbers of periods. At 12 periods the bound
is .995 of the largest bound of all measures under add_remove, and .989 under replacement.
"""

from __future__ import annotations

# By whether a person is replaced, by the number of periods, in units of 1 / sqrt(2 rho); rounded
# down.
# fmt: off
LEAST_RMSE: dict[bool, dict[int, float]] = {
    False: {
        1: 1.0, 2: 1.0923, 3: 1.3389, 4: 1.5433, 5: 1.721, 6: 1.879, 7: 2.0217, 8: 2.1525,
        9: 2.2736, 10: 2.3868, 11: 2.4932, 12: 2.5939, 13: 2.6895, 14: 2.7807, 15: 2.868,
        16: 2.9518, 17: 3.0324, 18: 3.1157, 19: 3.1975, 20: 3.2766, 21: 3.3533, 22: 3.4276,
        23: 3.4998, 24: 3.57, 25: 3.6384, 26: 3.705, 27: 3.77, 28: 3.8335, 29: 3.8955, 30: 3.9587,
        31: 4.021, 32: 4.0821, 33: 4.142, 34: 4.2008, 35: 4.2585, 36: 4.3152, 48: 4.9328,
        60: 5.4845, 72: 5.9722, 84: 6.4117,
    },
    True: {
        1: 1.0, 2: 1.2041, 3: 1.5044, 4: 1.7599, 5: 1.9862, 6: 2.1917, 7: 2.3804, 8: 2.5558,
        9: 2.72, 10: 2.8749, 11: 3.022, 12: 3.162, 13: 3.2955, 14: 3.4232, 15: 3.546, 16: 3.6661,
        17: 3.7852, 18: 3.9007, 19: 4.0127, 20: 4.1216, 21: 4.2275, 22: 4.3308, 23: 4.4316,
        24: 4.53, 25: 4.6262, 26: 4.7204, 27: 4.8126, 28: 4.9029, 29: 4.9915, 30: 5.0785,
        31: 5.1638, 32: 5.2477, 33: 5.3301, 34: 5.4111, 35: 5.4908, 36: 5.5693, 48: 6.4283,
        60: 7.1711,
    },
}
# fmt: on
