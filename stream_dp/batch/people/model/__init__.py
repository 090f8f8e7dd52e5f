"""Step 4: models of noisy interactions, and people drawn from them."""
