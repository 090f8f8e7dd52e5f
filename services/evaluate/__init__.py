"""Errors of the mechanisms on known data. CONFIDENTIAL: so is every report of theirs."""
