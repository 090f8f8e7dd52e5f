"""The checks of a public log against its study, after its hashes were checked on reading."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

from stream_dp.log.message import Message, canonical
from stream_dp.study import Study

from .public_reader import AnyPublished
from .published import refusal
from .signatures import Signatures
from .statements import checked_certificates
from .study_plan import checked_plan


def verified_lines(
    study: Study,
    messages: Sequence[Message],
    published: Sequence[AnyPublished],
    signatures: Signatures,
    growths: Iterable[tuple[str, int]],
) -> list[str]:
    """Checks budgets against the study; returns the valid properties in lines.

    growths: each panel with the number of its releases; checks a panel when it is asked for

    Raises Inconsistent.
    """
    head = messages[0].head
    # The declaration as other programs hash it, and as it was read here.
    hashes = {hashlib.sha256(canonical(head["study"])).hexdigest(), study.hash}
    if hashes != {head.get("study_hash")}:
        raise refusal(messages[0], "the study's declaration does not have its hash")
    plan = checked_plan(study, messages[0])
    spent = checked_certificates(study, plan, published)
    lines = [
        f"chain: {len(messages)} messages, every hash and part as its manifest says",
        signatures.line(),
        f"budget: {spent} of {study.rho} spent, as the certificates say",
    ]
    for name, releases in growths:
        noun = "release" if releases == 1 else "releases"
        lines.append(f"{name}: {releases} {noun}, every panel a prefix of the next")
    names = (release.certificate.release for release in published)
    data_sets = Counter(name for name in names if study.batch(name) is not None)
    for name, count in data_sets.items():
        stated = "1 data set, as its" if count == 1 else f"{count} data sets, each as its"
        lines.append(f"{name}: {stated} certificate says")
    return lines
