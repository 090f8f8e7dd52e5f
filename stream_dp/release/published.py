"""What publications of all families have in common: a certificate and a message."""

from __future__ import annotations

from dataclasses import dataclass

from stream_dp.errors import Inconsistent
from stream_dp.log.message import Message

from .certificate import Certificate


def refusal(message: Message, why: str) -> Inconsistent:
    """The error for a refused message of a public log."""
    return Inconsistent(f"public log: message {message.index}: {why}")


@dataclass(frozen=True)
class Published:
    """A published release."""

    certificate: Certificate
    message: Message

    @property
    def title(self) -> str:
        """The release and the period."""
        return f"{self.certificate.release} at {self.certificate.period}"

    @property
    def new_columns(self) -> tuple[str, ...]:
        """The labels of the columns that it adds to a panel; none of a data set."""
        return ()

    def refusal(self, why: str) -> Inconsistent:
        """The error for the refused release."""
        return refusal(self.message, f"{self.title}: {why}")
