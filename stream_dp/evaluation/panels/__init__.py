"""Panels on known data: repeated mechanisms, their errors, tables and figures."""
