"""Entry 0 of the journal: the beginning of a study."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stream_dp import __version__
from stream_dp.log.log import TopicInfo
from stream_dp.log.message import START, Message, build_message, split_part
from stream_dp.log.signing import SigningKey
from stream_dp.release.published_panels import STUDY_TYPE
from stream_dp.release.study_plan import StudyPlan, plan_parts
from stream_dp.study import Study
from stream_dp.study.topics import RELEASES

from .journal import DESIGN
from .journal_heads import GenesisHead, ReportsTopic
from .journal_parts import entry_parts, study_records


def genesis(
    study: Study,
    plan: StudyPlan,
    design: bytes,
    reports: TopicInfo,
    key: bytes,
    simulated: bool,
    places: Mapping[str, str],
    groups: str | None = None,
    signer: SigningKey | None = None,
) -> Message:
    """Entry 0, with the study's design, and its declaration as the first public message.

    plan: the charges and the statements of all releases.
    design: the mechanisms' computations in floats (`Plan.design`), and simulated errors of panels.
    key: the key of the hash of ids.
    simulated: whether the noise is seeded.
    places: the identities of both logs, by `log` and `public`.
    groups: the hash of the table of groups or of places, if the study declares any.
    signer: signs the public messages, and is named in the first.
    """
    manifest = {
        "type": STUDY_TYPE,
        "study": msgspec.json.decode(study.canonical()),
        "study_hash": study.hash,
        "code_version": __version__,
        **({} if signer is None else {"signer": signer.public}),
    }
    declared = build_message(0, START, manifest, plan_parts(plan))
    public = study_records(declared, RELEASES, study, STUDY_TYPE, signer=signer)
    head = GenesisHead(
        number=0,
        study_hash=study.hash,
        reports=ReportsTopic(reports.identity, reports.partitions),
        key=key.hex(),
        simulated=simulated,
        cut=dict.fromkeys(range(reports.partitions), 0),
        marks=dict.fromkeys(range(reports.partitions), 0),
        charges=[],
        public=[declared.hash],
        code_version=__version__,
        groups=groups,
        signer=None if signer is None else signer.public,
        places=dict(places),
    )
    parts = [*split_part(DESIGN, design), *entry_parts(public, {})]
    return build_message(0, START, head.as_dict(), parts)
