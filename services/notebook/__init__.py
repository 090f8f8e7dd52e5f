"""For notebooks: a table in, and a synthetic table or a panel out, in one call."""
