"""Step 1: the columns of a table become those that are measured, and back."""
