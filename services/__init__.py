"""The processes: they alone tie studies, mechanisms and logs together."""
