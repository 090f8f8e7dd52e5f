"""Batch jobs: the records in their topics, and the state of each job."""
