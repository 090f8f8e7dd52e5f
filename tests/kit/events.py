"""What a releaser or a worker tells its operator, as the lines of a terminal."""

from __future__ import annotations

from stream_dp.services.process.events import Event, Tell


def lines_to(lines: list[str]) -> Tell:
    """A function that appends the line of each event."""

    def tell(event: Event) -> None:
        lines.append(event.message)

    return tell
