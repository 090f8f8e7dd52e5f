"""Messages about a table in the words of a call in Python.

The messages of the reading name options of `send`. A call in Python takes its table from memory.
The keys of its argument `reading` are those of a file of `send --reading`. So an option becomes an
argument of the call, and a clause with an option that no call has is left out.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from stream_dp.study.number_texts import SPACE

from .options import listed_texts

_ELLIPSIS = ",..."


def _mapping(text: str) -> str:
    """A mapping from `A=B,A=B`, where `,...` at the end stays."""
    pairs = [pair.rpartition("=") for pair in listed_texts(text.removesuffix(_ELLIPSIS))]
    items = [f"{name!r}: {value!r}" for name, _, value in pairs]
    return "{" + ", ".join([*items, "..."] if text.endswith(_ELLIPSIS) else items) + "}"


def _values(text: str) -> str:
    """A mapping by attribute from `A:TEXT=VALUE,TEXT=VALUE`."""
    attribute, _, pairs = text.partition(":")
    return f"{{{attribute!r}: {_mapping(pairs)}}}"


def _list(text: str) -> str:
    return repr(listed_texts(text))


# By option of `send`: the key of `reading`, and the value in Python from the option's text.
_KEYS: dict[str, tuple[str, Callable[[str], str]]] = {
    "map": ("values", _values),
    "columns": ("columns", _mapping),
    "no-id": ("nobody", _list),
    "language": ("languages", _list),
    "labels": ("labels", _list),
    "codes": ("codes", _list),
    "id-width": ("id_width", str),
    "dates": ("dates", repr),
    "zone": ("zone", repr),
    "decimal": ("decimal", repr),
    "thousands": ("thousands", lambda text: repr(" " if text == SPACE else text)),
    "round": ("round", lambda _: "True"),
}
_ARGUMENTS = ("attribute", "strict")  # of a call, with the names of the options
_WORD = r"""(?:'[^']*'|"[^"]*"|[^\s'"])+?(?=[:,)]*(?:\s|$))"""
_OPTION = re.compile(rf"--(?:(round|strict)\b|([a-z][a-z-]*)(?:[= ](?!or |--)({_WORD}))?)")
_RUN = re.compile(rf"{_OPTION.pattern}(?: {_OPTION.pattern})*")


def in_python(line: str) -> str:
    """A line of a message, with arguments of a call in place of options of `send`.

    >>> in_python("2 texts are no periods: --dates '%d.%m.%Y'; --show-texts lists them")
    "2 texts are no periods: reading={'dates': '%d.%m.%Y'}"
    """
    clauses = line.split("; ")
    told = [_RUN.sub(_arguments, clause) for clause in clauses if not _options_of_files(clause)]
    if not told:
        told = [line[: _OPTION.search(line).start()].rstrip(" :,")]  # type: ignore[union-attr]
    return "; ".join(told).replace("(TEXT= empties", "('' empties")


def _options_of_files(clause: str) -> bool:
    """Whether a clause has an option that no call has."""
    names = {flag or name for flag, name, _ in _OPTION.findall(clause)}
    return not names <= {*_KEYS, *_ARGUMENTS}


def _arguments(run: re.Match[str]) -> str:
    """The arguments for options that stand side by side."""
    facts, arguments = list[str](), list[str]()
    for option in _OPTION.finditer(run[0]):
        name = option[1] or option[2]
        text = None if option[3] is None else "".join(shlex.split(option[3]))
        if name in _ARGUMENTS:
            arguments.append(name if text is None else f"{name}={text!r}")
        elif text is None and option[1] is None:
            arguments.append(f"reading[{_KEYS[name][0]!r}]")
        else:
            key, value = _KEYS[name]
            facts.append(f"{key!r}: {value(text or '')}")
    if facts:
        arguments.append(f"reading={{{', '.join(facts)}}}")
    return " ".join(arguments)
