"""Cumulative releases: how many people had an event at least b times so far."""
