"""Ages of majority by country, for the rule that heads and spouses of a group are adults.

    adults of DE: age

is `head.age >= 18` and `spouse.age >= 18`. Some people marry or keep house as minors, with a
court's or their parents' leave; no synthetic person does under this rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from stream_dp.errors import UserError

from .families import Family
from .field_types import NAME_PATTERN
from .structural_rules import HEAD, SPOUSE, Rule, column_numbers

if TYPE_CHECKING:
    from .study import Study
    from .table_releases import DataSetRelease

_ADULTS = re.compile(rf"adults of (\S+): ({NAME_PATTERN})")
AGES = {
    "AT": 18,  # Allgemeines buergerliches Gesetzbuch, section 21
    "AU": 18,  # Age of Majority Acts of the states and territories
    "BE": 18,  # Ancien Code civil, article 388
    "BR": 18,  # Codigo Civil, article 5
    "CA": 18,  # the lowest of the provinces' ages, which are 18 and 19
    "CH": 18,  # Zivilgesetzbuch, article 14
    "DE": 18,  # Buergerliches Gesetzbuch, section 2
    "DK": 18,  # Vaergemalsloven, section 1
    "ES": 18,  # Constitucion, article 12
    "FI": 18,  # Laki holhoustoimesta, section 2
    "FR": 18,  # Code civil, article 414
    "GB": 16,  # the lowest of its parts: Age of Legal Capacity (Scotland) Act 1991
    "IE": 18,  # Age of Majority Act 1985, section 2
    "IN": 18,  # Majority Act 1875, section 3
    "IT": 18,  # Codice civile, article 2
    "JP": 18,  # Civil Code, article 4
    "KR": 19,  # Civil Act, article 4
    "MX": 18,  # Constitucion, article 34
    "NL": 18,  # Burgerlijk Wetboek, article 1:233
    "NO": 18,  # Vergemalsloven, section 8
    "PL": 18,  # Kodeks cywilny, article 10
    "PT": 18,  # Codigo Civil, article 130
    "SE": 18,  # Foeraldrabalken, chapter 9, section 1
    "US": 18,  # the lowest of the states' ages, which are 18, 19 and 21
    "ZA": 18,  # Children's Act 38 of 2005, section 17
}


_AGE = re.compile(r"(.*[_.-])?(age|agep)([_.-].*)?", re.IGNORECASE)  # names of columns of ages


def rule_advice(study: Study, release: DataSetRelease) -> Iterator[str]:
    """A line for a release of relatives with ages and without rules, from the names alone."""
    roles = None if study.groups is None else study.groups.roles
    if release.family != Family.HOUSEHOLDS or roles is None or release.structural_rules:
        return
    for name in release.names if "rules" in release.data_set.settings else ():
        if _AGE.fullmatch(name) and column_numbers(study.attributes[name].symbols):
            yield (
                "no rules: a synthetic head may be a minor, or a child older than the head; declare"
                f' rules = ["adults of COUNTRY: {name}", "child.{name} + 12 <= head.{name}"];'
                " none holds by default, because the age of majority is a country's, and a study"
                " declares no country unless a rule names it"
            )
            return


def read_group_rules(text: str) -> tuple[Rule, ...]:
    """Reads a declared rule of groups. Raises UserError for a text other than a rule."""
    adults = _ADULTS.fullmatch(text)
    if adults is None:
        return (Rule.read(text),)
    country, column = adults.groups()
    if country not in AGES:
        raise UserError(
            f"no age of majority of '{country}' is known, but of {', '.join(AGES)}; write such as"
            f" 'head.{column} >= 18'"
        )
    return tuple(Rule.read(f"{role}.{column} >= {AGES[country]}") for role in (HEAD, SPOUSE))
