"""Mechanisms of other packages, found by their entry points.

A package's author answers for its claims: nobody here proves its cost. So certificates and plans
name the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Self

from pydantic import PlainSerializer, ValidatorFunctionWrapHandler, WrapValidator

from stream_dp.errors import UserError

KINDS = "stream_dp.kinds"
COUNTERS = "stream_dp.counters"


@dataclass(frozen=True)
class Plugin:
    """What a package has under a name. value: the object that its entry point names."""

    package: str
    value: Any

    def titled(self, title: str) -> str:
        """The title of a mechanism with the name of its package."""
        return f"{title} [{package_words(self.package)}]"


def package_words(package: str) -> str:
    """The package of a mechanism, whose author answers for the cost, in words."""
    return f"package {package}, whose author answers for the cost"


@cache
def plugin(group: str, name: str, kind: type) -> Plugin | None:
    """The plug-in of a name, or None without one.

    group: of entry points. kind: the type that the object must have.

    Raises UserError for a package that cannot be loaded, and for a name of several packages.
    """
    entries = [entry for entry in entry_points(group=group) if entry.name == name]
    packages = sorted({entry.dist.name for entry in entries if entry.dist is not None})
    if not packages:
        return None
    if len(packages) > 1:
        listed = ", ".join(packages)
        raise UserError(f"'{name}' is of several packages: {listed}; uninstall all but one")
    try:
        value = entries[0].load()
    except Exception as error:  # whatever a package raises
        raise UserError(
            f"'{name}' of the package {packages[0]} cannot be loaded:"
            f" {type(error).__name__}: {' '.join(str(error).split())}; mend or uninstall it"
        ) from None
    if not isinstance(value, kind):
        raise UserError(
            f"'{name}' of the package {packages[0]} is of the type {type(value).__name__}, not"
            f" {kind.__name__}; mend or uninstall it"
        )
    return Plugin(packages[0], value)


def plugin_packages(group: str) -> dict[str, str]:
    """The packages of a group by name. Loads no package."""
    return {e.name: e.dist.name for e in entry_points(group=group) if e.dist is not None}


class PluggedEnum(StrEnum):
    """An enumeration to which packages add members, which are found by their names.

    Iteration gives the members of this package alone.
    """

    @classmethod
    def plugged(cls, name: str) -> Self | None:
        """A new member of a plug-in package, or None. Raises UserError."""
        return None

    @classmethod
    def made(cls, package: str, *arguments: object) -> Self:
        """A member of a plug-in package, from the arguments of a listed member."""
        member: Self = cls.__new_member__(cls, *arguments)  # type: ignore[attr-defined]
        vars(member)["_package"] = package
        return member

    @property
    def package(self) -> str | None:
        """The package of the plug-in."""
        package: str | None = vars(self).get("_package")
        return package

    @classmethod
    def named(cls, name: object) -> Self | None:
        """The member with a name, or None. Raises UserError if its package cannot be loaded."""
        try:
            return cls(name) if isinstance(name, str) else None
        except ValueError:
            return None

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        member = cls.plugged(value) if isinstance(value, str) else None
        if member is not None:
            member._name_ = str(value)
            cls._value2member_map_[value] = member  # the same one from now on
        return member

    @classmethod
    def field(cls, suits: Callable[[Self], bool]) -> WrapValidator:
        """Lets a field of listed members take a suitable member of another package, too."""

        def checked(value: object, listed: ValidatorFunctionWrapHandler) -> object:
            member = cls.named(value)
            return member if member is not None and suits(member) else listed(value)

        return WrapValidator(checked)


# A field with such members is written as it is: the members are not all listed.
AS_IT_IS = PlainSerializer(lambda member: member)
