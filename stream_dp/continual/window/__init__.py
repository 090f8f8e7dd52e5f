"""Fixed-window releases: patterns of the last k periods."""
