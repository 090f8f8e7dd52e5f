"""Topic names, confidential and public, and the number of partitions of each."""

from __future__ import annotations

from .study import Study

RELEASES = "releases"  # the only public one
REPORTS = "reports"
DEAD_LETTERS = "dead-letters"
JOURNAL = "journal"
CLOCK = "clock"  # a record appended here shows the cluster's time
GROUPS = "groups"
JOBS = "jobs"
TRANSCRIPTS = "transcripts"
RESULTS = "results"
JOB_TOPICS = {GROUPS: 1, JOBS: 1, TRANSCRIPTS: 1, RESULTS: 1}


def topics(
    partitions: int, batches: bool = False, scheduled: bool = True
) -> tuple[dict[str, int], dict[str, int]]:
    """The confidential topics and the public ones, with their numbers of partitions.

    partitions: of the reports.
    batches: whether the study has batch releases.
    scheduled: whether the calendar closes periods.
    """
    private = {
        REPORTS: partitions,
        DEAD_LETTERS: 1,
        JOURNAL: 1,
        **({CLOCK: 1} if scheduled else {}),
    }
    return {**private, **(JOB_TOPICS if batches else {})}, {RELEASES: 1}


def topics_of(study: Study, partitions: int) -> tuple[dict[str, int], dict[str, int]]:
    """The confidential topics and the public ones that a study needs."""
    return topics(partitions, bool(study.batches), study.periods.close != "marker")
