"""Audits: a lower bound on what a release costs, from simulated people. No log is opened."""
