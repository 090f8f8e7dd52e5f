"""Sequences of messages between processes and stores: a lane for each, a row for each message."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from drawings import COLOURS, TEXT, Drawing, drawn, settings
from matplotlib import pyplot


@dataclass(frozen=True)
class Sequence:
    """lanes: processes and stores, left to right. steps: from, to, and what happens; a step whose
    lanes are equal happens inside."""

    caption: str
    lanes: tuple[str, ...]
    steps: tuple[tuple[int, int, str], ...]


SEQUENCES = {
    "report": Sequence(
        "The way of a report from a sender to the counts of its period.",
        ("sender", "reports", "releaser", "population", "dead letters"),
        (
            (0, 1, "appends a report"),
            (1, 2, "is read in order"),
            (2, 2, "decodes, checks the schema"),
            (2, 4, "is rejected, with a reason"),
            (2, 3, "is accepted: the last value of a cell counts"),
            (3, 2, "counts of the period, at its cut"),
        ),
    ),
    "close": Sequence(
        "A period is decided once. The same bytes are published after every crash.",
        ("releaser", "snapshots", "journal", "public log"),
        (
            (0, 0, "reads up to the cut, closes the population"),
            (0, 1, "writes the population"),
            (0, 0, "charges the ledger"),
            (0, 0, "draws the noise"),
            (0, 0, "counts, steps the mechanisms"),
            (0, 2, "charge, state, cut and public bytes: one transaction"),
            (2, 3, "the same bytes are published"),
        ),
    ),
    "job": Sequence(
        "A batch job: a worker writes the noise of a round before using it.",
        ("releaser", "jobs", "worker", "transcript", "public log"),
        (
            (0, 1, "a job, with its charge and its snapshot"),
            (2, 3, "takes the lease of the job"),
            (2, 2, "draws the noise of a round"),
            (2, 3, "writes the round"),
            (3, 2, "reads it back: the lease is still its own"),
            (2, 2, "fits, until the last round"),
            (2, 0, "the result, in parts"),
            (0, 4, "is decided in the journal, then published"),
        ),
    ),
    "restore": Sequence(
        "A restore accepts a backup only if the backup is as new as the public log.",
        ("operator", "backup", "restore", "public log", "releaser"),
        (
            (0, 2, "names the backup and the last public head"),
            (1, 2, "files, each against its hash"),
            (3, 2, "the head that readers have"),
            (2, 2, "refuses an older journal"),
            (2, 3, "restores what is missing"),
            (4, 4, "resumes: publishes decided bytes, reads reports again"),
        ),
    ),
}


@cache
def drawing(name: str) -> Drawing:
    """The picture of a sequence. Raises KeyError for a name without one."""
    sequence = SEQUENCES[name]
    lanes, steps = len(sequence.lanes), len(sequence.steps)
    with settings():
        figure, axes = pyplot.subplots(figsize=(7.0, 0.8 + 0.42 * steps))
        axes.set_axis_off()
        axes.set_xlim(-0.6, lanes - 0.1)
        axes.set_ylim(-steps - 0.2, 0.6)
        for lane, label in enumerate(sequence.lanes):
            axes.text(lane, 0.25, label, ha="center", va="bottom", weight="bold", fontsize=9)
            axes.plot([lane, lane], [0.1, -steps], color=TEXT, lw=0.6, alpha=0.5)
        for row, (start, end, text) in enumerate(sequence.steps, 1):
            y = -row + 0.3
            if start == end:
                axes.plot([start], [y - 0.1], "o", color=COLOURS[1], markersize=5)
                axes.text(start + 0.08, y - 0.1, text, va="center", fontsize=8)
                continue
            arrow = {"arrowstyle": "->", "color": COLOURS[0], "lw": 1.4}
            axes.annotate("", (end, y - 0.2), (start, y - 0.2), arrowprops=arrow)
            axes.text(min(start, end) + 0.08, y - 0.12, text, va="bottom", fontsize=8)
        return drawn(figure, sequence.caption)
