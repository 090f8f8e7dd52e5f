"""Step 3: how rho is spent, and which sets of columns are measured."""
