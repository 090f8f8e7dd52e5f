"""Data sets on known data: errors by class of query, scores, baselines, figures."""
