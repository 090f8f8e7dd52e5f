"""The contract with other programs: schemas of reports, and AsyncAPI of all topics."""
