"""What the tests of several folders share.

Tests import it as `kit`: `pythonpath` in pyproject.toml names this folder's parent.
"""
