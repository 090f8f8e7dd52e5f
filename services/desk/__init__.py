"""Where a study begins: questions about a table, a demo, and a study from a notebook."""
