"""Households: models of groups and their members, and the queries that train them."""
