"""MWEM: multiplicative weights over all possible groups (Hardt et al. 2012; Liu and Wu 2022)."""
