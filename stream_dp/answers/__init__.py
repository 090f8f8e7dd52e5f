"""Noisy answers to answers with errors: queries, measurements, the best linear estimator."""
