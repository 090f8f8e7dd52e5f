"""Reads texts of periods: labels, other spellings of labels, and dates.

Every command, file and stream reads periods here. Each text is read alone, by fixed rules that
depend on the study and on what was declared about the texts.

For texts of unknown periods an option is proposed that reads them. It shows no text of a file: only
directives, marks between them and words that are usual beside periods.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from itertools import islice, product
from zoneinfo import ZoneInfo

from stream_dp.errors import UserError, visible

from .date_formats import (
    ANY,
    ENGLISH_MONTHS,
    NUMBERS,
    OFFSET,
    Moment,
    Reader,
    date_reader,
    moment_of,
)
from .periods import CLOCK_UNITS, EXAMPLES, Periods, PeriodUnit, Schedule

_LONGEST = 64  # characters of a text that may name a period
_YEAR = r"(?P<Y>[0-9]{4})"
_GAP = r"[-/._ ]"
# Other spellings of a label, by the length of the study's periods.
_SPELLINGS = {
    "hour": (_YEAR + r"-(?P<m>[0-9]{2})-(?P<d>[0-9]{2})[T ](?P<H>[0-9]{2})(?P<z>" + OFFSET + ")",),
    "week": (
        r"(?P<G>[0-9]{4})[-/._ ]?W(?P<V>[0-9]{1,2})",
        r"W(?P<V>[0-9]{1,2})[-/._ ]?(?P<G>[0-9]{4})",
    ),
    "month": (
        _YEAR + r"(?P<m>[0-9]{2})(?:\.0+)?",
        _YEAR + r"(?:[-/_ ](?P<m>[0-9]{1,2})|\.(?P<mm>[0-9]{2}))",
        _YEAR + _GAP + r"?M(?P<m>[0-9]{1,2})",
        r"(?P<m>[0-9]{1,2})" + _GAP + _YEAR,
        r"M(?P<m>[0-9]{1,2})" + _GAP + "?" + _YEAR,
        r"(?P<b>NAME)\.?,?" + _GAP + "?" + _YEAR,
        _YEAR + _GAP + r"?(?P<b>NAME)\.?",
    ),
    "quarter": (
        _YEAR + r"[-/._: ]?Q0?(?P<q>[1-4])",
        r"Q0?(?P<q>[1-4])[-/._: ]?" + _YEAR,
        r"(?P<q>[1-4])[-/._ ]?Q[-/._ ]?" + _YEAR,
    ),
    "year": (_YEAR + r"(?:\.0+)?",),
}
_CLOCK = (
    r"(?:[T ](?P<H>[0-9]{2}):?(?P<M>[0-9]{2})(?::?(?P<S>[0-9]{2})(?:[.,][0-9]+)?)?"
    r"(?: ?(?P<p>[AP]M))?(?: ?(?P<z>" + OFFSET + r"))?)?"
)
_ISO_DATE = _YEAR + r"-(?P<m>[0-9]{2})-(?P<d>[0-9]{2})" + _CLOCK
_DATES = (
    _YEAR + r"/(?P<m>[0-9]{2})/(?P<d>[0-9]{2})" + _CLOCK,
    _YEAR + r"(?P<m>[0-9]{2})(?P<d>[0-9]{2})" + _CLOCK,
    _YEAR + r"[._](?P<m>[0-9]{2})[._](?P<d>[0-9]{2})",
    r"(?P<G>[0-9]{4})-W(?P<V>[0-9]{2})-(?P<u>[1-7])",
    r"(?P<d>[0-9]{1,2})\.?[-/ ]?(?P<b>NAME)\.?,?[-/ ]?" + _YEAR + _CLOCK,
    r"(?P<b>NAME)\.?[-/ ]?(?P<d>[0-9]{1,2}),?[-/ ]" + _YEAR + _CLOCK,
    _YEAR + r"[-/ ]?(?P<b>NAME)\.?[-/ ]?(?P<d>[0-9]{1,2})" + _CLOCK,
)
_STEP = re.compile(r"(-?)0*([0-9]{1,9})(?:\.0+)?")
# Full-width forms of ASCII, blanks and dashes, as their ASCII forms.
_ASCII = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {
    ord(old): new for old, new in {"\u3000": " ", "\xa0": " ", "\u202f": " ", "–": "-"}.items()
}
_SWAPPED = re.compile(r"(%[YyG]|\{\}).*%d.*%m", re.DOTALL)  # formats that read ISO dates otherwise
_MAYBE_OFFSET = re.compile(r"[T ].*" + OFFSET + r"\s*\Z", re.IGNORECASE | re.DOTALL)
_CLOCK_AT_END = re.compile(_CLOCK + r"\Z", re.IGNORECASE)


class PeriodTexts:
    """The labels of a study's periods by the texts that name them.

    dates: the format of dates, see `date_formats.date_reader`. Texts that it reads are read by it
        alone. Beside it only texts count that no order of day and month changes.
    zone: the time zone whose days count for times with a distance from UTC; by default the zone of
        the study's schedule. Without one the day counts that is written. Hours and minutes are
        those of UTC: a time without a distance from UTC names one only if the zone is declared
        and has this time once.
    meanings: the label by text. `{}` in a text stands for any text, which `{}` in the label
        repeats. If every step of a study has a text, no other text names a step.
    months: the numbers of months by their names in small letters.

    `label(text)` is the label of the period with this text, else the text. `number(value)` is the
    number of the period that a text or whole number names, and 0 for no period.

    Two digits name the only year of the study that ends with them, if no format is declared.

    Raises UserError for a format or a meaning that names no period of the study.

    >>> texts = PeriodTexts(Periods(every="month", first="2021-01", count=12))
    >>> [texts.label(text) for text in ("2021-01", "2021-01-31", "202103", "Apr 2021", "May")]
    ['2021-01', '2021-01', '2021-03', '2021-04', 'May']
    """

    def __init__(
        self,
        periods: Periods,
        dates: str | None = None,
        zone: str | None = None,
        meanings: Mapping[str, str] | None = None,
        months: Mapping[str, int] = ENGLISH_MONTHS,
    ) -> None:
        self._periods, self._months = periods, months
        if zone is None and isinstance(periods.close, Schedule):
            zone = periods.close.zone
        self.zone = None if zone is None else _time_zone(zone)
        self._declared: Reader | None = None
        self._iso = _pattern(_ISO_DATE, months)
        spellings = (_ISO_DATE, *_SPELLINGS.get(periods.every, ()), *_DATES)
        self._patterns = tuple(_pattern(spelling, months) for spelling in spellings)
        self._iso_beside = True
        self._short_years: dict[str, str] = {}
        if periods.every == "year" and periods.count <= 100 and dates is None:
            ends = {label[2:]: label for label in periods.labels}
            self._short_years = ends | {f"{end}.0": label for end, label in ends.items()}
        if dates is not None:
            self._declared = date_reader(dates, periods.every, months)
            self._iso_beside = _SWAPPED.match(dates) is None
        self.label: Callable[[str], str] = lru_cache(1 << 16)(self._label)
        self.number: Callable[[object], int] = lru_cache(1 << 16, typed=True)(self._number)
        self._all_declared = False
        self._meanings: dict[str, str] = {}
        self._templates: list[tuple[re.Pattern[str], str]] = []
        for text, meant in (meanings or {}).items():
            self._declare(text, meant)
        if periods.every == "step" and periods.count > 1:
            self._all_declared = {*self._meanings.values()} == {*periods.labels}

    def is_period(self, text: str) -> bool:
        """Tells whether a text names a period of this length, of the study or not."""
        return text in self._periods.numbers or self.named(text) is not None

    def lacks_zone(self, text: str) -> bool:
        """Tells whether a text has a distance from UTC and no zone was declared."""
        if self.zone is not None or len(text) > _LONGEST:
            return False
        if self._declared is None and _MAYBE_OFFSET.search(text) is None:
            return False
        try:
            moment = self._moment(text.strip().translate(_ASCII))
        except (ValueError, OverflowError):
            return False
        if moment is None or self._periods.every in CLOCK_UNITS:
            return False
        return moment.instant is not None

    def _declare(self, text: str, meant: str) -> None:
        """Takes the meaning of a text. Raises UserError."""
        if ANY in text:
            prefix, _, suffix = text.partition(ANY)
            pattern = re.compile(f"{re.escape(prefix)}(.*){re.escape(suffix)}", re.DOTALL)
            self._templates.append((pattern, meant))
            return
        label = meant if meant in self._periods.numbers else self._read(meant)
        if label not in self._periods.numbers:
            raise UserError(f"map: 'period:{text}={meant}': {_no_period(self._periods, meant)}")
        self._meanings[text] = label

    def _number(self, value: object) -> int:
        """Returns the number of the period that a text or whole number names, 0 for no period."""
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63:
            value = str(value)
        return self._periods.numbers.get(self._label(value), 0) if isinstance(value, str) else 0

    def _label(self, text: str) -> str:
        """Returns the label of the study's period with this text, else the text."""
        if (meant := self._meanings.get(text) or self._meanings.get(text.strip())) is not None:
            return meant
        if self._all_declared:
            fault = f"no period: {text}" if text in self._periods.numbers else text
            return self._meanings.get(self.named(text) or "", fault)
        if self._declared is None and not self._templates and text in self._periods.numbers:
            return text
        for pattern, meant in self._templates:
            if match := pattern.fullmatch(text.strip()):
                named = meant.replace(ANY, match[1])
                label = self.named(named)
                return label if label in self._periods.numbers else text
        return self._read(text)

    def _read(self, text: str) -> str:
        """Returns the label of the study's period that a text without a meaning names."""
        label = self.named(text) or self._short_years.get(text.strip())
        return label if label in self._periods.numbers else text

    def named(self, text: str) -> str | None:
        """Returns the label of the period with this text, of the study or not.

        Returns None if the text names no period.
        """
        if len(text) > _LONGEST:
            return None
        text = text.strip().translate(_ASCII)
        if self._periods.every == "step":
            match = _STEP.fullmatch(text)
            return None if match is None else str(int(match[1] + match[2]))
        try:
            moment = self._moment(text)
            return None if moment is None else self._label_around(moment)
        except (ValueError, OverflowError):
            return None

    def _label_around(self, moment: Moment) -> str | None:
        """Returns the label of the period around a moment. Raises ValueError or OverflowError."""
        every = self._periods.every
        if every not in CLOCK_UNITS:
            return self._periods.label_of(moment.local(self.zone))
        if moment.unit == "day" or (every, moment.unit) == ("minute", "hour"):
            return None
        return self._periods.label_of(moment.universal(self.zone))

    def _moment(self, text: str) -> Moment | None:
        """Reads a text. Raises ValueError or OverflowError outside of the calendar."""
        if self._declared is not None:
            if (moment := self._declared(text)) is not None:
                return moment
            if text in self._periods.numbers and self._periods.every != "day":
                return self._by(self._patterns, text)
            if not any(map(str.isalpha, _CLOCK_AT_END.sub("", text))):
                return self._by((self._iso,), text) if self._iso_beside else None
        return self._by(self._patterns, text)

    def _by(self, patterns: tuple[re.Pattern[str], ...], text: str) -> Moment | None:
        """Reads a text by the first pattern that fits."""
        for pattern in patterns:
            if match := pattern.fullmatch(text):
                fields = match.groupdict()
                fields["m"] = fields.get("m") or fields.get("mm")
                return moment_of(fields, self._months)
        return None


def period_label(periods: Periods, text: object) -> str:
    """Returns the label of the study's period that a text names, else the text.

    Raises UserError for what is no text.
    """
    if not isinstance(text, str):
        example = periods.labels[0]
        raise UserError(f"period: must be a text such as '{example}', not {text!r}")
    return text if text in periods.numbers else PeriodTexts(periods).label(text)


def label_of_unit(every: PeriodUnit, text: str) -> str | None:
    """Returns the label of the period of a length that a text names, or None.

    >>> label_of_unit("quarter", "2021q3"), label_of_unit("month", "Jan 2021")
    ('2021-Q3', '2021-01')
    """
    return PeriodTexts(Periods(every=every, first=EXAMPLES[every], count=1)).named(text)


def named_period(text: str) -> tuple[PeriodUnit, str] | None:
    """Returns the length and the label of the period that a text names, or None.

    A text with a time of day names a day, unless it is the label of an hour or of a minute.

    >>> named_period("Jan 2021"), named_period("2021Q1"), named_period("3")
    (('month', '2021-01'), ('quarter', '2021-Q1'), ('step', '3'))
    >>> named_period("2021-10-31T01Z"), named_period("2021-10-31 01:15")
    (('hour', '2021-10-31T01Z'), ('day', '2021-10-31'))
    """
    for clock in CLOCK_UNITS:
        if label_of_unit(clock, text) == text:
            return clock, text
    units: tuple[PeriodUnit, ...] = ("day", "month", "quarter", "week", "year", "step")
    labels = ((unit, label_of_unit(unit, text)) for unit in units)
    return next(((unit, label) for unit, label in labels if label is not None), None)


def require_period(periods: Periods, text: str, name: str = "period") -> str:
    """Returns the label of the period that a text names.

    name: of the text, for the error. Raises UserError for a text that names no period of the study.
    """
    label = period_label(periods, text)
    if label not in periods.numbers:
        raise UserError(f"{name} '{visible(text)}': {_no_period(periods, text)}")
    return label


def _no_period(periods: Periods, text: str) -> str:
    return f"not one of the study's, {periods.labels[0]} to {periods.labels[-1]}"


@lru_cache(64)
def _compiled(spelling: str, names: tuple[str, ...]) -> re.Pattern[str]:
    alternatives = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.compile(spelling.replace("NAME", f"(?:{alternatives})"), re.IGNORECASE)


def _pattern(spelling: str, months: Mapping[str, int]) -> re.Pattern[str]:
    return _compiled(spelling, tuple(months))


def _time_zone(name: str) -> ZoneInfo:
    """Returns a time zone. Raises UserError."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise UserError(
            f"zone: '{visible(name)}' is not a time zone; write one like 'Europe/Lisbon' or 'UTC'"
        ) from None


_MOST_FORMATS = 400  # tried for a text
_TOKENS = re.compile(r"[0-9]+|[^\W\d_]+|[\W_]+?(?=\w|$)|_+")
# Words beside periods; no other word of a file is shown.
_WORD = re.compile(
    "d|day|w|wk|week|kw|m|month|q|k|quarter|quartal|kvartal|trimestre|p|y|yr|year|fy|ay|cy|semester|"
    "term|period|t|time|s|step|stage|phase|r|round|v|visit|session|wave",
    re.IGNORECASE,
)
_DIRECTIVES = {
    1: ("%q", "%d", "%m", "%V"),
    2: ("%q", "%d", "%m", "%y", "%V"),
    3: ("%j",),
    4: ("%Y",),
    5: ("%y%j",),
    6: ("%d%m%y", "%m%d%y", "%y%m%d", "%Y%m", "%m%Y", "%Y%V"),
    7: ("%Y%j",),
    8: ("%d%m%Y", "%m%d%Y", "%Y%m%d"),
}
# A number beside the word of its unit has another meaning: Q3 is no March.
_OF_ANOTHER_UNIT = re.compile(
    r"(?<![%\w])(?:q|quarter|quartal|kvartal|trimestre)[ ._-]?%[dmVj]|%[dmVj][ ._-]?q(?![a-z])"
    r"|(?<![%\w])(?:w|wk|week|kw)[ ._-]?%[dmqj]|(?<![%\w])(?:m|month)[ ._-]?%[dqVj]",
    re.IGNORECASE,
)
_HOUR = re.compile(r"[T ][0-9]{1,2}:[0-9]{2}.*", re.DOTALL)


def period_advice(
    periods: Periods, texts: Collection[str], months: Mapping[str, int] = ENGLISH_MONTHS
) -> str:
    """Says which option reads texts that name no period of the study.

    texts: of the column of periods.
    months: the numbers of months by their names in small letters.
    """
    labels = periods.labels
    mapping = f"--map 'period:TEXT={labels[0]}'"
    plain = PeriodTexts(periods)
    # A time with an offset has the day of a zone, which `plain` does not know.
    outside = {
        text
        for text in texts
        if plain.is_period(text)
        and (plain.label(text) not in periods.numbers or plain.lacks_zone(text))
    }
    others = f"they name others than {labels[0]} to {labels[-1]}; leave their rows out"
    if texts and len(outside) == len({*texts}):
        return others
    texts = [text for text in texts if text not in outside]
    readers = _counted(periods, texts, months)
    if not readers and periods.every in CLOCK_UNITS:
        example = f"{EXAMPLES['minute'].removesuffix('Z')}+01:00"
        return f"{labels[0]} to {labels[-1]}; write a time with its distance from UTC: {example}"
    if not readers:
        return f"{labels[0]} to {labels[-1]}; say what a text of the file means: {mapping}"
    count = max(len(named) for named in readers.values())
    best = [option for option, named in readers.items() if len(named) == count]
    plainest = min(option.count(ANY) for option in best)
    meanings: dict[tuple[tuple[str, str], ...], str] = {}
    for option in best:
        if option.count(ANY) == plainest:
            meanings.setdefault(tuple(sorted(readers[option].items())), option)
    advice = " or ".join(islice(meanings.values(), 2))
    return advice if count == len(texts) else f"{advice}; for others {mapping}"


def _counted(
    periods: Periods, texts: Collection[str], months: Mapping[str, int]
) -> dict[str, dict[str, str]]:
    """Returns, by option, the periods of the study by the texts that it reads."""
    readers: dict[str, dict[str, str]] = {}
    shapes = Counter(re.sub("[0-9]", "0", text) for text in texts)
    for shape, _ in shapes.most_common(5):
        example = next(text for text in texts if re.sub("[0-9]", "0", text) == shape)
        for option, reading in _options(periods, example.strip(), months):
            if option not in readers and (named := _named(periods, reading, texts)):
                readers[option] = named
    return readers


def _named(periods: Periods, reading: PeriodTexts, texts: Collection[str]) -> dict[str, str]:
    labels = {text: reading.label(text) for text in texts}
    return {text: label for text, label in labels.items() if label in periods.numbers}


def _options(
    periods: Periods, text: str, months: Mapping[str, int]
) -> Iterator[tuple[str, PeriodTexts]]:
    """Yields possible options for a text, with their meanings."""
    if periods.every == "step":
        if template := _template(text):
            option = _quoted(f"period:{template}={ANY}")
            yield f"--map {option}", PeriodTexts(periods, meanings={template: ANY})
        return
    formats = NUMBERS if re.fullmatch(r"-?[0-9]+(\.0+)?", text) else ()
    for form in islice([*formats, *_formats(periods, text, months)], _MOST_FORMATS):
        try:
            yield f"--dates {_quoted(form)}", PeriodTexts(periods, form, months=months)
        except UserError:
            continue


def _quoted(text: str) -> str:
    return shlex.quote(text) if "'" in text else f"'{text}'"


def _template(text: str) -> str:
    """Returns the template of a text with one number beside usual words, as `wave {}` of `wave 3`.

    Returns an empty text for another text, whose words are not shown.
    """
    pieces = _TOKENS.findall(text)
    numbers = [piece for piece in pieces if piece.isdecimal()]
    letters = [piece for piece in pieces if piece[0].isalpha()]
    if len(numbers) != 1 or not all(map(_WORD.fullmatch, letters)):
        return ""
    return "".join(ANY if piece.isdecimal() else piece for piece in pieces)


def _formats(periods: Periods, text: str, months: Mapping[str, int]) -> Iterator[str]:
    """Yields formats that may read a text."""
    clocks = [("", text)]
    if clock := _HOUR.search(text):
        mark = clock[0][0]
        clocks = [(f"{mark}{ANY}", text[: clock.start()])]
    for end, rest in clocks:
        pieces = _TOKENS.findall(rest)
        for choice in product(*(_choices(periods, piece, months) for piece in pieces)):
            form = re.sub(r"(\{\}[\s]*)+(?=\{\})", "", "".join(choice)) + end
            if _OF_ANOTHER_UNIT.search(form) is None:
                yield form


def _choices(periods: Periods, piece: str, months: Mapping[str, int]) -> tuple[str, ...]:
    """Returns the meanings that a piece of a text may have in a format."""
    if piece.isdecimal() and piece.isascii():
        directives = _DIRECTIVES.get(len(piece), ())
        if periods.every != "week":
            directives = tuple(d for d in directives if "%V" not in d)
        if periods.every != "quarter":
            directives = tuple(d for d in directives if "%q" not in d)
        zero = (piece,) if not piece.strip("0") else ()
        return (*directives, *zero, ANY)
    folded = piece.casefold()
    if folded in months:
        return ("%b",)
    if periods.every == "quarter" and re.fullmatch("i{1,3}|iv", folded):
        return ("%q", piece)
    if piece[0].isalpha():
        sign = not piece.isascii() and len(piece) == 1  # such as the sign for a year
        return (piece,) if sign or _WORD.fullmatch(piece) else (ANY,)
    return (piece.replace("%", "%%"),)
