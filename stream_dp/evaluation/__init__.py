"""Trials of declared mechanisms on known data. CONFIDENTIAL if the data are real."""
