"""Answers of 2,000 SIMULATED people in two months, one JSON report a line, each behind its key.

Its output goes to a producer such as `kcat -P -b BROKER -t office.reports -K '\t'`.
"""

import json
import random

dice = random.Random(7)
for person in range(2000):
    region, work = dice.choice(["north", "south", "west"]), dice.random() < 0.9
    for month in ("2026-01", "2026-02"):
        work = dice.random() < (0.97 if work else 0.25)
        rent = min(9, max(4, round(dice.gauss(7 if region == "south" else 5.5, 1))))
        values = {"work": "yes" if work else "no", "region": region, "rent": rent}
        report = {"person": f"p{person}", "period": month, "values": values}
        print(report["person"], json.dumps(report), sep="\t")
