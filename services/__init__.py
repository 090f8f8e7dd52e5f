"""The processes of a study, which connect its mechanisms with its logs."""
