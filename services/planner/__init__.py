"""What a study promises before it has data: errors, the budget of an error, other declarations."""
