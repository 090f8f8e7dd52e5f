"""Joint releases: one panel for window patterns and cumulative totals."""
