"""Reports on their way into the log: judging, sending, markers, schemas, dead letters."""
