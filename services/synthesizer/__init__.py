"""The synthesizer: a worker that makes the data sets of batch jobs."""
