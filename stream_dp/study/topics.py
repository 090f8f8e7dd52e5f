"""Topic names, confidential and public, and their numbers of partitions."""

from __future__ import annotations

from . import Study

RELEASES = "releases"  # public
ESTIMATES = "estimates"  # public: answers for other systems, where [run] asks for them
STUDY = "study"  # whose log it is
REPORTS = "reports"
DEAD_LETTERS = "dead-letters"
JOURNAL = "journal"
CLOCK = "clock"  # a record appended here shows the cluster's time
GROUPS = "groups"
JOBS = "jobs"
TRANSCRIPTS = "transcripts"
RESULTS = "results"
HEARTBEATS = "heartbeats"  # a partition for each kind of process, which keeps the last record
CLOSES = "closes"  # where the markers that close periods are
ORDERS = "orders"  # to close a period in parts
MANIFESTS = "manifests"
PROCESSES = ("releaser", "aggregator", "worker")  # by their partitions of the heartbeats
PART_TOPICS = {CLOSES: 1, ORDERS: 1, MANIFESTS: 1}
UNSEALED = frozenset(
    {STUDY, REPORTS, CLOCK, CLOSES}
)  # on a cluster: topics that others write to, too
JOB_TOPICS = {GROUPS: 1, JOBS: 1, TRANSCRIPTS: 1, RESULTS: 1}


def topics(
    partitions: int,
    batches: bool = False,
    scheduled: bool = True,
    parts: bool = False,
    estimates: bool = False,
) -> tuple[dict[str, int], dict[str, int]]:
    """The confidential and the public topics, with their numbers of partitions.

    partitions: of the reports.
    batches: whether the study has batch releases.
    scheduled: whether the calendar closes periods.
    parts: whether periods are closed in parts.
    estimates: whether answers have a topic.
    """
    private = {
        STUDY: 1,
        REPORTS: partitions,
        DEAD_LETTERS: 1,
        JOURNAL: 1,
        HEARTBEATS: len(PROCESSES),
        **({CLOCK: 1} if scheduled else {}),
        **(PART_TOPICS if parts else {}),
    }
    public = {RELEASES: 1, **({ESTIMATES: 1} if estimates else {})}
    return {**private, **(JOB_TOPICS if batches else {})}, public


def topics_of(
    study: Study, partitions: int, parts: bool = False, estimates: bool = False
) -> tuple[dict[str, int], dict[str, int]]:
    """The confidential and the public topics of a study."""
    scheduled = study.periods.close != "marker"
    return topics(partitions, bool(study.batches), scheduled, parts, estimates)
