"""Joint releases: a panel for window patterns and cumulative totals together."""
