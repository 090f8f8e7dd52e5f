"""Descriptions of published tables for catalogues: Croissant, DCAT-AP, Frictionless, DDI, SDMX."""
