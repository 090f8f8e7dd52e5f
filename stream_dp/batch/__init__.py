"""Batch synthesizers: complete synthetic data sets of groups and their members, on a schedule."""
