"""Errors to expect of a study before it has any data, and what smaller ones cost."""
