"""`slots`: one declaration in a study file for an attribute of each of several events.

`slots = 6` at `[attributes.mode]` declares the attributes mode_1 to mode_6, of a person's first to
sixth event in a period.
"""

from __future__ import annotations

from stream_dp.json_object import Json
from stream_dp.study.event_releases import MOST_SLOTS, slot_attribute

SLOTS = "slots"


def expanded_attributes(raw: Json, problems: list[str]) -> Json:
    """The tables of attributes by name, those with slots once for every slot.

    raw: the tables of a file. Faults are added to `problems`.
    """
    expanded: Json = {}
    for name, table in raw.items():
        if not isinstance(table, dict) or SLOTS not in table:
            several = {name: table}
        else:
            slots = table[SLOTS]
            if type(slots) is not int or not 1 <= slots <= MOST_SLOTS:
                problems.append(
                    f"attributes.{name}.{SLOTS}: must be a whole number from 1 to {MOST_SLOTS}"
                )
                slots = MOST_SLOTS  # no release lacks a slot by this fault
            rest = {key: value for key, value in table.items() if key != SLOTS}
            several = {slot_attribute(name, number): rest for number in range(1, slots + 1)}
        for twice in expanded.keys() & several.keys():
            problems.append(f"attributes.{twice}: stands for a slot too; rename one of both")
        expanded |= several
    return expanded
