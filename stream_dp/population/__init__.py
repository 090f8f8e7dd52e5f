"""CONFIDENTIAL: from the bytes of reports to the counts of a closed period."""
