"""The hosts that a request may name: a page of another site must not read a listener's answers.

The name of another site can resolve to the address of a listener (DNS rebinding). A browser then
sends that name as `Host`, and gives the answer to the site's page. An address in `Host`, or
`localhost`, is no name of another site.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address

from .addresses import is_loopback, listen_address

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s\[\]:@/?#]+)(?::\d+)?")
WRONG_HOST = "ask by the address of this listener, or declare the name that you use"


class Hosts:
    """The hosts of a listener: its own, the loopback, declared names, and addresses.

    address: HOST:PORT where it listens. On the loopback no other address is allowed.
    names: the declared names.
    """

    def __init__(self, address: str, names: Iterable[str] = ()) -> None:
        bound = listen_address(address)[0].lower()
        self._names = {bound, *(name.lower().rstrip(".") for name in names)}
        self._any_address = not is_loopback(bound)

    def allow(self, *headers: str) -> bool:
        """Whether a request is answered. headers: all its headers `Host`; there must be one."""
        named = _HOST.fullmatch(headers[0]) if len(headers) == 1 else None
        if named is None:
            return False
        host = named[1].strip("[]").rstrip(".").lower()
        if host in self._names or is_loopback(host):
            return True
        return self._any_address and _is_address(host)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
