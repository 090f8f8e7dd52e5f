"""The study of a small trial, and its reports as a table."""

import csv
import shlex

from kit.studies import BINARY, attribute, cumulative, study_toml, window

STUDY = study_toml(
    name="poverty",
    description="A small trial",
    unit="household",
    size=60,
    attributes={**BINARY, "work": attribute(["no", "half day"], missing="absent")},
    releases=[
        window("pairs", "poverty", width=2, rho=0.5),
        cumulative("months", "work", ["half day"], rho=0.25),
    ],
    run={"log": "sqlite:poverty.db", "public": "sqlite:public.db"},
)
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


def sent_command(printed: str) -> list[str]:
    """The words of the printed command that sends the table."""
    (sent,) = [line for line in printed.splitlines() if line.startswith("to send it: ")]
    return shlex.split(sent.removeprefix("to send it: stream-dp "))
