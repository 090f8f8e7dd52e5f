"""A lower bound on the cost of a release, proved from runs on simulated people."""
