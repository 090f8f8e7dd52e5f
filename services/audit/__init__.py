"""A lower bound on the cost of a study, proved from runs on simulated people."""
