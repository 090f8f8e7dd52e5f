"""Closes in parts: orders of the releaser, manifests of the aggregator, files of the parts."""
