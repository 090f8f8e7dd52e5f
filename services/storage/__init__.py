"""Confidential files: snapshots, encryption, secrets, backups, and who may read them."""
