"""Plans of a study without data: expected errors, needed budgets, alternative declarations."""
