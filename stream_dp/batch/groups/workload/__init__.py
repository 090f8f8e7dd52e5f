"""Queries on groups and people: what can be asked, true counts, sensitivities."""
