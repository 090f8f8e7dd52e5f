"""Continual synthesizers: pure, exact, without input or output (symbols: NOTATION.md)."""
