"""Questions to the operator from which `stream-dp init` writes a study file."""
