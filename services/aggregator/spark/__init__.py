"""Periods closed in parts by Apache Spark: one application, whose driver is the aggregator."""
