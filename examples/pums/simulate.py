"""Simulated files in the format of the ACS PUMS, to try the example without the Census Bureau's:

    python simulate.py OUT [HOUSEHOLDS]

Written to the folder OUT: psam_h00.csv, a housing unit a line, and psam_p00.csv, a person a line,
with the columns that tables.py reads, and weights, which it ignores. Couples are of like age,
children two to four decades younger than their parents, work and income depend on both. A tenth of
the units is vacant, and there are group quarters. The same for the same number of households.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tables import refuse

HEAD, SPOUSE, PARTNER, CHILD, SIBLING, LODGER, INMATE = "20", "21", "22", "25", "28", "34", "37"
HOUSING = ("RT", "SERIALNO", "NP", "TEN", "HINCP", "WGTP")
PEOPLE = ("RT", "SERIALNO", "SPORDER", "RELSHIPP", "AGEP", "SEX", "ESR", "PWGTP")


def worker(rng: Random, age: int) -> str:
    """ESR: at work 1, unemployed 3, not in the labour force 6, empty for children."""
    if age < 16:
        return ""
    if rng.random() < (0.8 if 22 < age < 65 else 0.25):
        return "1"
    return "3" if rng.random() < 0.1 and age < 70 else "6"


def household(rng: Random) -> Iterator[tuple[str, int, str, str]]:
    """Everybody's relation to the head, age, sex and work."""
    age, sex = min(95, 18 + int(rng.gammavariate(5, 7))), rng.choice("12")
    yield HEAD, age, sex, worker(rng, age)
    married = rng.random() < 0.55
    if married:
        theirs = max(18, min(95, age + rng.randint(-6, 6)))
        yield SPOUSE, theirs, "21"[sex == "2"] if rng.random() > 0.01 else sex, worker(rng, theirs)
    elif rng.random() < 0.1:
        yield PARTNER, age, rng.choice("12"), worker(rng, age)
    if 22 < age < 65:
        for _ in range(min(6, int(rng.expovariate(1 / (1.2 if married else 0.5))))):
            theirs = max(0, age - rng.randint(20, 40))
            yield CHILD, theirs, rng.choice("12"), worker(rng, theirs)
    while rng.random() < 0.08:
        theirs = rng.randint(18, 80)
        yield rng.choice((SIBLING, LODGER)), theirs, rng.choice("12"), worker(rng, theirs)


def simulate(folder: Path, households: int) -> tuple[Path, Path]:
    """Both files."""
    rng = Random(households)
    folder.mkdir(parents=True, exist_ok=True)
    files = folder / "psam_h00.csv", folder / "psam_p00.csv"
    with files[0].open("w", newline="") as homes, files[1].open("w", newline="") as persons:
        units, people = csv.writer(homes), csv.writer(persons)
        units.writerow(HOUSING)
        people.writerow(PEOPLE)
        for number in range(households):
            serial = f"2023HU{number:07d}"
            members = list(household(rng))
            earners = sum(work == "1" for *_, work in members)
            income = int(rng.lognormvariate(10.2, 0.7) * (0.6 + earners)) - 1000
            owned = rng.random() < 0.2 + 0.008 * members[0][1]
            units.writerow(["H", serial, len(members), 1 if owned else 3, income, 20])
            for order, (relation, *person) in enumerate(members, 1):
                people.writerow(["P", serial, f"{order:02d}", relation, *person, 20])
            if number % 10 == 0:
                units.writerow(["H", f"2023HU9{number:06d}", 0, "", "", 20])
            if number % 50 == 0:
                units.writerow(["H", f"2023GQ{number:07d}", 1, "", "", 0])
                inmate = [INMATE, rng.randint(18, 90), rng.choice("12"), "6"]
                people.writerow(["P", f"2023GQ{number:07d}", "01", *inmate, 20])
    return files


if __name__ == "__main__":
    if len(sys.argv) not in {2, 3} or not all(n.isdecimal() and int(n) for n in sys.argv[2:]):
        refuse("usage: simulate.py OUT [HOUSEHOLDS]")
    try:
        print(*simulate(Path(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else 5000))
    except OSError as error:
        refuse(f"{sys.argv[1]}: cannot be written: {error.strerror}; name a folder for the files")
