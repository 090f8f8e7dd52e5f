"""The schemas and the mapping that a period's records were read with, as the journal keeps them."""

from __future__ import annotations

import msgspec


class SchemaUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """A schema of the reports of a period.

    sha256: of its JSON with sorted keys.
    since: by partition, the first offset at which it was known, if it was looked up before in vain;
        a partition that is left out knew it from the start.
    """

    sha256: str
    since: dict[int, int] = {}

    def known_at(self, partition: int, offset: int) -> bool:
        """Tells whether it was known when the record at an offset was read."""
        return offset >= self.since.get(partition, 0)


class ReadAs(msgspec.Struct, frozen=True, omit_defaults=True):
    """The mapping and the schemas that the records of a period were read with.

    mapping: the hash of the mapping.
    schemas: by schema id, the schemas in use.
    """

    mapping: str
    schemas: dict[int, SchemaUse] = {}
