"""Privacy: exact noise, zCDP accounting, the ledger. Imports nothing of ours."""
