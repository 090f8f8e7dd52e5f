"""Charts as marks, and their pictures."""
