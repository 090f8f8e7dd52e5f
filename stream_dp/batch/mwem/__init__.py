"""MWEM: a weight for every group that can be, by multiplicative weights (Liu and Wu 2022)."""
