"""Trials of declared mechanisms on known data. CONFIDENTIAL where the data are real."""
