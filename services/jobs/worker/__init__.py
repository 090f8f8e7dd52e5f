"""The synthesizer: a worker that fits the data sets of batch jobs."""
