"""Expected errors of a study before any data, and the cost of smaller errors."""
