"""Backups of a study while it runs, and what can be restored from them."""
