"""Renyi divergences of noise, summed term by term."""

import math
from functools import cache


@cache
def log_moment(decay, change, excess):
    """(a - 1) D_a between X + change and X, X double-geometric: a sum over its values."""
    reach = abs(change) + math.ceil(60 / decay)
    spread = math.log(math.tanh(decay / 2))
    terms = [
        spread - decay * ((1 + excess) * abs(x - change) - excess * abs(x))
        for x in range(-reach, reach + 1)
    ]
    most = max(terms)
    return most + math.log(math.fsum(math.exp(term - most) for term in terms))
