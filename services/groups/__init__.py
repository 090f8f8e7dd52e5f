"""The table of groups and their members."""
