"""Answers about data sets: of people, or of groups and their members."""
