"""The aggregator: closes periods in parts, in several processes."""
