"""The study of a small trial, and its reports as a table."""

import csv

STUDY = """
[study]
name = "poverty"
description = "A small trial"
unit = "household"
neighbours = "replace_one"
rho = 1
delta = 1e-6

[study.periods]
first = "2021-01"
every = "month"
count = 3

[study.population]
size = 60

[attributes.poverty]
values = [0, 1]
missing = 0

[attributes.work]
values = ["no", "half day"]
missing = "absent"

[[releases]]
name = "pairs"
kind = "window"
attribute = "poverty"
width = 2
rho = 0.5

[[releases]]
name = "months"
kind = "cumulative"
attribute = "work"
event = ["half day"]
rho = 0.25

[run]
log = "sqlite:poverty.db"
public = "sqlite:public.db"
"""
MONTHS = ("2021-01", "2021-02", "2021-03")


def write(folder, study=STUDY, months=MONTHS, people=50):
    """A study file and a long table of every person's months."""
    path = folder / "study.toml"
    path.write_text(study)
    with (folder / "reports.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["person", "period", "poverty", "work"])
        for month in months:
            table.writerows([f"p{i}", month, i % 2, "half day"] for i in range(people))
    return path
