"""Synthesizers of people: a table with a row a person."""
