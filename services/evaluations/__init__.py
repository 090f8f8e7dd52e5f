"""Known data that `evaluate` judges the releases of each family by. CONFIDENTIAL."""
