"""Backups of a running study, and restoring."""
