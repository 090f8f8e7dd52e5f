"""SIMULATED files for the commands of a page: page_files.py PAGE

Writes the study file and the tables of a how-to guide into the folder PAGE.
"""

from __future__ import annotations

import csv
import os
import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

DICE = random.Random(7)
MONTHS = [f"2026-{month:02}" for month in range(1, 7)]
HEAD = """[study]
name = "{name}"
description = "SIMULATED people"
unit = "{unit}"
neighbours = "{neighbours}"
rho = {rho}
delta = 1e-6
{more}
[study.periods]
first = "{first}"
every = "month"
count = {count}

[study.population]
{population}

"""


def study(
    name: str,
    text: str,
    population: int | str,
    *,
    unit: str = "person",
    neighbours: str = "replace_one",
    rho: float = 0.5,
    first: str = "2026-01",
    count: int = 6,
    more: str = "",
) -> None:
    """Writes a study file; `more` follows the keys of [study], and `text` the number of people.

    population: their number where it is public, else a line of [study.population].
    """
    head = HEAD.format(
        name=name,
        unit=unit,
        neighbours=neighbours,
        rho=rho,
        more=more,
        first=first,
        count=count,
        population=f"size = {population}" if isinstance(population, int) else population,
    )
    Path(f"{name}.toml").write_text(head + text.lstrip("\n"), "utf-8")


def table(
    name: str, header: str, rows: Iterable[Sequence[object]], encoding: str = "utf-8"
) -> None:
    """Writes a CSV file."""
    with Path(name).open("w", newline="", encoding=encoding) as file:
        lines = csv.writer(file)
        lines.writerow(header.split(","))
        lines.writerows(rows)


def share(probability: float) -> bool:
    return DICE.random() < probability


def people(count: int) -> list[str]:
    return [f"p{number:05}" for number in range(count)]


POVERTY = """
[attributes.poverty]
values = [0, 1]
missing = 0

[[releases]]
name = "quarters"
kind = "window"
attribute = "poverty"
width = 3
share = 1
"""


def poverty(months: Sequence[str], count: int) -> list[tuple[str, str, int]]:
    return [(p, month, int(share(0.1))) for month in months for p in people(count)]


def correct_a_month() -> None:
    study("poverty", POVERTY, 2000, unit="household", first="2021-01", count=12)
    table("january.csv", "household,period,poverty", poverty(["2021-01"], 2000))
    wrong = poverty(["2021-02"], 2000)
    table("wrong.csv", "household,period,poverty", wrong)
    table("right.csv", "household,period,poverty", [(p, m, 1 - y) for p, m, y in wrong[:1990]])
    table("corrections.csv", "household,period,poverty", [("p00003", "2021-01", 1)])


def send_a_file() -> None:
    study("poverty", POVERTY, 2000, unit="household", first="2024-01", count=12)
    words = ("No", "Yes")
    for name, month in (("export", 3), ("january", 1), ("february", 2)):
        rows = [(p, f"15.{month:02}.2024", words[y]) for p, _, y in poverty(["2024"], 129)]
        table(f"{name}.csv", "household,period,poverty", rows)
    table(
        "survey.csv",
        "ID,Month,work",
        [(p, f"{d:02}.03.2024", words[share(0.4)]) for d, p in enumerate(people(28), 1)],
        "cp1252",
    )


def declare_the_population() -> None:
    study("study", POVERTY, "closed = true", neighbours="add_remove")
    table("panel.csv", "person,period,poverty", poverty(MONTHS, 500))


def group_sizes() -> None:
    text = """
[places]
unit = "block"
regions = ["county", "tract"]

[attributes.home]
place = true
missing = { carry = true, first = "absent" }

[[releases]]
name = "sizes"
kind = "sizes"
attribute = "home"
largest = 1000
share = 1
every = 3
"""
    study("study", text, 3000)
    blocks = [(f"b{n:03}", ("north", "south")[n % 2], f"01{n % 4:02}") for n in range(120)]
    table("places.csv", "place,county,tract", blocks)
    homes = [DICE.choice(blocks)[0] for _ in people(3000)]
    moved = [(p, "2026-05", DICE.choice(blocks)[0]) for p in people(300)]
    rows = [(p, "2026-01", home) for p, home in zip(people(3000), homes, strict=True)]
    table("reports.csv", "person,period,home", rows + moved)


def people_and_events() -> None:
    text = """
[attributes.age]
values = ["15-29", "30-64", "65+"]
missing = "absent"

[attributes.mode]
values = ["walk", "bike", "car", "bus"]
missing = "absent"
slots = 3

[attributes.purpose]
values = ["work", "shop", "home"]
missing = "absent"
slots = 3

[[releases]]
name = "trips"
kind = "hpd-events"
attributes = ["age"]
every = 1
share = 1
rows = 300
rounds = 1
[releases.events]
unit = "trip"
columns = ["mode", "purpose"]
most = 3
"""
    study("diary", text, 300, count=1)
    ages = [(p, "2026-01", DICE.choice(["15-29", "30-64", "65+"])) for p in people(300)]
    table("persons.csv", "person,period,age", ages)
    modes, purposes = ["walk", "bike", "car", "bus"], ["work", "shop", "home"]
    trips = [
        (p, "2026-01", trip, DICE.choice(modes), DICE.choice(purposes))
        for p in people(300)
        for trip in range(1, DICE.randint(1, 3) + 1)
    ]
    table("trips.csv", "person,period,trip,mode,purpose", trips)


def synthetic_households() -> None:
    text = """
[groups]
unit = "household"
most = 4
[groups.attributes.region]
values = ["north", "south"]

[attributes.income]
values = [0, 1, 2]
missing = 0

[attributes.work]
values = ["none", "full"]
missing = "none"

[[releases]]
name = "households"
kind = "hpd-fixed"
attributes = ["income", "work"]
every = 3
share = 1
rows = 200
rounds = 1
"""
    study("homes", text, 500, neighbours="replace_in_place", count=3)
    homes = [(f"h{n:03}", DICE.choice(["north", "south"])) for n in range(200)]
    table("groups.csv", "household,region", homes)
    members = [(p, f"h{n % 200:03}") for n, p in enumerate(people(500))]
    table("members.csv", "person,household", members)
    rows = [
        (p, month, DICE.randint(0, 2), DICE.choice(["none", "full"]))
        for p in people(500)
        for month in MONTHS[:3]
    ]
    table("answers.csv", "person,period,income,work", rows)


def synthetic_people() -> None:
    text = """
[attributes.sex]
values = ["f", "m"]
missing = "f"

[attributes.region]
values = ["north", "south"]
missing = "north"

[attributes.work]
values = ["none", "part", "full"]
missing = "none"

[[releases]]
name = "people"
kind = "table"
attributes = ["sex", "region", "work"]
at = ["2021-01", "2021-06"]
share = 0.5
"""
    study("study", text, 2000, first="2021-01")
    works = ["none", "part", "full"]
    rows = [
        (p, period, "fm"[n % 2], ("north", "south")[n % 3 % 2], DICE.choices(works, [3, 2, 5])[0])
        for n, p in enumerate(people(2000))
        for period in ("2021-01", "2021-06")
    ]
    table("answers.csv", "person,period,sex,region,work", rows)


def fit_a_regression() -> None:
    text = """
[attributes.age]
values = [20, 30, 40, 50, 60]
missing = "absent"

[attributes.sex]
values = ["f", "m"]
missing = "absent"

[attributes.work]
values = ["none", "full"]
missing = "absent"

[attributes.income]
values = [0, 1, 2, 3, 4, 5]
missing = "absent"

[[releases]]
name = "people"
kind = "table"
attributes = ["age", "sex", "work", "income"]
at = ["2026-01"]
share = 1
"""
    study("study", text, 3000, count=1)
    rows = []
    for p in people(3000):
        age, sex = DICE.choice([20, 30, 40, 50, 60]), DICE.choice("fm")
        working = "full" if share(0.3 + age / 150) else "none"
        income = min(5, max(0, round(age / 20 + (sex == "m") + DICE.gauss(0, 1))))
        rows.append((p, "2026-01", age, sex, working, income))
    table("answers.csv", "person,period,age,sex,work,income", rows)


def survey_practice() -> None:
    text = """
[study.weights]
by = "region"
totals = { north = 1200000, south = 800000 }

[attributes.region]
values = ["north", "south"]
missing = "absent"
fixed = true

[attributes.work]
values = ["no", "yes"]
missing = "absent"

[[releases]]
name = "employment"
kind = "window"
attribute = "work"
width = 2
strata = "region"
rows = 3000
share = 1
"""
    study("work", text, 3000)
    rows = [
        (p, month, ("north", "south")[n % 3 % 2], DICE.choices(["yes", "no"], [3, 1])[0])
        for n, p in enumerate(people(3000))
        for month in MONTHS[:3]
        if share(0.9)
    ]
    table("answers.csv", "person,period,region,work", rows)


def start_from_a_table() -> None:
    months = [f"2025-{month:02}" for month in range(1, 13)]
    rows = [
        (p, month, ("no", "yes")[share(0.1)], ("north", "south")[n % 2])
        for n, p in enumerate(people(200))
        for month in months
    ]
    table("answers.csv", "ID,Month,Out of Work,Region", rows)


PAGES = {
    "correct-a-month": correct_a_month,
    "send-a-file": send_a_file,
    "declare-the-population": declare_the_population,
    "group-sizes": group_sizes,
    "people-and-events": people_and_events,
    "synthetic-households": synthetic_households,
    "synthetic-people": synthetic_people,
    "fit-a-regression": fit_a_regression,
    "survey-practice": survey_practice,
    "start-from-a-table": start_from_a_table,
}


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in PAGES:
        print(f"usage: page_files.py PAGE, one of {', '.join(PAGES)}", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    if folder.exists():
        print(f"page_files.py: {folder} is there already; remove it", file=sys.stderr)
        return 2
    folder.mkdir()
    os.chdir(folder)
    PAGES[arguments[0]]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
