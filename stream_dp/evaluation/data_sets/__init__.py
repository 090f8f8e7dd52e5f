"""Data sets of groups on known data: errors by class of query, baselines, figures."""
