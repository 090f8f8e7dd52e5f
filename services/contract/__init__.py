"""The contract with other programs: schemas of a study's reports."""
