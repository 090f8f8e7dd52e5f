"""HPD-Fixed: a mixture of products fitted to noisy answers (Liu and Wu 2022)."""
