"""Reads files of cells of fixed width, which a syntax file of SPSS beside them describes.

DATA LIST has the columns, VALUE LABELS, VARIABLE LABELS and MISSING VALUES their meaning. A command
that changes cells or rows is refused, because the table would be another one without it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import islice
from pathlib import Path
from typing import TypeVar

from stream_dp.errors import UserError, visible

from .row_batches import TableRows, text_batches_of
from .text_files import opened_text
from .text_records import bounded_text

_MOST_CHARACTERS = 1 << 24
_MOST_COLUMNS = 1 << 14  # of the table
_MOST_POSITION = 1 << 20  # of a character in a line
_MOST_LINES = 100  # of a row
_TOKEN = re.compile(r"""'(?:[^'\n]|'')*'|"(?:[^"\n]|"")*"|[()/=,]|[^\s()/=,'"]+""")
_COMMENT = re.compile(r"/\*.*?(?:\*/|$)", re.MULTILINE)
_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?")
_NUMBERED = re.compile(r"(.*?)(\d+)")
# Commands that leave cells and rows as they are, by their first words.
_HARMLESS = (
    "ALTER TYPE|CACHE|COMMENT|CROSSTABS|DATASET|DESCRIPTIVES|DISPLAY|DOCUMENT|ECHO|EXECUTE|EXE|FILE"
    "|FORMATS|FREQUENCIES|LIST|MEANS|NEW FILE|OUTPUT|PRESERVE|PRINT FORMATS|RESTORE|SAVE|SET|SHOW"
    "|SUBTITLE|TITLE|VARIABLE|WRITE FORMATS|CD"
)
_LEFT_ALONE = re.compile(rf"\*|(?:{_HARMLESS})\b", re.IGNORECASE)
_READ = {
    "data list": re.compile(r"DATA\s+LIST\b", re.IGNORECASE),
    "value labels": re.compile(r"(?:ADD\s+)?VAL(?:UE)?\s+LAB(?:ELS?)?\b", re.IGNORECASE),
    "variable labels": re.compile(r"VAR(?:IABLE)?\s+LAB(?:ELS?)?\b", re.IGNORECASE),
    "missing values": re.compile(r"MIS(?:SING)?\s+VAL(?:UES)?\b", re.IGNORECASE),
}
_SETTINGS = ("FILE", "ENCODING", "RECORDS", "SKIP")
_T = TypeVar("_T")


@dataclass(frozen=True)
class FixedColumn:
    """A column of a file of cells of fixed width.

    line: of the row, from 0. start, end: of the cell in the line, from 0, the end not among them.
    decimals: implied in a number without a decimal mark; None for a column of text.
    """

    name: str
    line: int
    start: int
    end: int
    decimals: int | None


@dataclass
class FixedTable:
    """A file of cells of fixed width, as its syntax file describes it.

    lines: of each row. skipped: lines at the beginning of the file.
    labels: by column, its label. values: by column, the labels by code.
    missing: by column, ranges of missing values, as texts.
    """

    columns: list[FixedColumn] = field(default_factory=list)
    lines: int = 1
    skipped: int = 0
    encoding: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    values: dict[str, dict[str, str]] = field(default_factory=dict)
    missing: dict[str, list[tuple[str, str]]] = field(default_factory=dict)


class _Tokens:
    """The words, quoted texts and signs of a command."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._next = 0
        if re.sub(r"\s", "", text) != re.sub(r"\s", "", "".join(self._tokens)):
            raise ValueError("a quote that is not closed")

    def __bool__(self) -> bool:
        return self._next < len(self._tokens)

    @property
    def ahead(self) -> str:
        """The next token; empty at the end."""
        return self._tokens[self._next] if self else ""

    def take(self) -> str:
        if not self:
            raise ValueError("an end that comes too early")
        self._next += 1
        return str(self._tokens[self._next - 1])

    def takes(self, token: str) -> bool:
        """Takes the next token if equal, in any letter case."""
        found = self.ahead.upper() == token
        self._next += found
        return found

    def text(self) -> str:
        """Takes a text without its quotes."""
        token = self.take()
        mark = token[:1]
        return token[1:-1].replace(2 * mark, mark) if mark in ("'", '"') else token

    def until(self, ends: Sequence[str], take: Callable[[], _T]) -> Iterator[_T]:
        """Takes items up to one of these tokens, or the end. Commas divide them."""
        while self and self.ahead not in ends:
            if not self.takes(","):
                yield take()


def read_syntax(path: Path, encoding: str | None) -> FixedTable:
    """Reads a syntax file. Raises UserError."""
    table = FixedTable()
    with opened_text(path, encoding) as file:
        content = file.read(_MOST_CHARACTERS + 1)
    if len(content) > _MOST_CHARACTERS:
        raise UserError(f"{path}: has over {_MOST_CHARACTERS:,} characters")
    for line, command in _commands(_COMMENT.sub("", content)):
        name = next((name for name, words in _READ.items() if words.match(command)), None)
        try:
            if name is not None:
                rest = _Tokens(command[_READ[name].match(command).end() :])  # type: ignore[union-attr]
                _READERS[name](table, rest)
            elif _LEFT_ALONE.match(command) is None:
                word = visible(command.split()[0])[:40]
                raise ValueError(f"{word}, which is not read, and may change cells or rows")
        except ValueError as error:
            raise UserError(
                f"{path}: line {line} has {error}; run the syntax in SPSS or PSPP, and save the"
                " table as .sav"
            ) from None
    if not table.columns:
        raise UserError(f"{path}: has no DATA LIST with the columns of the table")
    return table


def _commands(content: str) -> Iterator[tuple[int, str]]:
    """The commands with their first lines, from 1: up to a period or a blank line."""
    command, first = list[str](), 1
    for number, line in enumerate([*content.splitlines(), ""], start=1):
        text = line.rstrip()
        if text.strip() and not command:
            first = number
        ends = text.endswith(".") or not text.strip()
        if text.strip():
            command.append(text.strip().removesuffix("."))
        if ends and command:
            if whole := "\n".join(command).strip():
                yield first, whole
            command = []


def _data_list(table: FixedTable, tokens: _Tokens) -> None:
    if table.columns:
        raise ValueError("a second DATA LIST")
    while tokens and tokens.ahead != "/":
        word = tokens.take().upper()
        if word in ("LIST", "FREE"):
            raise ValueError(f"DATA LIST {word}: cells of no fixed width")
        if word in _SETTINGS and (tokens.takes("=") or True):
            bracket = tokens.takes("(")
            _set(table, word, tokens.text())
            if bracket and not tokens.takes(")"):
                raise ValueError(f"{word} without a closing bracket")
        elif word in ("TABLE", "NOTABLE", "FIXED"):
            continue
        else:
            raise ValueError(f"'{visible(word)[:40]}' in DATA LIST, which is not read")
    line = -1
    while tokens.takes("/"):
        line += 1
        if tokens.ahead.isdecimal():
            line = int(tokens.take()) - 1
        if not 0 <= line < _MOST_LINES:
            raise ValueError(f"no line from 1 to {_MOST_LINES} after '/'")
        while tokens and tokens.ahead != "/":
            table.columns += _columns(tokens, line)
    names = [column.name.casefold() for column in table.columns]
    if len(names) > _MOST_COLUMNS:
        raise ValueError(f"over {_MOST_COLUMNS:,} columns")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"the column '{visible(twice[0])}' twice")
    table.lines = max([table.lines, *(column.line + 1 for column in table.columns)])


def _set(table: FixedTable, word: str, text: str) -> None:
    """Sets what DATA LIST says before its columns. FILE is the table that is sent."""
    if word == "ENCODING":
        table.encoding = text
    elif word != "FILE":
        if not text.isdecimal() or not 0 < int(text) <= _MOST_LINES:
            raise ValueError(f"{word} that is no number from 1 to {_MOST_LINES}")
        if word == "RECORDS":
            table.lines = int(text)
        else:
            table.skipped = int(text)


def _columns(tokens: _Tokens, line: int) -> list[FixedColumn]:
    """Takes names, positions and a format: columns that share the positions equally."""
    names = _names(tokens, lambda: _RANGE.fullmatch(tokens.ahead) is not None)
    found = _RANGE.fullmatch(tokens.ahead)
    if not names or found is None:
        raise ValueError(
            f"'{visible(tokens.ahead)[:40]}' in DATA LIST, where a column and its positions, such"
            " as 'id 1-7', are read"
        )
    tokens.take()
    start, end = int(found[1]) - 1, int(found[2] or found[1])
    width, rest = divmod(end - start, len(names))
    if start < 0 or width < 1 or rest or end > _MOST_POSITION:
        raise ValueError(f"positions {found[0]} that {len(names)} columns cannot share equally")
    decimals: int | None = 0
    if tokens.takes("("):
        format_of = tuple(t.upper() for t in tokens.until((")",), tokens.take))
        decimals = _decimals(format_of)
        if not tokens.takes(")"):
            raise ValueError("a format without a closing bracket")
    places = range(start, end, width)
    return [
        FixedColumn(n, line, p, p + width, decimals) for n, p in zip(names, places, strict=True)
    ]


def _decimals(words: tuple[str, ...]) -> int | None:
    """The implied decimals of a format; None for text. Raises ValueError."""
    if words == ("A",):
        return None
    if words and words[0] in ("F", "N") and len(words) < 3:
        words = words[1:]
    if not words:
        return 0
    if len(words) == 1 and words[0].isdecimal() and int(words[0]) < 17:
        return int(words[0])
    raise ValueError(f"the format '{visible(','.join(words))[:40]}', which is not read")


def _names(tokens: _Tokens, ends: Callable[[], bool]) -> list[str]:
    """Takes names of columns; `a1 TO a3` are a1, a2 and a3."""
    names = list[str]()
    while tokens and not ends():
        if tokens.takes(","):
            continue
        if names and tokens.takes("TO"):
            names += _between(names[-1], tokens.take())
        else:
            names.append(tokens.take())
        if names[-1] in "()/=":
            break
    return names


def _between(first: str, last: str) -> list[str]:
    """The names from one to another, without the first. Raises ValueError."""
    found, end = _NUMBERED.fullmatch(first), _NUMBERED.fullmatch(last)
    if found is None or end is None or found[1].casefold() != end[1].casefold():
        raise ValueError(f"'{visible(first)[:20]} TO {visible(last)[:20]}', which is not read")
    low, high = int(found[2]), int(end[2])
    if not low < high <= low + _MOST_COLUMNS:
        raise ValueError(f"'{visible(first)[:20]} TO {visible(last)[:20]}', which is not read")
    width = len(found[2])
    return [f"{found[1]}{number:0{width}}" for number in range(low + 1, high + 1)]


def _declared(table: FixedTable, tokens: _Tokens, ends: Callable[[], bool]) -> list[str]:
    """Takes the names of declared columns; TO is in their order. Raises ValueError."""
    by_name = {column.name.casefold(): i for i, column in enumerate(table.columns)}
    indices = list[int]()
    while tokens and not ends():
        if tokens.takes(","):
            continue
        if tokens.takes("ALL"):
            indices += range(len(table.columns))
            continue
        through = bool(indices) and tokens.takes("TO")
        name = tokens.take()
        if name.casefold() not in by_name:
            raise ValueError(f"'{visible(name)[:40]}', which is no column of DATA LIST")
        index = by_name[name.casefold()]
        indices += range(indices[-1] + 1, index + 1) if through else [index]
    return [table.columns[index].name for index in indices]


def _value_labels(table: FixedTable, tokens: _Tokens) -> None:
    while tokens:
        tokens.takes("/")
        names = _declared(table, tokens, lambda: _is_code(tokens.ahead))
        codes = dict[str, str]()
        while tokens and tokens.ahead != "/":
            code = tokens.text()
            tokens.takes(",")
            codes[code.strip()] = tokens.text().strip()
        for name in names:
            table.values.setdefault(name, {}).update(codes)


def _is_code(token: str) -> bool:
    return token[:1] in ("'", '"') or re.fullmatch(r"[+-]?[\d.]+", token) is not None


def _variable_labels(table: FixedTable, tokens: _Tokens) -> None:
    while tokens:
        if not tokens.takes("/"):
            names = _declared(table, tokens, lambda: tokens.ahead[:1] in ("'", '"'))
            table.labels |= dict.fromkeys(names, tokens.text())


def _missing_values(table: FixedTable, tokens: _Tokens) -> None:
    while tokens:
        tokens.takes("/")
        names = _declared(table, tokens, lambda: tokens.ahead == "(")
        tokens.take()
        ranges = list[tuple[str, str]]()
        while not tokens.takes(")"):
            if tokens.takes(","):
                continue
            low = tokens.text().strip()
            through = tokens.takes("THRU") or tokens.takes("THROUGH")
            ranges.append((low, tokens.text().strip() if through else low))
        table.missing |= dict.fromkeys(names, ranges)


_READERS = {
    "data list": _data_list,
    "value labels": _value_labels,
    "variable labels": _variable_labels,
    "missing values": _missing_values,
}


FIXED = ".dat"
_SYNTAX = ".sps"
_ENDS = {"LO": "-Infinity", "LOWEST": "-Infinity", "HI": "Infinity", "HIGHEST": "Infinity"}


def syntax_of(path: Path, encoding: str | None) -> FixedTable:
    """The description of a file, from the syntax file of its name. Raises UserError."""
    beside = (path.with_suffix(suffix) for suffix in (_SYNTAX, _SYNTAX.upper()))
    syntax = next((file for file in beside if file.is_file()), None)
    if syntax is None:
        raise UserError(
            f"{path}: has cells of fixed width: put the syntax file of SPSS with its DATA LIST"
            f" beside it, as {path.with_suffix(_SYNTAX).name}; or save the table as .sav or .csv"
        )
    return read_syntax(syntax, encoding)


def labels_of(table: FixedTable) -> dict[str, dict[str, str]]:
    """By column, the labels by code; without codes that are missing values."""
    values = {}
    for column in table.columns:
        text = _texts_of(table, column)
        labels = table.values.get(column.name, {})
        kept = {text(code): label for code, label in labels.items() if label}
        values[column.name] = {code: label for code, label in kept.items() if code is not None}
    return {name: labels for name, labels in values.items() if labels}


def fixed_batches(path: Path, encoding: str | None) -> Iterator[TableRows]:
    """Reads the rows of a file, every cell as text, after a batch without rows for the header.

    A missing value is an empty cell. A line that ends early has empty cells. Positions count
    characters; a row of UTF-8 with a character of several bytes, which programs count otherwise, is
    unreadable. Raises UserError.
    """
    table = syntax_of(path, encoding)
    encoding = encoding or table.encoding
    cells = [(c.line, slice(c.start, c.end), _texts_of(table, c)) for c in table.columns]
    is_wide = codecs.lookup(encoding or "utf-8").name.startswith("utf")

    def row(lines: Sequence[tuple[str, bool]]) -> list[str | None] | str:
        texts = [line.rstrip("\n") for line, _ in lines]
        is_sound = len(texts) == table.lines and not any(is_long for _, is_long in lines)
        if not is_sound or (is_wide and not all(map(str.isascii, texts))):
            return "".join(texts)
        return [text(texts[line][place]) for line, place, text in cells]

    with opened_text(path, encoding) as file:
        lines = islice(bounded_text(file), table.skipped, None)
        rows = iter(lambda: tuple(islice(lines, table.lines)), ())
        names = [column.name for column in table.columns]
        yield from text_batches_of(names, enumerate(map(row, rows), start=1))


def _texts_of(table: FixedTable, column: FixedColumn) -> Callable[[str], str | None]:
    """How a cell of a column becomes text: without blanks, numbers without zeros in front."""
    ranges = table.missing.get(column.name, [])

    def text(cell: str) -> str | None:
        plain = cell.rstrip() if column.decimals is None else _number(cell, column.decimals)
        missing = any(_within(plain, low, high) for low, high in ranges)
        return None if missing else plain or None

    return text


def _number(cell: str, decimals: int) -> str:
    """The text of a number; a period becomes an empty text, and any remaining text stays."""
    plain = cell.strip()
    number = _decimal(plain)
    if number is None or not number.is_finite():
        return "" if plain == "." else plain
    if plain.lstrip("+-").isdecimal():
        number = number.scaleb(-decimals)
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _decimal(text: str) -> Decimal | None:
    with suppress(InvalidOperation):
        # Nothing but digits: no exponent that makes a text of a thousand zeros.
        return Decimal(text) if text.strip("+-.0123456789") == "" and text.isascii() else None
    return None


def _within(text: str, low: str, high: str) -> bool:
    """Whether a text is in a range of missing values."""
    numbers = [_decimal(text), *(_bound(end) for end in (low, high))]
    if any(number is None for number in numbers):
        return low == high == text.strip()
    value, least, most = numbers
    return least <= value <= most  # type: ignore[operator]


def _bound(text: str) -> Decimal | None:
    end = _ENDS.get(text.upper())
    return _decimal(text) if end is None else Decimal(end)
