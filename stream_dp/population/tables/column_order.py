"""The periods of the columns matched by a pattern like `work_{}=...`.

The texts in the place of `{}` decide: a text that names a period has this period. Other texts have
the study's periods in order, if their own order shows that none is missing. What neither tells is
refused. The header and the study alone decide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, takewhile

from stream_dp.errors import UserError
from stream_dp.study.period_texts import PeriodTexts
from stream_dp.study.periods import Periods

from .period_columns import month_names, weekday_names

_ANY = "{}"
_MOST = 12  # columns that a line names
_MOST_OPTIONS = 3  # in a line
_LONGEST, _SHORTEST = 64, 3  # characters of a name, and of a part that is too short for a period
_UNITS = re.compile(r"[ _.-]?(d|days?|w|wk|weeks?|m|mo|mth|months?|y|yr|years?|h|hours?)", re.I)
_NUMBERED = re.compile(r"(\D*?)([0-9]{1,9})(?:\.0+)?(\D*)", re.DOTALL)
_ROMAN = re.compile(r"(?:.*[^a-z])?(x{0,3}(?:ix|iv|v?i{0,3}))", re.DOTALL)
_ROMAN_DIGITS = {"i": 1, "v": 5, "x": 10}
# Words for the stages of a panel, by their rank.
_STAGES = {
    word: rank
    for rank, words in enumerate(
        (
            ("screening",),
            ("baseline", "base", "bl", "pre", "before", "start"),
            ("midline", "mid", "interim"),
            ("post", "endline", "end", "after", "final"),
            ("followup", "follow-up", "follow_up", "fu"),
        )
    )
    for word in words
}
_CYCLES = {"month": 12, "weekday": 7}


class ColumnOrder:
    """Assigns periods to columns by the texts of their names.

    texts: the study's meaning of texts. languages: of the names of months and weekdays.
    """

    def __init__(self, periods: Periods, texts: PeriodTexts, languages: Sequence[str] = ()) -> None:
        self._periods, self._texts = periods, texts
        self._names = {"month": month_names(languages), "weekday": weekday_names(languages)}

    def assign(self, pattern: str, found: Mapping[str, str], start: str) -> dict[str, str]:
        """Returns the period of every column.

        pattern: of the columns, with `{}`.
        found: by column, the text in the place of `{}`.
        start: the first period of the columns; empty for the study's first.

        Raises UserError with an option that says what the columns mean.
        """
        labels = self._periods.labels
        first = self._texts.label(start) if start else labels[0]
        if first not in self._periods.numbers:
            raise UserError(f"'{start}' is no period of the study")
        labels = labels[labels.index(first) :]
        assigned = self._assigned(list(found.values()), labels, bool(start))
        if assigned is not None:
            return dict(zip(found, assigned, strict=True))
        if len(found) > len(labels):
            line = f"{len(found)} columns fit, and there are {len(labels)} periods"
            raise UserError(line + self._of_one_attribute(found))
        raise UserError(self._refusal(pattern, found, labels))

    def _assigned(
        self, texts: Sequence[str], labels: Sequence[str], started: bool
    ) -> list[str] | None:
        """Returns the labels of texts, or None if the texts do not tell them.

        labels: of the periods in order. started: whether an operator named the first.
        """
        in_order = list(labels[: len(texts)])
        if (named := self._named(texts)) is not None:
            inside = [label in self._periods.numbers for label in named]
            steps = self._periods.every == "step"
            if all(inside) and not (started and named != in_order):
                return named if not steps or _consecutive(list(map(int, named))) else None
            if not (steps and (started or not any(inside) or named[0] == "0")):
                return None
        if (partly := self._partly_named(texts, labels)) is not None:
            return partly or None
        if len(texts) > len(labels):
            return None
        return in_order if self._rises(texts, in_order, started) else None

    def _named(self, texts: Sequence[str]) -> list[str] | None:
        """Returns the period labels of texts, also outside the study; None without a period."""
        if self._periods.every == "year" and all(re.fullmatch("[0-9]{2}", t) for t in texts):
            ending = {label[-2:]: label for label in self._periods.labels}
            return [ending.get(text, text) for text in texts]
        if all(map(self._texts.is_period, texts)):
            return list(map(self._texts.label, texts))
        if self._periods.every == "step" and (ordinals := _ordinals(texts)) is not None:
            return list(map(str, ordinals))
        return None

    def _partly_named(self, texts: Sequence[str], labels: Sequence[str]) -> list[str] | None:
        """Returns the labels of texts that name a month of a year, or the like.

        Returns None if the texts are of another kind, and an empty list if they fit no periods.
        """
        part = {"month": "month", "quarter": "quarter", "day": "weekday"}.get(self._periods.every)
        if part is None:
            return None
        numbers = [self._number(part, text) for text in texts]
        if None in numbers:
            return None
        of_labels = [self._number_of_label(part, label) for label in labels]
        if all(of_labels.count(number or 0) == 1 for number in numbers):
            return [labels[of_labels.index(number or 0)] for number in numbers]
        return list(labels[: len(texts)]) if numbers == of_labels[: len(texts)] else []

    def _number(self, part: str, text: str) -> int | None:
        if part == "quarter":
            match = re.fullmatch("q0?([1-4])", text.strip().casefold())
            return None if match is None else int(match[1])
        return self._names[part].get(text.strip(" _.-").casefold())

    def _number_of_label(self, part: str, label: str) -> int:
        first_days = self._periods.days(self._periods.numbers[label])
        assert first_days is not None  # no steps
        day = first_days[0]
        return {
            "month": day.month,
            "quarter": (day.month + 2) // 3,
            "weekday": day.isoweekday(),
        }[part]

    def _rises(self, texts: Sequence[str], labels: Sequence[str], started: bool) -> bool:
        """Tells whether texts stand in an order of their own without a gap."""
        steps = self._periods.every == "step"
        for part, length in _CYCLES.items():
            numbers = [self._number(part, text) for text in texts]
            if None not in numbers:
                return all(((b or 0) - (a or 0)) % length == 1 for a, b in pairwise(numbers))
        if (ordinals := _ordinals(texts)) is not None:
            if not _consecutive(ordinals, texts):
                return steps and _spaced(texts, ordinals)
            return steps or started or ordinals[0] in (0, 1) or self._are_own(ordinals, labels)
        stages = [_stage(text) for text in texts]
        if None not in stages:
            return all((b or 0) > (a or 0) for a, b in pairwise(stages))
        later = _ordinals(texts[1:])
        if stages[0] is None or later is None:
            return False
        if _consecutive(later):
            return later[0] in (0, 1)
        return steps and _spaced(texts[1:], later)

    def _are_own(self, ordinals: Sequence[int], labels: Sequence[str]) -> bool:
        """Tells whether numbers are the months or quarters of their years."""
        part = self._periods.every
        if part not in ("month", "quarter"):
            return False
        return [self._number_of_label(part, label) for label in labels] == list(ordinals)

    def _is_outside(self, text: str) -> bool:
        """Tells whether a text names a calendar period beside the study's."""
        return (
            self._periods.every != "step"
            and self._texts.is_period(text)
            and self._texts.label(text) not in self._periods.numbers
        )

    def _of_one_attribute(self, columns: Iterable[str]) -> str:
        """The options for columns whose names have a period in them; empty without any."""
        options = named_columns(list(columns), self._periods, self._texts)
        return f"; those of one attribute: {' or '.join(options)}" if options else ""

    def _refusal(self, pattern: str, found: Mapping[str, str], labels: Sequence[str]) -> str:
        """Describes why columns have no periods, with an option that gives them theirs."""
        names = ", ".join(list(found)[:_MOST]) + (", ..." if len(found) > _MOST else "")
        line = f"the texts of the columns {names} do not tell their periods"
        texts = list(found.values())
        ordinals = _ordinals(texts)
        if self._assigned(texts, labels, started=True) is not None:
            return f"{line}; if the first is {labels[0]}: --columns '{pattern}={labels[0]}...'"
        outside = [n for n, text in found.items() if self._is_outside(text)]
        if 0 < len(outside) < len(found):
            leave = ",".join(f"{name}=" for name in outside)
            return f"{line} in the study; to leave some out: --columns '{leave},{pattern}=...'"
        for name, text in found.items() if ordinals is None and len(found) > 2 else ():
            stray = _stage(text) is None and not any(map(str.isdigit, text))
            rest = [other for column, other in found.items() if column != name]
            if stray and self._assigned(rest, labels, started=False) is not None:
                return f"{line}; without {name} they do: --columns '{name}=,{pattern}=...'"
        if advice := self._of_one_attribute(found):
            return line + advice
        columns = list(found)
        if ordinals is not None:
            columns = [name for _, name in sorted(zip(ordinals, found, strict=True))]
        pairs = ",".join(f"{n}={p}" for n, p in zip(columns, labels, strict=False))
        line = f"{line}; if these are theirs: --columns '{pairs}'"
        numbered = _NUMBERED.fullmatch(texts[0].strip())
        if ordinals and numbered and all(str(n) in self._periods.numbers for n in ordinals):
            by_number = pattern.replace(_ANY, f"{numbered[1]}{_ANY}{numbered[3]}", 1)
            line = f"{line}, and by their numbers: --columns '{by_number}={_ANY}'"
        return line


def named_columns(
    names: Sequence[str], periods: Periods, texts: PeriodTexts, attribute: str = ""
) -> list[str]:
    """The options with which columns have the periods that a part of their names tells.

    Columns with another text around the period are of another attribute: each text has an option.

    attribute: whose columns these are, if it is known; its name decides where one text has it.
    """
    by_pattern: dict[str, dict[str, str]] = {}
    for name in names:
        if (part := _period_part(name, periods, texts)) is not None:
            pattern = f"{name[: part[0]]}{_ANY}{name[part[1] :]}"
            by_pattern.setdefault(pattern, {})[name] = part[2]
    sound = {
        pattern: columns
        for pattern, columns in by_pattern.items()
        if len(columns) > 1 and len({*columns.values()}) == len(columns)
    }
    told = [p for p in sound if attribute and attribute.casefold() in p.casefold().split(_ANY)[0]]
    if attribute and len(exact := [p for p in told if _stem(p) == attribute.casefold()]) == 1:
        told = exact
    options = []
    for pattern in told if len(told) == 1 else sound:
        prefix, suffix = pattern.split(_ANY)
        fitting = {n for n in names if n.startswith(prefix) and n.endswith(suffix)}
        columns = sound[pattern]
        pairs = ",".join(f"{name}={label}" for name, label in columns.items())
        options.append(f"--columns '{pairs if fitting - columns.keys() else f'{pattern}=...'}'")
    return options[:_MOST_OPTIONS]


def _stem(pattern: str) -> str:
    """The text around the period, without marks beside it."""
    return pattern.replace(_ANY, "").strip(" _.-").casefold()


def _period_part(name: str, periods: Periods, texts: PeriodTexts) -> tuple[int, int, str] | None:
    """The first and longest part of a name that names a period of the study, with its label.

    A part stands between other characters than its own first and last ones: no digit of a longer
    number.
    """
    if periods.every == "step" or len(name) > _LONGEST:
        return None
    starts = [m.start() for m in re.finditer(r"(?<![0-9])[0-9]|(?<![^\W\d_])[^\W\d_]", name)]
    ends = [m.end() for m in re.finditer(r"[0-9](?![0-9])|[^\W\d_](?![^\W\d_])", name)]
    parts = ((start, end) for start in starts for end in ends if end - start > _SHORTEST)
    for start, end in sorted(parts, key=lambda part: (part[0] - part[1], part[0])):
        if (label := texts.label(name[start:end])) in periods.numbers and len(name) > end - start:
            return start, end, label
    return None


def _stage(text: str) -> int | None:
    return _STAGES.get(text.strip(" _.-").casefold())


def _ordinals(texts: Sequence[str]) -> list[int] | None:
    """Returns the numbers of texts that are numbered alike: in digits, Roman numbers or letters.

    >>> _ordinals(["T1", "T2", "T10"]), _ordinals(["I", "II", "IV"]), _ordinals(["wa", "wb"])
    ([1, 2, 10], [1, 2, 4], [1, 2])
    """
    matches = [_NUMBERED.fullmatch(text.strip()) for text in texts]
    digits = [match for match in matches if match is not None]
    if texts and len(digits) == len(texts):
        if len({(m[1].casefold(), m[3].casefold()) for m in digits}) > 1:
            return None
        return [int(match[2]) for match in digits]
    folded = [text.strip().casefold() for text in texts]
    roman = [match[1] for text in folded if (match := _ROMAN.fullmatch(text)) and match[1]]
    numbers = list(map(_roman, roman))
    alike = takewhile(lambda chars: len(set(chars)) == 1, zip(*folded, strict=False))
    common = sum(1 for _ in alike)
    ends = [text[common:] for text in folded]
    letters = [ord(end) - ord("a") + 1 for end in ends if re.fullmatch("[a-z]", end)]
    all_roman = len(numbers) == len(texts) > 0
    if len(letters) == len(texts) > 1 and (_consecutive(letters) or not all_roman):
        return letters
    return numbers if all_roman else None


def _roman(text: str) -> int:
    digits = [_ROMAN_DIGITS[c] for c in text]
    return sum(-d if d < max([0, *digits[i + 1 :]]) else d for i, d in enumerate(digits))


def _consecutive(numbers: Sequence[int], texts: Sequence[str] = ()) -> bool:
    """Tells whether numbers go up by one; two digits of years go on from 99 to 00."""
    two_digits = bool(texts) and all(re.fullmatch("[0-9]{2}", text) for text in texts)
    return all(b - a == 1 or (two_digits and (a, b) == (99, 0)) for a, b in pairwise(numbers))


def _spaced(texts: Sequence[str], numbers: Sequence[int]) -> bool:
    """Tells whether texts are growing lengths of time, like `6m`, `12m`, `24m`."""
    ends = [re.sub(r"^[0-9]+", "", text.strip()) for text in texts]
    timed = all(_UNITS.fullmatch(end) for end in ends)
    return timed and all(b > a for a, b in pairwise(numbers))
