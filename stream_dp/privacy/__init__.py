"""Privacy: exact noise, zCDP accounting, the ledger. Imports no other package of the project."""
