"""Batch jobs: what their topics hold, what state each is in."""
