"""The journal: the confidential record of every decision, with its entries and checks."""
