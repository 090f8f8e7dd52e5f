"""Step 1: the columns of a table become the measured columns, and back."""
