"""Known data for judging the releases of every family. CONFIDENTIAL."""
