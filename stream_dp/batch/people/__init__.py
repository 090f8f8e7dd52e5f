"""Synthesizers of people: one table, a row for each person."""
