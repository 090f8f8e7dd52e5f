"""A period closed in parts, by several processes or on Spark."""
